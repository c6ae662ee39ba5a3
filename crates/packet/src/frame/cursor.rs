//! A position in a frame, from which its bytes are taken part by part.

use super::Segment;

/// A position in a frame.
#[derive(Clone, Debug)]
pub struct Cursor<'a, I> {
    /// What is left of the segment at the position.
    front: Segment<'a>,
    behind: I,
}

impl<'a, I: Iterator<Item = Segment<'a>> + Clone> Cursor<'a, I> {
    /// Returns the beginning of the frame of these segments.
    pub fn new(segments: impl IntoIterator<IntoIter = I>) -> Cursor<'a, I> {
        Cursor { front: Segment::from(&[][..]), behind: segments.into_iter() }
    }

    /// Returns the next `len` bytes, or as many as there are, and moves behind them.
    pub fn take(&mut self, len: u32) -> Pieces<'a, I> {
        let pieces = Pieces { at: self.clone(), left: len };
        self.skip(len);
        pieces
    }

    /// Moves behind the next `len` bytes.
    pub fn skip(&mut self, mut len: u32) {
        while len > 0
            && let Some(piece) = self.piece(len)
        {
            len -= piece.len();
        }
    }

    /// Returns as many of the next bytes as lie in one segment, at least one and at most `most`, and moves behind them.
    fn piece(&mut self, most: u32) -> Option<Segment<'a>> {
        while self.front.is_empty() {
            self.front = self.behind.next()?;
        }
        let (piece, rest) = self.front.split_at(most);
        self.front = rest;
        Some(piece)
    }
}

/// A part of a frame: segments, none of them empty.
#[derive(Clone, Debug)]
pub struct Pieces<'a, I> {
    at: Cursor<'a, I>,
    left: u32,
}

impl<'a, I: Iterator<Item = Segment<'a>> + Clone> Iterator for Pieces<'a, I> {
    type Item = Segment<'a>;

    fn next(&mut self) -> Option<Segment<'a>> {
        if self.left == 0 {
            return None;
        }
        let piece = self.at.piece(self.left)?;
        self.left -= piece.len();
        Some(piece)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_taken_across_segments() {
        let bytes: Vec<u8> = (0..10).collect();
        let segments = [&bytes[..3], &bytes[3..3], &bytes[3..4], &bytes[4..]].map(Segment::from);
        let mut at = Cursor::new(segments);
        let lengths = |part: Pieces<'_, _>| part.map(|piece| piece.len()).collect::<Vec<_>>();
        assert_eq!(lengths(at.take(2)), [2]);
        assert_eq!(lengths(at.take(0)), [0; 0]);
        assert_eq!(lengths(at.take(4)), [1, 1, 2]);
        at.skip(1);
        let (rest, none) = (at.take(u32::MAX), at.take(1));
        assert_eq!(rest.clone().map(|piece| piece.read::<1>().unwrap()[0]).collect::<Vec<_>>(), [7]);
        assert_eq!((lengths(rest), lengths(none)), (vec![3], vec![]));
    }
}
