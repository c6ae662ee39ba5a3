//! Contents and physical frames change hands, in all mappings of all processes.

use std::io::{IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering::Relaxed;

use rustix::fd::AsFd;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};

use crate::pages::{area, device, expect, fill, frames, whole};
use crate::{Failed, ensure};
use zcopy::{Area, Mapping, PAGE};

const PAGES: u32 = 64;
/// Pages of A and of B that change hands: in one run, and in many.
const PAIRS: [(u32, u32); 12] =
    [(3, 40), (4, 41), (5, 42), (6, 43), (20, 7), (19, 9), (18, 8), (0, 0), (63, 63), (30, 2), (31, 1), (50, 50)];

const A: u64 = 0xa000;
const B: u64 = 0xb000;

pub fn run() -> Result<(), Failed> {
    let (a, b) = (area(PAGES)?, area(PAGES)?);
    ensure!(a.id() != b.id(), "two areas have one number");
    let length = rustix::fs::seek(a.as_fd(), rustix::fs::SeekFrom::End(0))?;
    ensure!(length == u64::from(PAGES) * PAGE as u64, "the area's length is {length}");
    let maps = [a.map(0, PAGES)?, b.map(0, PAGES)?];
    // More mappings of the same, one of a part.
    let more = [a.map(0, PAGES)?, b.map(0, PAGES)?];
    let part = a.map(16, 8)?;
    for page in 0..PAGES as usize {
        fill(&maps[0], page, A + page as u64);
        fill(&maps[1], page, B + page as u64);
    }
    check(&more, |side, page| [A, B][side] + page as u64)?;
    expect(&part, 2, A + 18, "a part of A")?;
    let before = [frames(&maps[0])?, frames(&maps[1])?];
    let mut peer = Peer::start(&a, &b)?;
    peer.check(|side, page| [A, B][side] + page as u64)?;

    let counts = a.stats()?;
    let outcome = a.exchange(&b, &PAIRS.map(|(here, there)| whole(here, there)))?;
    ensure!(outcome.exchanged() == PAIRS.len() as u32, "{outcome:?}");
    // Each page of B that A gets has never been A's, and is zero.
    let after = |side: usize, page: usize| match (side, PAIRS.iter().find(|pair| [pair.0, pair.1][side] == page as u32))
    {
        (0, Some(_)) => 0,
        (_, Some((here, _))) => A + u64::from(*here),
        (side, None) => [A, B][side] + page as u64,
    };
    check(&maps, after)?;
    check(&more, after)?;
    expect(&part, 2, 0, "a part of A")?;
    peer.check(after)?;
    let now = [frames(&more[0])?, frames(&more[1])?];
    for page in 0..PAGES as usize {
        let pair =
            |side: usize| PAIRS.iter().map(|pair| [pair.0 as usize, pair.1 as usize]).find(|pair| pair[side] == page);
        let expected = [
            pair(0).map_or(before[0][page], |pair| before[1][pair[1]]),
            pair(1).map_or(before[1][page], |pair| before[0][pair[0]]),
        ];
        ensure!(
            [now[0][page], now[1][page]] == expected,
            "page {page} lies in frames {:?}",
            [now[0][page], now[1][page]]
        );
    }
    // A mapping that is older than the exchange writes to the new page.
    for (here, there) in PAIRS {
        more[0].page(here as usize)[9].store(1, Relaxed);
        let seen = maps[1].page(there as usize)[9].load(Relaxed);
        ensure!(seen == A + u64::from(here), "stale: a write to page {here} of A reached page {there} of B");
        ensure!(maps[0].page(here as usize)[9].swap(0, Relaxed) == 1, "a write to page {here} of A is lost");
    }
    let seen = a.stats()?;
    // 8 runs on A's side and 9 on B's.
    ensure!(seen.flushes - counts.flushes == 17, "{} flushes", seen.flushes - counts.flushes);
    ensure!(seen.exchanged - counts.exchanged == 12 && seen.calls - counts.calls == 1, "{seen:?}");
    ensure!(seen.zeroed - counts.zeroed == 12 && seen.trimmed == counts.trimmed, "{seen:?}");

    // The peer sends the same pages back, by the descriptors that it was passed. A gets its own bytes; B gets
    // pages that A has left, so they are zero.
    peer.command(b'x')?;
    let back = |side: usize, page: usize| match (side, after(side, page)) {
        (1, word) if word >> 12 == A >> 12 => 0,
        (0, 0) => A + page as u64,
        (_, word) => word,
    };
    check(&maps, back)?;
    check(&more, back)?;
    peer.check(back)?;
    ensure!(frames(&maps[0])? == before[0] && frames(&maps[1])? == before[1], "frames did not return");
    peer.end()
}

