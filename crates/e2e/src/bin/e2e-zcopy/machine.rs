//! A virtual machine whose memory is an area: its nested page tables follow exchanges.
//!
//! Its program runs in real mode, without an operating system.

use std::cell::Cell;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use crate::pages::{area, expect, fill, whole};
use crate::{Failed, ensure};
use zcopy::{Mapping, PAGE};

/// Numbers of Linux's <linux/kvm.h>.
const KVM_CREATE_VM: u32 = 0xae01;
const KVM_GET_VCPU_MMAP_SIZE: u32 = 0xae04;
const KVM_CREATE_VCPU: u32 = 0xae41;
const KVM_RUN: u32 = 0xae80;
const KVM_SET_USER_MEMORY_REGION: u32 = 0x4020_ae46;
const KVM_SET_REGS: u32 = 0x4090_ae82;
const KVM_GET_SREGS: u32 = 0x8138_ae83;
const KVM_SET_SREGS: u32 = 0x4138_ae84;
const KVM_EXIT_IO: u32 = 2;

const ROUNDS: u64 = 50;

/// Addresses of the program and of the area.
const CODE: u64 = 0x1000;
const DATA: u64 = 0x10000;

/// Counts in its last page that it watches, waits until the first word of its memory changes, adds one to the second word, and
/// shows the first one; forever.
const WATCH: [u8; 32] = [
    0x66, 0xa1, 0x00, 0x00, // begin: mov eax, [0]
    0x66, 0x89, 0xc3, // mov ebx, eax
    0x66, 0xff, 0x06, 0x00, 0x70, // inc dword [0x7000]
    0x66, 0xa1, 0x00, 0x00, // again: mov eax, [0]
    0x66, 0x39, 0xd8, // cmp eax, ebx
    0x74, 0xf7, // je again
    0x66, 0xff, 0x06, 0x04, 0x00, // inc dword [4]
    0x66, 0xe7, 0x10, // out 0x10, eax
    0xeb, 0xe1, // jmp begin
    0x90,
];

pub fn run(patience: Duration) -> Result<(), Failed> {
    const PAGES: u32 = 8;
    let (a, b) = (area(PAGES)?, area(PAGES)?);
    let (ma, mb) = (a.map(0, PAGES)?, b.map(0, PAGES)?);
    let code = area(1)?.map(0, 1)?;
    for (word, bytes) in code.page(0).iter().zip(WATCH.chunks(8)) {
        word.store(u64::from_le_bytes(bytes.try_into()?), Relaxed);
    }
    let skipped = Cell::new(0);
    let machine = Machine::new(&[(CODE, &code), (DATA, &ma)])?;
    for round in 1..=ROUNDS {
        fill(&mb, 3, round);
        let seen = std::thread::scope(|scope| {
            let guest = scope.spawn(|| machine.run());
            wait(patience, "the machine does not run", || guest.is_finished() || ma.page(7)[0].load(Relaxed) == round);
            // It spins, with the translation of its page in the processor.
            std::thread::sleep(Duration::from_millis(round % 5));
            // A frame for the machine, from B: the old content of the machine's page is not for B. Its processor may be about
            // to translate the page's address again, after the kernel has told it to forget that and before the page is out
            // of all page tables: KVM then holds the page for a moment, and the call skips it.
            wait(patience, "the machine's page stays held", || match b.exchange(&a, &[whole(3, 0)]) {
                Ok(outcome) if outcome.exchanged() == 1 => true,
                Ok(_) => {
                    skipped.set(skipped.get() + 1);
                    false
                }
                Err(error) => give_up(&format!("the exchange under the machine: {error}")),
            });
            wait(patience, "stale: the machine does not see the page that it got", || guest.is_finished());
            let seen = guest.join().map_err(|_| "the machine's thread panicked")?;
            Ok::<u32, Failed>(seen?)
        })?;
        ensure!(u64::from(seen) == round, "round {round}: the machine sees {seen}");
        // Its write went to the page that it sees, and nowhere else. Only nested page tables know of it: B must not see it.
        let second = ma.page(0)[0].load(Relaxed) >> 32;
        ensure!(second == 1, "round {round}: the machine's write is {second} in its page");
        expect(&mb, 3, 0, "B")?;
    }
    // A page that the machine could only have read comes back as it was.
    fill(&mb, 6, 1002);
    b.exchange(&a, &[whole(6, 1)])?;
    b.exchange(&a, &[whole(5, 1)])?;
    expect(&mb, 5, 1002, "B")?;
    expect(&ma, 1, 0, "the machine")?;
    println!("{ROUNDS} exchanges under a machine that runs; its page was held {} times", skipped.get());
    Ok(())
}

