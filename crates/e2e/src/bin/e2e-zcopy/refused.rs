//! Calls that are wrong are refused, without effect.

use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::PermissionsExt;

use crate::pages::{area, expect, fill, whole};
use crate::raw::{self, Edge};
use crate::{Failed, ensure};
use zcopy::{Error, PAGE, Pair};

const SIZE: u32 = 0x4010_ee60;
const EXCHANGE: u32 = 0xc038_ee61;
const STATS: u32 = 0x8058_ee62;

/// The kernel's structure of an exchange.
#[derive(Clone, Copy)]
struct Call {
    other: i32,
    count: u32,
    flags: u32,
    reserved: u32,
    pairs: usize,
}

impl Call {
    fn bytes(self) -> Vec<u8> {
        let words = [self.other as u32, self.count, self.flags, self.reserved].map(u32::to_ne_bytes).concat();
        [words, (self.pairs as u64).to_ne_bytes().to_vec(), vec![0; 32]].concat()
    }
}

pub fn run() -> Result<(), Failed> {
    sizes()?;
    exchanges()?;
    mappings()?;
    users()?;
    held()
}

fn open(write: bool) -> Result<File, Failed> {
    Ok(OpenOptions::new().read(true).write(write).open("/dev/zcopy")?)
}

/// Checks that the kernel refuses with this number.
fn refuses<T>(what: &str, number: i32, answer: std::io::Result<T>) -> Result<(), Failed> {
    let found = answer.err().and_then(|error| error.raw_os_error());
    ensure!(found == Some(number), "{what}: {found:?} instead of {number}");
    Ok(())
}

fn size(fd: BorrowedFd<'_>, pages: u64, flags: u32, reserved: u32) -> std::io::Result<i32> {
    let mut bytes = [pages.to_ne_bytes().as_slice(), &flags.to_ne_bytes(), &reserved.to_ne_bytes()].concat();
    raw::ioctl(fd, SIZE, &mut bytes)
}

fn sizes() -> Result<(), Failed> {
    let file = open(true)?;
    let fd = file.as_fd();
    let shared = |len, offset| raw::map(fd, len, libc::MAP_SHARED, offset);
    refuses("no pages", libc::EINVAL, size(fd, 0, 0, 0))?;
    refuses("too many pages for their numbers", libc::EINVAL, size(fd, 1 << 32, 0, 0))?;
    refuses("more pages than the machine has", libc::ENOSPC, size(fd, 1 << 30, 0, 0))?;
    refuses("an unknown flag", libc::EINVAL, size(fd, 1, 2, 0))?;
    refuses("a reserved word", libc::EINVAL, size(fd, 1, 0, 1))?;
    refuses("a read-only descriptor", libc::EBADF, size(open(false)?.as_fd(), 1, 0, 0))?;
    refuses("a mapping behind the begin of nothing", libc::EINVAL, shared(PAGE, PAGE as i64))?;
    fs::write("/sys/module/zcopy/parameters/max_pages", "8")?;
    refuses("more pages than max_pages", libc::ENOSPC, size(fd, 9, 0, 0))?;
    let other = area(5)?;
    refuses("more pages than are left of max_pages", libc::ENOSPC, size(fd, 4, 0, 0))?;
    fs::write("/sys/module/zcopy/parameters/max_pages", "0")?;
    drop(other);
    // The first mapping of an area without pages gives it some.
    shared(3 * PAGE, 0)?;
    refuses("pages for the second time", libc::EBUSY, size(fd, 3, 0, 0))?;
    refuses("a longer mapping", libc::EINVAL, shared(4 * PAGE, 0))?;
    refuses("a mapping that ends behind the area", libc::EINVAL, shared(2 * PAGE, 2 * PAGE as i64))?;
    refuses("a mapping far behind the area", libc::EINVAL, shared(PAGE, 1 << 40))?;
    refuses("a private mapping", libc::EINVAL, raw::map(fd, PAGE, libc::MAP_PRIVATE, 0))?;
    refuses("an unknown number", libc::ENOTTY, raw::ioctl(fd, EXCHANGE + 5, &mut [0; 8]))?;
    refuses("a number with another length", libc::ENOTTY, raw::ioctl(fd, EXCHANGE + (8 << 16), &mut [0; 64]))?;
    refuses("counters for nobody", libc::EFAULT, raw::ioctl_at(fd, STATS, 8))?;
    refuses("a size of nobody", libc::EFAULT, raw::ioctl_at(open(true)?.as_fd(), SIZE, 8))
}

