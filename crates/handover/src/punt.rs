//! Metadata of a packet for a controller.

/// Metadata of a packet for a controller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Punt {
    /// Number of the port that received it.
    pub in_port: u32,
    /// Cookie of the flow that sends it.
    pub cookie: u64,
    /// The flow's table.
    pub table: u8,
    /// The number of the reason for which it is sent.
    pub reason: u8,
    /// The packet's metadata.
    pub metadata: u64,
    /// Length of the whole packet, of which only a part may be in the ring.
    pub total: u32,
}

/// Words before a packet's bytes.
pub(crate) const HEADER: usize = 4;

impl Punt {
    /// Returns the words before the bytes of a packet, of which `len` are in the ring.
    #[inline(always)]
    pub(crate) fn header(&self, len: usize) -> [u64; HEADER] {
        let lengths = u64::from(self.total) << 32 | len as u64;
        let place = u64::from(self.table) << 40 | u64::from(self.reason) << 32 | u64::from(self.in_port);
        [lengths, place, self.cookie, self.metadata]
    }

    /// Returns the metadata in these words, and the number of bytes that follow.
    #[inline(always)]
    pub(crate) fn parse([lengths, place, cookie, metadata]: [u64; HEADER]) -> (Punt, usize) {
        let punt = Punt {
            in_port: place as u32,
            cookie,
            table: (place >> 40) as u8,
            reason: (place >> 32) as u8,
            metadata,
            total: (lengths >> 32) as u32,
        };
        (punt, lengths as u32 as usize)
    }
}