/// Waits for a condition. The machine spins forever if it does not come true: only the end of the process ends it.
fn wait(patience: Duration, problem: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + patience;
    while !condition() {
        if Instant::now() > deadline {
            give_up(problem);
        }
        std::thread::sleep(Duration::from_micros(200));
    }
}

fn give_up(problem: &str) -> ! {
    eprintln!("e2e-zcopy: {problem}");
    std::process::exit(1)
}

/// A virtual machine with one processor.
struct Machine {
    _vm: OwnedFd,
    vcpu: OwnedFd,
    state: *mut u8,
}

// SAFETY: one thread at a time runs the machine, and reads its state.
unsafe impl Sync for Machine {}

impl Machine {
    fn new(memory: &[(u64, &Mapping)]) -> Result<Machine, Failed> {
        let kvm: OwnedFd = OpenOptions::new().read(true).write(true).open("/dev/kvm").map(File::into)?;
        let owned = |fd: i32| {
            // SAFETY: the kernel has just made it.
            unsafe { OwnedFd::from_raw_fd(fd) }
        };
        let vm = owned(number(&kvm, KVM_CREATE_VM, 0)?);
        for (slot, (guest, mapping)) in memory.iter().enumerate() {
            let region: [u64; 4] =
                [slot as u64, *guest, (mapping.pages() * PAGE) as u64, mapping.as_ptr().expose_provenance() as u64];
            pointer(&vm, KVM_SET_USER_MEMORY_REGION, region.as_ptr().cast_mut())?;
        }
        let vcpu = owned(number(&vm, KVM_CREATE_VCPU, 0)?);
        let size = number(&kvm, KVM_GET_VCPU_MMAP_SIZE, 0)? as usize;
        let state = crate::raw::map(rustix::fd::AsFd::as_fd(&vcpu), size, libc::MAP_SHARED, 0)?;
        // Segments of 24 bytes, with the base first and the selector at 12: cs, and ds after it.
        let mut segments = [0u8; 312];
        pointer(&vcpu, KVM_GET_SREGS, segments.as_mut_ptr())?;
        for (segment, base) in [(0, 0), (1, DATA)] {
            segments[segment * 24..][..8].copy_from_slice(&base.to_ne_bytes());
            segments[segment * 24 + 12..][..2].copy_from_slice(&((base >> 4) as u16).to_ne_bytes());
        }
        pointer(&vcpu, KVM_SET_SREGS, segments.as_mut_ptr())?;
        let mut registers = [0u64; 18];
        (registers[16], registers[17]) = (CODE, 2);
        pointer(&vcpu, KVM_SET_REGS, registers.as_mut_ptr())?;
        Ok(Machine { _vm: vm, vcpu, state })
    }

    /// Runs it until it shows a number.
    fn run(&self) -> io::Result<u32> {
        loop {
            match number(&self.vcpu, KVM_RUN, 0) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
                Ok(_) => {}
            }
            // SAFETY: `struct kvm_run`, which the kernel writes to only while the processor runs: the reason is at 8; of an
            // access to a port, the place of the data is at 40.
            let (reason, value) = unsafe {
                let offset = self.state.add(40).cast::<u64>().read();
                (self.state.add(8).cast::<u32>().read(), self.state.add(offset as usize).cast::<u32>().read_unaligned())
            };
            return if reason == KVM_EXIT_IO { Ok(value) } else { Err(io::Error::other(format!("exit {reason}"))) };
        }
    }
}

fn number(fd: &OwnedFd, request: u32, argument: u64) -> io::Result<i32> {
    // SAFETY: these requests take a number.
    let answer = unsafe { libc::ioctl(fd.as_raw_fd(), request as libc::Ioctl, argument) };
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(answer) }
}

fn pointer<T>(fd: &OwnedFd, request: u32, argument: *mut T) -> io::Result<i32> {
    // SAFETY: callers pass the structure that the request reads or writes.
    let answer = unsafe { libc::ioctl(fd.as_raw_fd(), request as libc::Ioctl, argument) };
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(answer) }
}