fn exchanges() -> Result<(), Failed> {
    let (a, b) = (area(8)?, area(4)?);
    let (ma, mb) = (a.map(0, 8)?, b.map(0, 4)?);
    (0..8).for_each(|page| fill(&ma, page, 100 + page as u64));
    (0..4).for_each(|page| fill(&mb, page, 200 + page as u64));
    let before = a.stats()?;

    let frame = |start, len| Pair { start, len, ..Pair::default() };
    let wrong: [&[Pair]; 10] = [
        &[whole(8, 0)],
        &[whole(0, 4)],
        &[whole(u32::MAX, 0)],
        &[whole(0, u32::MAX)],
        &[whole(0, 0), whole(0, 1)],
        &[whole(0, 0), whole(1, 0)],
        &[whole(1, 1), whole(2, 2), whole(3, 3), whole(1, 1)],
        &[whole(1, 1), whole(2, 2), whole(8, 3)],
        &[frame(1, 4096)],
        &[frame(u16::MAX, u16::MAX)],
    ];
    for pairs in wrong {
        ensure!(matches!(a.exchange(&b, pairs), Err(Error::Wrong)), "{pairs:?} are exchanged");
    }
    ensure!(matches!(a.exchange(&a, &[whole(0, 1)]), Err(Error::Wrong)), "an area exchanges with itself");
    ensure!(matches!(a.exchange(&b, &[Pair::default(); 257]), Err(Error::TooMany(257))), "257 pairs");

    let pairs: Vec<u8> = [[1u32, 1, 0], [2, 2, 0]].as_flattened().iter().flat_map(|word| word.to_ne_bytes()).collect();
    let (null, reader, empty) = (File::open("/dev/null")?, open(false)?, open(true)?);
    let twin = a.as_fd().try_clone_to_owned()?;
    let edge = Edge::new(&pairs)?;
    let good = Call { other: b.as_fd().as_raw_fd(), count: 2, flags: 0, reserved: 0, pairs: pairs.as_ptr().addr() };
    let calls = [
        ("no pairs", libc::EINVAL, Call { count: 0, ..good }),
        ("257 pairs", libc::EINVAL, Call { count: 257, ..good }),
        ("as many pairs as can be said", libc::EINVAL, Call { count: u32::MAX, ..good }),
        ("a flag", libc::EINVAL, Call { flags: 1, ..good }),
        ("a reserved word", libc::EINVAL, Call { reserved: 1, ..good }),
        ("no descriptor", libc::EBADF, Call { other: -1, ..good }),
        ("a closed descriptor", libc::EBADF, Call { other: 999, ..good }),
        ("another device", libc::EBADF, Call { other: null.as_raw_fd(), ..good }),
        ("a read-only descriptor", libc::EBADF, Call { other: reader.as_raw_fd(), ..good }),
        ("an area without pages", libc::EINVAL, Call { other: empty.as_raw_fd(), ..good }),
        ("the area itself", libc::EINVAL, Call { other: a.as_fd().as_raw_fd(), ..good }),
        ("another descriptor of the area", libc::EINVAL, Call { other: twin.as_raw_fd(), ..good }),
        ("pairs that are nowhere", libc::EFAULT, Call { pairs: 8, ..good }),
        ("pairs of the kernel", libc::EFAULT, Call { pairs: usize::MAX << 47, ..good }),
        ("pairs that end too early", libc::EFAULT, Call { pairs: edge.last(23), ..good }),
    ];
    for (what, number, call) in calls {
        refuses(what, number, raw::ioctl(a.as_fd(), EXCHANGE, &mut call.bytes()))?;
    }
    refuses("from a read-only descriptor", libc::EBADF, raw::ioctl(reader.as_fd(), EXCHANGE, &mut good.bytes()))?;
    refuses("from an area without pages", libc::EINVAL, raw::ioctl(empty.as_fd(), EXCHANGE, &mut good.bytes()))?;
    let edge = Edge::new(&good.bytes())?;
    refuses("a call that ends too early", libc::EFAULT, raw::ioctl_at(a.as_fd(), EXCHANGE, edge.last(55)))?;
    edge.protect();
    refuses("no place for the answer", libc::EFAULT, raw::ioctl_at(a.as_fd(), EXCHANGE, edge.last(56)))?;

    let after = a.stats()?;
    ensure!(
        (after.calls, after.exchanged, after.zeroed) == (before.calls, before.exchanged, before.zeroed),
        "{after:?}"
    );
    (0..8).try_for_each(|page| expect(&ma, page, 100 + page as u64, "A"))?;
    (0..4).try_for_each(|page| expect(&mb, page, 200 + page as u64, "B"))?;
    // Each of the other calls was wrong in one thing only.
    ensure!(raw::ioctl(a.as_fd(), EXCHANGE, &mut good.bytes())? == 2, "the good call");
    expect(&mb, 1, 101, "B")
}

