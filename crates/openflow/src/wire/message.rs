//! Reading and writing big-endian messages.

use super::ofp::{HEADER_LEN, VERSION};

/// The rest of a message, or of a part of it. A read beyond its end returns `None`, and never panics.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*head)
    }

    pub fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// Reads a big-endian number of `len` bytes, at most 16.
    pub fn number(&mut self, len: usize) -> Option<u128> {
        Some(self.take(len)?.iter().fold(0, |number, byte| number << 8 | u128::from(*byte)))
    }

    pub fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(head)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A message that can be appended to.
pub(crate) trait Put {
    fn put(&mut self, bytes: &[u8]);

    fn u8(&mut self, value: u8) {
        self.put(&[value]);
    }

    fn u16(&mut self, value: u16) {
        self.put(&value.to_be_bytes());
    }

    fn u32(&mut self, value: u32) {
        self.put(&value.to_be_bytes());
    }

    fn u64(&mut self, value: u64) {
        self.put(&value.to_be_bytes());
    }

    fn zeros(&mut self, len: usize) {
        self.put(&[0; 8][..len]);
    }
}

impl Put for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// Appends a message whose body `body` writes. The message must stay below 64 KiB.
pub(crate) fn put_message(out: &mut Vec<u8>, kind: u8, xid: u32, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.put(&[VERSION, kind, 0, 0]);
    out.u32(xid);
    body(out);
    let len = (out.len() - start) as u16;
    out[start + 2..start + 4].copy_from_slice(&len.to_be_bytes());
}

/// A whole message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message<'a> {
    pub version: u8,
    pub kind: u8,
    pub xid: u32,
    /// The whole message with its header, for errors.
    pub bytes: &'a [u8],
}

impl<'a> Message<'a> {
    /// Reads the header of `bytes`, which are one whole message.
    pub fn parse(bytes: &'a [u8]) -> Option<Message<'a>> {
        let mut reader = Reader(bytes);
        let [version, kind, _, _] = reader.array()?;
        Some(Message { version, kind, xid: reader.u32()?, bytes })
    }

    pub fn body(&self) -> Reader<'a> {
        Reader(&self.bytes[HEADER_LEN..])
    }
}
