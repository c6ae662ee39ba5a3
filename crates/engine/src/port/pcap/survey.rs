//! A survey of a capture file: how many packets it holds, and how many of these are replayed.

use capture::{Captured, Cut, Error, Reader};
use packet::{FrameBlock, MAX_FRAME, MIN_FRAME};

/// The result of a survey.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// Frames that are replayed.
    pub frames: u64,
    /// Of these, frames of which the start was captured only.
    pub snapped: u64,
    /// Packets that are shorter or longer than any frame, and are not replayed.
    pub unfit: u64,
    /// The end of the file, if it is cut off.
    pub cut: Option<Cut>,
}

impl Survey {
    /// Reads a file to its end.
    pub fn of(file: Reader) -> Result<Survey, Error> {
        let mut survey = Survey::default();
        file.filter_map(|packet| survey.count(packet)).try_for_each(|frame| frame.map(drop))?;
        Ok(survey)
    }

    /// Reads a file to its end, with the frames in it.
    pub(super) fn with_frames(file: Reader) -> Result<(Survey, FrameBlock), Error> {
        let mut survey = Survey::default();
        let frames = file.filter_map(|packet| survey.count(packet)).collect::<Result<_, _>>()?;
        Ok((survey, frames))
    }

    /// Counts a packet that was read of a file, and passes it on if it is a frame.
    fn count(&mut self, packet: Result<Captured, Error>) -> Option<Result<Vec<u8>, Error>> {
        match packet {
            Ok(packet) if is_frame(&packet) => {
                self.frames += 1;
                self.snapped += u64::from(packet.is_snapped());
                return Some(Ok(packet.bytes));
            }
            Ok(_) => self.unfit += 1,
            Err(Error::Cut(cut)) => self.cut = Some(cut),
            Err(error) => return Some(Err(error)),
        }
        None
    }

    /// Returns remarks for users, a sentence each.
    pub fn remarks(&self) -> Vec<String> {
        let unfit = format!(
            "packets that are left out, as they are not Ethernet frames (shorter than {MIN_FRAME} bytes, or longer than \
             {MAX_FRAME}): {}",
            self.unfit
        );
        let snapped =
            format!("frames that are replayed as captured, though they were longer (snapped): {}", self.snapped);
        let counted = [(self.unfit, unfit), (self.snapped, snapped)];
        let counted = counted.into_iter().filter(|(count, _)| *count > 0).map(|(_, remark)| remark);
        counted.chain(self.cut.iter().map(Cut::to_string)).collect()
    }
}

fn is_frame(packet: &Captured) -> bool {
    (MIN_FRAME as usize..=MAX_FRAME as usize).contains(&packet.bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use capture::{file_header, packet_header};
    use std::io::Cursor;
    use std::time::Duration;

    /// Returns a file of packets of these lengths, the second of which is snapped.
    fn file(lengths: &[usize]) -> Vec<u8> {
        let packet = |(number, length): (usize, &usize)| {
            let mut header = packet_header(Duration::ZERO, *length as u32);
            header[12] = header[12].wrapping_add(u8::from(number == 1));
            [&header[..], &vec![7; *length]].concat()
        };
        let packets: Vec<u8> = lengths.iter().enumerate().flat_map(packet).collect();
        [&file_header(262_144)[..], &packets].concat()
    }

    #[test]
    fn skipped_packets_are_reported() {
        let whole = file(&[60, 61, 13, 14, 0, 65_557, 65_558]);
        let survey = Survey::of(Reader::new(Cursor::new(whole.clone())).unwrap()).unwrap();
        assert_eq!(survey, Survey { frames: 4, snapped: 1, unfit: 3, cut: None });
        let remarks = survey.remarks();
        assert!(remarks[0].ends_with("longer than 65557): 3") && remarks[1].ends_with("(snapped): 1"), "{remarks:?}");

        let cut = whole[..whole.len() - 1].to_vec();
        let (survey, frames) = Survey::with_frames(Reader::new(Cursor::new(cut)).unwrap()).unwrap();
        let cut = Cut { offset: (whole.len() - 65_574) as u64, bytes: 65_573 };
        assert_eq!((survey, frames.len()), (Survey { frames: 4, snapped: 1, unfit: 2, cut: Some(cut) }, 4));
        assert!(survey.remarks()[2].contains("its last 65573 bytes, from offset"), "{:?}", survey.remarks());
        assert!(Survey::of(Reader::new(Cursor::new(file(&[60]))).unwrap()).unwrap().remarks().is_empty());
    }
}
