//! Packets that wait to be written to a file. Nothing of a packet is given up before all of it is in the file.

use capture::{PACKET_HEADER, packet_end, packet_header};
use packet::{Frame, Frames};
use std::io::{ErrorKind, Result, Write};
use std::time::Duration;

/// Room in bytes: for one packet of any length, with the headers of a tunnel, or many short ones.
const ROOM: usize = 1 << 17;

/// See the module.
pub(super) struct Backlog {
    /// Packets with their headers, as in the file.
    bytes: Vec<u8>,
    /// Number of these bytes that are in the file.
    done: usize,
}

/// Packets that were written, and the error that kept others from it.
pub(super) struct Written {
    pub(super) packets: u64,
    /// Bytes of these packets, with their headers.
    pub(super) bytes: u64,
    pub(super) outcome: Result<()>,
}

impl Backlog {
    pub(super) fn new() -> Backlog {
        Backlog { bytes: Vec::with_capacity(ROOM), done: 0 }
    }

    pub(super) fn has_room(&self, frame: &Frame<'_>) -> bool {
        self.bytes.len() + PACKET_HEADER + frame.len() as usize <= ROOM
    }

    /// Adds a frame that was seen at `time` since 1970.
    pub(super) fn push(&mut self, time: Duration, frames: &Frames<'_>, frame: &Frame<'_>) {
        self.bytes.extend(packet_header(time, frame.len()));
        let start = self.bytes.len();
        self.bytes.resize(start + frame.len() as usize, 0);
        frames.copy_to(frame, &mut self.bytes[start..]);
    }

    /// Writes as much as `file` takes. The backlog remembers how much of a packet was written, so that the rest can follow.
    pub(super) fn write_to(&mut self, file: &mut impl Write) -> Written {
        let mut outcome = Ok(());
        while self.done < self.bytes.len() && outcome.is_ok() {
            match file.write(&self.bytes[self.done..]) {
                Ok(0) => outcome = Err(ErrorKind::WriteZero.into()),
                Ok(written) => self.done += written,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => outcome = Err(error),
            }
        }
        let (mut packets, mut whole) = (0, 0);
        for end in ends(&self.bytes).take_while(|end| *end <= self.done) {
            (packets, whole) = (packets + 1, end);
        }
        self.bytes.drain(..whole);
        self.done -= whole;
        Written { packets, bytes: whole as u64, outcome }
    }

    /// Forgets the part of the first packet that was written: it is no longer in the file, or the file is another one.
    pub(super) fn rewind(&mut self) {
        self.done = 0;
    }

    /// Gives up all packets. Returns how many there were.
    pub(super) fn give_up(&mut self) -> u64 {
        let packets = ends(&self.bytes).count() as u64;
        self.bytes.clear();
        self.done = 0;
        packets
    }
}

/// Returns where each packet ends.
fn ends(bytes: &[u8]) -> impl Iterator<Item = usize> {
    let mut end = 0;
    std::iter::from_fn(move || {
        end += packet_end(bytes.get(end..)?)?;
        Some(end)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet::{BurstStorage, FrameBlock};
    use std::io;

    /// A file with limited room, which takes few bytes at once.
    struct Small {
        bytes: Vec<u8>,
        room: usize,
    }

    impl Write for Small {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let taken = bytes.len().min(self.room - self.bytes.len()).min(50);
            if taken == 0 {
                return Err(ErrorKind::StorageFull.into());
            }
            self.bytes.extend(&bytes[..taken]);
            Ok(taken)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Adds frames of these lengths while there is room. Returns how many were added.
    fn push(backlog: &mut Backlog, lengths: &[usize]) -> usize {
        let block: FrameBlock = lengths.iter().map(|length| vec![*length as u8; *length]).collect();
        let mut storage = BurstStorage::default();
        let mut burst = storage.start();
        (0..block.len()).for_each(|number| burst.push(block.frame(number)));
        let frames = burst.frames();
        let fitting = frames.as_slice().iter().take_while(|frame| {
            let fits = backlog.has_room(frame);
            if fits {
                backlog.push(Duration::from_secs(1), &frames, frame);
            }
            fits
        });
        fitting.count()
    }

    /// Returns the lengths of the packets in a file without its header, which has to be whole.
    fn lengths(bytes: &[u8]) -> Vec<usize> {
        let file = [&capture::file_header(1 << 18)[..], bytes].concat();
        let packets = capture::Reader::new(io::Cursor::new(file)).unwrap();
        packets.map(|packet| packet.unwrap().bytes.len()).collect()
    }

    #[test]
    fn packets_that_find_no_room_follow_when_there_is_some() {
        let header = PACKET_HEADER;
        for room in 0..2 * (header + 60) + header + 90 {
            let (mut backlog, mut file) = (Backlog::new(), Small { bytes: Vec::new(), room });
            assert_eq!(push(&mut backlog, &[60, 60, 90]), 3);
            let first = backlog.write_to(&mut file);
            assert_eq!(first.outcome.unwrap_err().kind(), ErrorKind::StorageFull);
            let whole = [0, header + 60, 2 * (header + 60)].into_iter().filter(|end| *end <= room).max().unwrap();
            assert_eq!((first.bytes, first.packets), (whole as u64, (whole / (header + 60)) as u64), "room for {room}");
            // A file is cut back to whole packets, and its writer starts the next one again.
            let mut cut_back = Small { bytes: file.bytes[..whole].to_vec(), room: 1 << 20 };
            backlog.rewind();
            let second = backlog.write_to(&mut cut_back);
            assert!(second.outcome.is_ok());
            assert_eq!((first.packets + second.packets, backlog.give_up()), (3, 0));
            assert_eq!(lengths(&cut_back.bytes), [60, 60, 90]);
        }
    }

    #[test]
    fn a_pipe_gets_the_rest_of_a_packet_later() {
        let (mut backlog, mut pipe) = (Backlog::new(), Small { bytes: Vec::new(), room: 0 });
        push(&mut backlog, &[60, 60, 90]);
        let mut packets = 0;
        for room in (0..1000).step_by(7) {
            pipe.room = room;
            packets += backlog.write_to(&mut pipe).packets;
        }
        assert_eq!((packets, lengths(&pipe.bytes)), (3, vec![60, 60, 90]));
    }

    #[test]
    fn a_backlog_is_bounded_and_has_room_for_any_frame() {
        let mut backlog = Backlog::new();
        assert_eq!(push(&mut backlog, &[packet::MAX_FRAME as usize]), 1);
        while push(&mut backlog, &[1514; 8]) == 8 {}
        assert!(backlog.bytes.len() <= ROOM && ROOM - backlog.bytes.len() < 1514 + PACKET_HEADER);
        assert_eq!(backlog.bytes.capacity(), ROOM);
        assert_eq!(backlog.give_up(), 1 + ((ROOM - PACKET_HEADER - packet::MAX_FRAME as usize) / 1530) as u64);
        assert_eq!(push(&mut backlog, &[60]), 1);
    }
}