/// An area with very many mappings takes no part in exchanges, until it has fewer.
fn mappings() -> Result<(), Failed> {
    let (a, b) = (area(2)?, area(2)?);
    let few: Vec<_> = (0..64).map(|_| a.map(0, 1)).collect::<Result<_, _>>()?;
    ensure!(a.exchange(&b, &[whole(0, 0)])?.exchanged() == 1, "64 mappings are too many");
    let more = a.map(1, 1)?;
    for (here, there) in [(&a, &b), (&b, &a)] {
        let refused = here.exchange(there, &[whole(1, 1)]);
        ensure!(refused.is_err(), "65 mappings are not too many");
    }
    drop(few);
    ensure!(a.exchange(&b, &[whole(1, 1)])?.exchanged() == 1, "one mapping is too many");
    let about = fs::read_to_string(format!("/proc/self/fdinfo/{}", a.as_fd().as_raw_fd()))?;
    for line in ["zcopy-pages:\t2", "zcopy-mappings:\t1", "zcopy-exchanged:\t2"] {
        ensure!(about.contains(line), "no {line} in {about}");
    }
    drop(more);
    Ok(())
}

/// Another user may have areas, but not the pages of others, and can't exchange.
fn users() -> Result<(), Failed> {
    let (a, b) = (area(1)?, area(1)?);
    fs::set_permissions("/dev/zcopy", fs::Permissions::from_mode(0o666))?;
    let limits = ["max_pages", "max_user_pages"].map(|name| format!("/sys/module/zcopy/parameters/{name}"));
    fs::write(&limits[0], "20")?;
    let as_another = |user: u32, work: &dyn Fn() -> Result<(), Failed>| -> Result<(), Failed> {
        let child = raw::fork(|| {
            raw::become_user(user)?;
            work()
        })?;
        if raw::wait(child)? == 0 { Ok(()) } else { Err("it is not as it should be for another user".into()) }
    };
    as_another(1000, &|| {
        let file = open(true)?;
        refuses("more pages than half of all", libc::ENOSPC, size(file.as_fd(), 11, 0, 0))?;
        size(file.as_fd(), 10, 0, 0)?;
        refuses("more pages of one user", libc::ENOSPC, size(open(true)?.as_fd(), 1, 0, 0))?;
        ensure!(a.exchange(&b, &[whole(0, 0)]).is_err(), "another user exchanges");
        Ok(())
    })?;
    fs::write(&limits[1], "3")?;
    as_another(1000, &|| refuses("more than a user may have", libc::ENOSPC, size(open(true)?.as_fd(), 4, 0, 0)))?;
    as_another(1001, &|| size(open(true)?.as_fd(), 3, 0, 0).map(drop).map_err(Failed::from))?;
    limits.iter().try_for_each(|limit| fs::write(limit, "0"))?;
    ensure!(a.exchange(&b, &[whole(0, 0)])?.exchanged() == 1, "the switch doesn't exchange");
    Ok(())
}

/// A page that is in use by its address stays where it is; the others of the call go.
fn held() -> Result<(), Failed> {
    let (a, b) = (area(4)?, area(4)?);
    let (ma, mb) = (a.map(0, 4)?, b.map(0, 4)?);
    (0..4).for_each(|page| fill(&ma, page, 100 + page as u64));
    let (mut reader, writer) = std::io::pipe()?;
    raw::splice(writer.as_fd(), ma.page(2).as_ptr().cast_mut().cast())?;
    let pairs = [1, 2, 3].map(|page| whole(page, page));
    for skipped in 1..3 {
        let outcome = a.exchange(&b, &pairs)?;
        ensure!(outcome.exchanged() == 2 && outcome.is_skipped(1) && !outcome.is_skipped(0), "{outcome:?}");
        ensure!(a.stats()?.skipped >= skipped, "skipped pairs are not counted");
        expect(&ma, 2, 102, "A")?;
        expect(&mb, 2, 0, "B")?;
        expect(&mb, 1, if skipped == 1 { 101 } else { 0 }, "B")?;
    }
    let mut bytes = vec![0; PAGE];
    reader.read_exact(&mut bytes)?;
    ensure!(bytes[..8] == 102u64.to_ne_bytes(), "the pipe has other bytes");
    ensure!(a.exchange(&b, &pairs)?.exchanged() == 3, "the page is still held");
    expect(&mb, 2, 102, "B")
}