/// Checks all pages of A and B against the value of `expected` for a side and a page.
fn check(maps: &[Mapping; 2], expected: impl Fn(usize, usize) -> u64) -> Result<(), Failed> {
    for (side, mapping) in maps.iter().enumerate() {
        for page in 0..mapping.pages() {
            expect(mapping, page, expected(side, page), ["A", "B"][side])?;
        }
    }
    Ok(())
}

/// Another process with mappings of both areas.
struct Peer {
    child: Child,
    line: UnixStream,
}

impl Peer {
    fn start(a: &Area, b: &Area) -> Result<Peer, Failed> {
        let (line, far) = UnixStream::pair()?;
        let far = Stdio::from(OwnedFd::from(far));
        let child = Command::new(std::env::current_exe()?).arg("peer").stdin(far).spawn()?;
        let fds = [a.as_fd(), b.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut message = SendAncillaryBuffer::new(&mut space);
        ensure!(message.push(SendAncillaryMessage::ScmRights(&fds)), "no space for descriptors");
        sendmsg(&line, &[IoSlice::new(b"m")], &mut message, SendFlags::empty())?;
        Ok(Peer { child, line })
    }

    fn command(&mut self, command: u8) -> Result<(), Failed> {
        self.line.write_all(&[command])?;
        let mut answer = [0];
        self.line.read_exact(&mut answer)?;
        Ok(())
    }

    /// Compares the pages that the peer sees.
    fn check(&mut self, expected: impl Fn(usize, usize) -> u64) -> Result<(), Failed> {
        self.command(b'r')?;
        for side in 0..2 {
            for page in 0..PAGES as usize {
                let mut word = [0; 8];
                self.line.read_exact(&mut word)?;
                let (seen, expected) = (u64::from_ne_bytes(word), expected(side, page));
                ensure!(seen == expected, "another process reads {seen:#x} instead of {expected:#x} in page {page}");
            }
        }
        Ok(())
    }

    fn end(mut self) -> Result<(), Failed> {
        self.command(b'q')?;
        ensure!(self.child.wait()?.success(), "the other process failed");
        Ok(())
    }
}

/// The other process.
pub fn peer() -> Result<(), Failed> {
    let mut line = UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned()?);
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut message = RecvAncillaryBuffer::new(&mut space);
    recvmsg(&line, &mut [IoSliceMut::new(&mut [0])], &mut message, RecvFlags::CMSG_CLOEXEC)?;
    let fds = message.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(fds) => Some(fds),
        _ => None,
    });
    let device = device()?;
    let areas = fds.ok_or("no descriptors came")?.map(|fd| device.adopt(fd)).collect::<Result<Vec<_>, _>>()?;
    let maps = areas.iter().map(|area| area.map(0, area.pages())).collect::<Result<Vec<_>, _>>()?;
    loop {
        let mut command = [0];
        line.read_exact(&mut command)?;
        match command[0] {
            b'r' => {
                line.write_all(&command)?;
                for (mapping, page) in
                    maps.iter().flat_map(|mapping| (0..mapping.pages()).map(move |page| (mapping, page)))
                {
                    let word = mapping.page(page)[7].load(Relaxed);
                    expect(mapping, page, word, "another process")?;
                    line.write_all(&word.to_ne_bytes())?;
                }
            }
            b'x' => {
                let outcome = areas[1].exchange(&areas[0], &PAIRS.map(|(here, there)| whole(there, here)))?;
                ensure!(outcome.exchanged() == PAIRS.len() as u32, "{outcome:?}");
                line.write_all(&command)?;
            }
            _ => return Ok(line.write_all(&command)?),
        }
    }
}
