//! Limits of guest memory, and the reasons for which it cannot be mapped.

/// Most regions that one guest may share. QEMU asks for at most 509 slots, DPDK for 8.
pub const MAX_REGIONS: usize = 64;

/// Most bytes in all regions of one guest: they take address space, whether memory backs them or not.
pub const MAX_GUEST: u64 = 1 << 40;

/// Most bytes of address space for all guests: half of that of a process on x86-64.
pub(super) const MAX_ALL: u64 = 1 << 46;

/// Maximum number of watched mappings. More are refused, since a page that vanishes would kill the process. Each takes two
/// or three of the process's memory areas, which the kernel limits to 65530 (vm.max_map_count).
// Few under Miri, which looks at every slot whenever one is searched.
pub(super) const SLOTS: usize = if cfg!(miri) { 128 } else { 16384 };

/// Reason why a set of regions cannot be mapped. `NoAddresses` and those after it are not the frontend's fault alone.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // The messages explain the fields.
pub enum MemoryError {
    #[error("{0} memory regions; at most {MAX_REGIONS} are taken")]
    TooMany(usize),
    #[error("memory region at guest address {guest_addr:#x} is empty or its end wraps around (length {len:#x})")]
    BadLength { guest_addr: u64, len: u64 },
    #[error("memory regions at guest addresses {first:#x} and {second:#x} overlap")]
    Overlap { first: u64, second: u64 },
    #[error(
        "memory region at guest address {guest_addr:#x} ends at offset {end:#x} of its file, which is {size:#x} long"
    )]
    BeyondFile { guest_addr: u64, end: u64, size: u64 },
    #[error("no memory region of length {len:#x} at guest address {guest_addr:#x} to remove")]
    NoSuchRegion { guest_addr: u64, len: u64 },
    #[error(
        "memory region at guest address {guest_addr:#x} is not memory: its file is neither on a tmpfs or hugetlbfs nor from \
         memfd_create; reading other files may take for ever (memory = \"any\" of the port takes them nevertheless)"
    )]
    NotMemory { guest_addr: u64 },
    #[error("the memory regions have {len:#x} bytes in all; at most {MAX_GUEST:#x} of one guest are mapped")]
    TooLarge { len: u64 },
    #[error(
        "{len:#x} bytes of addresses wanted, but those of all guests have {taken:#x} already; at most {max:#x} are given to \
         them together",
        max = MAX_ALL
    )]
    NoAddresses { len: u64, taken: u64 },
    #[error(
        "no more memory can be watched for pages that vanish: {max} mappings of all guests are; share it in fewer regions",
        max = SLOTS
    )]
    Unwatched,
    #[error("cannot watch memory for pages that vanish: {0}")]
    Handler(rustix::io::Errno),
    #[error(
        "cannot allocate the pages that the memory file of the region at guest address {guest_addr:#x} lacks (length {len:#x}): \
         {source}; if it is made of huge pages, there are not enough of them"
    )]
    Fill { guest_addr: u64, len: u64, source: rustix::io::Errno },
    #[error(
        "memory region at guest address {guest_addr:#x} may have holes: this process has no userfaultfd(2), and can't refuse them (holes = \
         \"fill\" of the port allocates them)"
    )]
    Unguarded { guest_addr: u64 },
    #[error("cannot map memory region at guest address {guest_addr:#x}, length {len:#x}: {source}")]
    Map { guest_addr: u64, len: u64, source: rustix::io::Errno },
}
