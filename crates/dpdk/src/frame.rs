//! Buffers that are lent, and frames that come and go. Addresses are those of this process.

// As `dpdk/port/port.h` has them.
const MORE: u16 = 1;
const IS_OWN: u16 = 2;
const WORK: u16 = 4;

/// Whose buffer is lent. Each kind has ids of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Kind {
    /// A guest's. These are used first, in the order in which they were lent.
    Guest = 1,
    /// The switch's own: the reserve, for the time when there are no guest's.
    Own = 2,
}

/// A buffer to receive into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Loan {
    addr: u64,
    len: u32,
    id: u32,
    start: u32,
    reserved: u32,
}

impl Loan {
    /// Describes a buffer of `len` bytes at `addr`, in which a frame begins `start` bytes after its beginning: 12 or more, as
    /// virtio's drivers put a header there. Records of frames name it by `id`.
    pub fn new(addr: u64, len: u32, start: u16, id: u32) -> Loan {
        Loan { addr, len, id, start: start.into(), reserved: 0 }
    }

    /// Returns its id.
    pub fn id(&self) -> u32 {
        self.id
    }
}

/// A received frame, or a piece of it, in a buffer that was lent.
///
/// The bytes lie in the buffer, most often at its `start`; a driver that has a header of its own puts them further back, and the
/// pieces after the first may begin before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Frame {
    /// Address of the first byte.
    pub addr: u64,
    /// The buffer's id. The buffer is no longer lent.
    pub id: u32,
    /// Bytes of this piece.
    pub len: u16,
    flags: u16,
}

impl Frame {
    /// Reports whether the frame goes on in the next record.
    pub fn more(&self) -> bool {
        self.flags & MORE != 0
    }

    /// Returns whose buffer it is.
    pub fn kind(&self) -> Kind {
        if self.flags & IS_OWN != 0 { Kind::Own } else { Kind::Guest }
    }
}

/// A frame to send, or a piece of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct ToSend {
    addr: u64,
    id: u32,
    len: u16,
    flags: u16,
}

impl ToSend {
    /// Describes `len` bytes at `addr`, a frame or its last piece. [`Transmit::done`](crate::Transmit::done) names it by `id`.
    pub fn new(addr: u64, len: u16, id: u32) -> ToSend {
        ToSend { addr, id, len, flags: 0 }
    }

    /// Returns its id.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Returns its address.
    pub fn addr(&self) -> u64 {
        self.addr
    }

    /// Returns its length in bytes.
    #[allow(clippy::len_without_is_empty)] // Never empty.
    pub fn len(&self) -> u16 {
        self.len
    }

    /// Reports whether the frame goes on in the next record.
    pub fn more(&self) -> bool {
        self.flags & MORE != 0
    }

    /// Says that the frame goes on in the next record.
    pub fn and_more(self) -> ToSend {
        ToSend { flags: self.flags | MORE, ..self }
    }

    /// Reports whether the frame, which begins here, leaves work to the device.
    pub fn leaves_work(&self) -> bool {
        self.flags & WORK != 0
    }

    /// Says that the frame, which begins here, leaves work to the device: see [`Transmit::send_work`](crate::Transmit::send_work).
    pub fn and_work(self) -> ToSend {
        ToSend { flags: self.flags | WORK, ..self }
    }
}

/// Work on a frame that the device does: the transport checksum, and the division into segments. The frame has its headers in its first
/// piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Work {
    /// Length of the Ethernet header in bytes, with VLAN tags.
    pub link: u16,
    /// Length of the IP header.
    pub network: u16,
    /// Length of the TCP or UDP header.
    pub transport: u16,
    /// Payload of each segment but the last; 0: the frame is not to be cut.
    pub segment: u16,
    /// Whether the IP header is of version 6.
    pub is_v6: bool,
    /// Whether it is UDP, which is not cut.
    pub is_udp: bool,
}
