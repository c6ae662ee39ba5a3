//! Recordings: files that can't be opened, that others use, that move away or have no room, and pipes. These tests need root, for
//! `mount` and `prlimit` (util-linux).

use super::{ctl, end, files, start, start_by, text};
use engine::stats::RecordingStats;
use lab::millrace::config::{Generator, RawFile, RawPort, file, mirror, patch, port, record, replay, sink};
use lab::millrace::{Millrace, Start};
use rustix::fs::{CWD, FlockOperation, Mode, OFlags, flock, mkfifoat};
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader};
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Length of a generated frame, and of one in a file with its header.
const LENGTH: u64 = 128;
const IN_FILE: u64 = 16 + LENGTH;
/// Length of a file's header.
const HEADER: u64 = 24;

/// Returns a port that sends `frames` of them, without end if there are none, to a sink.
fn source(frames: i64, record_to: &str) -> RawFile {
    let keys =
        Generator { size: (LENGTH as i64).into(), rate: 20_000.into(), frames: frames.into(), ..Generator::default() };
    let source = RawPort { record_to: record_to.into(), ..port("a", keys) };
    file((sink("b"), source, patch("a", "b")))
}

fn recording(switch: &Millrace) -> RecordingStats {
    switch.port("a").unwrap().0.recordings.swap_remove(0)
}

/// Waits until the recording is as wanted.
fn wait_for(switch: &Millrace, what: &str, wanted: impl Fn(&RecordingStats) -> bool) -> RecordingStats {
    let look = || Ok(Some(recording(switch)).filter(&wanted));
    switch.wait_for(what, look).unwrap_or_else(|error| panic!("{error}: {:?}", recording(switch)))
}

fn wait_state(switch: &Millrace, state: &str) -> RecordingStats {
    wait_for(switch, state, |recording| recording.state.contains(state))
}

/// Waits until more frames were written.
fn wait_written(switch: &Millrace) -> u64 {
    let before = recording(switch).written;
    wait_for(switch, "frames in the file", |recording| recording.written > before).written
}

fn sum(lost: &BTreeMap<String, u64>) -> u64 {
    lost.values().sum()
}

/// Returns the number of frames in a file, which must be whole.
fn frames(path: &Path) -> u64 {
    let file = capture::Reader::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let frames: Result<Vec<_>, _> = file.collect();
    frames.unwrap_or_else(|error| panic!("{}: {error}", path.display())).len() as u64
}

/// Returns the output of `ctl reload`, and whether all of it was done.
fn reload(switch: &Millrace) -> (String, bool) {
    let output = ctl(switch, &["reload"]);
    (text(&output.stdout) + &text(&output.stderr), output.status.success())
}

#[test]
fn a_file_that_cannot_be_opened_is_reported_and_recorded_to_once_it_can() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("x.pcap");
    let held = File::create(&path).unwrap();
    flock(&held, FlockOperation::LockExclusive).unwrap();
    let why = format!("process {} has it open", std::process::id());

    // A strict start wants it now.
    files(home.path()).configure(source(40_000, "x.pcap")).unwrap();
    let strict = super::millrace(&["run", "--strict", "--config", files(home.path()).configuration.to_str().unwrap()]);
    assert_eq!(strict.status.code(), Some(1), "{strict:?}");
    assert!(text(&strict.stderr).contains("cannot record to ") && text(&strict.stderr).contains(&why), "{strict:?}");

    let mut switch = start(home.path(), source(40_000, "x.pcap"));
    let waits = wait_state(&switch, &why);
    assert!(!waits.records && waits.written == 0 && waits.file == path.display().to_string(), "{waits:?}");
    switch.wait_said(0, &format!("port \"a\": no frames are recorded to {}: {why}", path.display())).unwrap();
    let shown = switch.ctl("ports").unwrap();
    assert!(shown.contains("RECORDED TO") && shown.contains("x.pcap") && shown.contains(&why), "{shown}");
    let (said, done) = reload(&switch);
    assert!(
        !done && said.contains("changed port a (capture file opened again), which FAILED: ") && said.contains(&why)
    );
    wait_for(&switch, "frames that are lost", |recording| recording.lost.contains_key("no-file"));

    drop(held);
    wait_state(&switch, "records");
    switch.wait_said(0, &format!("port \"a\": frames are recorded to {} again", path.display())).unwrap();
    // All frames pass either way.
    switch.counted("a", 40_000, 0).unwrap();
    let all = wait_for(&switch, "all frames", |recording| recording.written + sum(&recording.lost) == 40_000);
    assert_eq!((all.waiting, frames(&path)), (0, all.written), "{all:?}");
    assert_eq!(switch.port("b").unwrap().tx(), 40_000);
    assert_eq!(end(&mut switch, Signal::TERM), 0);
}

#[test]
fn two_switches_do_not_record_to_the_same_file() {
    let [one, other] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let path = one.path().join("x.pcap");
    let mut first = start(one.path(), source(0, "x.pcap"));
    wait_written(&first);
    fs::hard_link(&path, other.path().join("y.pcap")).unwrap();
    let second = start(other.path(), source(0, "y.pcap"));
    let pid = first.daemon.pid();
    wait_state(&second, &format!("process {pid} has it open"));
    let checked = super::millrace(&["check", files(other.path()).configuration.to_str().unwrap()]);
    assert!(text(&checked.stderr).contains(&format!("process {pid} has this file open")), "{checked:?}");
    let checked = super::millrace(&["check", files(one.path()).configuration.to_str().unwrap()]);
    assert!(!text(&checked.stderr).contains("has this file open"), "it is its own: {checked:?}");
    let (said, done) = reload(&second);
    assert!(!done && said.contains("capture file opened again), which FAILED"), "{said}");
    wait_written(&first);
    assert_eq!(end(&mut first, Signal::TERM), 0);
    assert!(frames(&path) > 0, "the file of the first is whole");
    wait_state(&second, "records");
    wait_written(&second);
}

#[test]
fn files_in_use_are_not_overwritten_by_any_path() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("x.pcap");
    let replayed = home.path().join("in.pcap");
    let mut writer = capture::Writer::new(File::create(&replayed).unwrap(), 65_535).unwrap();
    writer.write(Default::default(), &[7; 60]).unwrap();
    let config = file((source(0, "x.pcap"), replay("r", "in.pcap")));
    let held = File::create(&path).unwrap();
    flock(&held, FlockOperation::LockExclusive).unwrap();
    let switch = start(home.path(), config);
    let links: [fn(&Path, &Path) -> io::Result<()>; 2] = [|to, at| fs::hard_link(to, at), |to, at| symlink(to, at)];
    let intact = [files(home.path()).configuration, replayed].map(|path| (fs::read(&path).unwrap(), path));
    // The switch tries again to open the file at the path.
    for ((before, target), why) in intact.iter().zip(["it is the configuration", "port \"r\" replays it"]) {
        for link in links {
            fs::remove_file(&path).unwrap();
            link(target, &path).unwrap();
            wait_state(&switch, why);
            assert_eq!(fs::read(target).unwrap(), *before);
        }
    }
    // A reload sees it in the file system before it does anything.
    let (said, done) = reload(&switch);
    assert!(!done && said.contains("this file is written by a port, so it can't be replayed"), "{said}");
    fs::remove_file(&path).unwrap();
    wait_state(&switch, "records");
    wait_written(&switch);
}

#[test]
fn a_file_that_is_moved_away_is_opened_again_by_a_reload() {
    let home = tempfile::tempdir().unwrap();
    let [path, moved, second] = ["x.pcap", "x.pcap.1", "y.pcap"].map(|name| home.path().join(name));
    let config = file((source(0, "x.pcap"), record("p", "y.pcap"), mirror(["a"], "p")));
    let mut switch = start(home.path(), config);
    wait_written(&switch);
    let (said, _) = reload(&switch);
    assert!(!said.contains("capture file"), "nothing has moved: {said}");
    fs::rename(&path, &moved).unwrap();
    fs::remove_file(&second).unwrap();
    let at_move = recording(&switch).written;
    // Frames go to the moved file until the switch is told otherwise.
    wait_for(&switch, "frames in the moved file", |recording| recording.written > at_move);
    assert!(!path.exists());
    let mark = switch.daemon.log().mark();
    switch.daemon.signal(Signal::HUP).unwrap();
    let said = "reloaded: changed port a (capture file opened again); changed port p (capture file opened again)";
    switch.wait_said(mark, said).unwrap();
    wait_written(&switch);
    switch
        .wait_for("frames in the new file of p", || {
            Ok(fs::metadata(&second).is_ok_and(|f| f.len() > 1000).then_some(()))
        })
        .unwrap();

    // A file that another process empties starts again (copytruncate of logrotate).
    let mark = switch.daemon.log().mark();
    OpenOptions::new().write(true).open(&path).unwrap().set_len(0).unwrap();
    switch.wait_said(mark, &format!("port \"a\": somebody else has shortened {}", path.display())).unwrap();
    wait_written(&switch);
    // One that can't be opened leaves the recording where it is.
    fs::rename(&path, home.path().join("x.pcap.2")).unwrap();
    fs::create_dir(&path).unwrap();
    let (said, done) = reload(&switch);
    assert!(!done && said.contains("it is a directory"), "{said}");
    wait_written(&switch);
    assert_eq!(end(&mut switch, Signal::TERM), 0);
    for path in [&moved, &home.path().join("x.pcap.2"), &second] {
        assert!(frames(path) > 0, "{}", path.display());
    }
}

#[test]
fn a_switch_that_moves_a_file_and_a_reload_lose_no_frame() {
    let home = tempfile::tempdir().unwrap();
    let [path, moved] = ["x.pcap", "x.pcap.1"].map(|name| home.path().join(name));
    let mut switch = start(home.path(), source(40_000, "x.pcap"));
    wait_written(&switch);
    fs::rename(&path, &moved).unwrap();
    let (said, done) = reload(&switch);
    assert!(done && said.contains("changed port a (capture file opened again)"), "{said}");
    switch.counted("a", 40_000, 0).unwrap();
    assert_eq!(end(&mut switch, Signal::TERM), 0);
    assert_eq!(frames(&path) + frames(&moved), 40_000);
}

/// Runs out of room, and gets more; checks all counters on the way.
fn fill(mut switch: Millrace, path: &Path, room: u64, error: &str, make_room: impl FnOnce(&Millrace)) {
    let full = wait_state(&switch, error);
    switch.wait_said(0, "port \"a\": no frames are recorded to ").unwrap();
    let lost = wait_for(&switch, "frames that are lost", |recording| recording.lost.contains_key("no-room"));
    assert!(!full.records && !lost.records && lost.waiting > 0, "{full:?} {lost:?}");
    // The file holds whole frames, as many as there is room for, and no more are told.
    let held = frames(path);
    assert_eq!(held, wait_for(&switch, "its frames", |recording| recording.written == held).written);
    let length = fs::metadata(path).unwrap().len();
    assert!(length == HEADER + held * IN_FILE && length <= room && length + IN_FILE > room, "{length} of {room}");
    let (said, done) = reload(&switch);
    assert!(!done && said.contains("which FAILED: ") && said.contains(error), "{said}");
    let shown = switch.ctl("ports").unwrap();
    assert!(shown.contains(error) && shown.contains("no-room"), "{shown}");

    make_room(&switch);
    wait_state(&switch, "records");
    switch.wait_said(0, "frames are recorded to ").unwrap();
    wait_written(&switch);
    // Nothing was told twice.
    let log = switch.daemon.log().tail(1000);
    assert_eq!(log.matches("no frames are recorded to ").count(), 1, "{log}");
}

#[test]
fn a_limit_of_a_files_length_costs_whole_frames_and_ends_with_it() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("x.pcap");
    // Not at the end of a frame.
    let room = HEADER + 300 * IN_FILE + 77;
    let mut limited = Command::new("prlimit");
    limited.args([&format!("--fsize={room}:unlimited"), "--", env!("CARGO_BIN_EXE_millrace")]);
    let program = Start::new(env!("CARGO_BIN_EXE_millrace").as_ref()).by(limited);
    let switch = start_by(program, home.path(), source(0, "x.pcap"));
    fill(switch, &path, room, "File too large", |switch| {
        let pid = switch.daemon.pid().to_string();
        let lifted = Command::new("prlimit").args(["--pid", &pid, "--fsize=unlimited"]).status();
        assert!(lifted.expect("prlimit runs; it is in the Debian package util-linux").success());
    });
}

#[test]
fn a_full_file_system_costs_whole_frames_until_there_is_room() {
    let home = tempfile::tempdir().unwrap();
    fs::create_dir(home.path().join("small")).unwrap();
    // The file system is in a namespace of its own, which ends with the process.
    let mut unshare = Command::new("unshare");
    let program = env!("CARGO_BIN_EXE_millrace");
    let script = "mount -t tmpfs -o size=64k tmpfs small && exec \"$0\" \"$@\"";
    unshare.args(["--mount", "--", "sh", "-c", script, program]).current_dir(home.path());
    let switch = start_by(Start::new(program.as_ref()).by(unshare), home.path(), source(0, "small/x.pcap"));
    let seen = Path::new("/proc").join(switch.daemon.pid().to_string()).join("root");
    let small = seen.join(home.path().strip_prefix("/").unwrap()).join("small");
    fill(switch, &small.join("x.pcap"), 65_536, "No space left on device", |switch| {
        let pid = switch.daemon.pid().to_string();
        let mut remount = Command::new("nsenter");
        remount
            .args(["--target", &pid, "--mount", "--", "mount", "-o", "remount,size=64m"])
            .arg(home.path().join("small"));
        assert!(remount.status().expect("nsenter runs; it is in the Debian package util-linux").success());
    });
}

/// Returns tcpdump, reading a pipe, once it has told of some packets.
fn tcpdump(pipe: &Path, packets: usize) -> Child {
    let mut tcpdump = Command::new("tcpdump");
    tcpdump.args(["-n", "-t", "-l", "-r"]).arg(pipe).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut tcpdump = tcpdump.spawn().expect("tcpdump runs; it is in the Debian package tcpdump");
    let told = BufReader::new(tcpdump.stdout.as_mut().unwrap()).lines().take(packets).filter_map(Result::ok).count();
    if told < packets {
        panic!("tcpdump read {told} packets: {:?}", tcpdump.wait_with_output());
    }
    tcpdump
}

#[test]
fn a_pipe_is_recorded_to_while_it_has_a_reader() {
    let home = tempfile::tempdir().unwrap();
    let [pipe, file] = ["pipe", "whole.pcap"].map(|name| home.path().join(name));
    mkfifoat(CWD, &pipe, Mode::RWXU).unwrap();
    let mut switch = start(home.path(), source(0, "pipe"));
    // It has started, and frames pass.
    wait_for(&switch, "frames that are lost", |recording| recording.lost.contains_key("no-file"));
    let waits = wait_state(&switch, "nobody reads the pipe");
    assert!(!waits.records && waits.written == 0, "{waits:?}");
    for _ in 0..2 {
        let mut reader = tcpdump(&pipe, 5000);
        wait_state(&switch, "records");
        reader.kill().unwrap();
        reader.wait().unwrap();
        wait_state(&switch, "nobody reads the pipe");
        // A reader that gets no processor for a while lets the pipe fill up.
        let lost = recording(&switch).lost;
        assert!(lost.keys().all(|reason| ["no-file", "busy"].contains(&reason.as_str())), "{lost:?}");
    }
    let refused = |recording: &RecordingStats| recording.lost.get("busy").copied().unwrap_or(0);
    let before = refused(&recording(&switch));
    // One that does not read blocks no forwarding: frames pass, and are missing in the recording.
    let idle = OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits() as i32).open(&pipe).unwrap();
    let busy = wait_for(&switch, "the pipe to be full", |recording| refused(recording) > before);
    assert!(busy.records, "{busy:?}");
    let passed = || switch.port("b").unwrap().tx();
    let before = passed();
    switch.wait_for("frames that pass", || Ok((passed() > before + 1000).then_some(()))).unwrap();
    // It reads frames again then.
    rustix::fs::fcntl_setfl(&idle, OFlags::empty()).unwrap();
    let mut copy = File::create(&file).unwrap();
    let reader = std::thread::spawn(move || io::copy(&mut &idle, &mut copy).unwrap());
    wait_written(&switch);
    // A pipe is at its place as a file is: it can be moved, and another one made.
    fs::remove_file(&pipe).unwrap();
    mkfifoat(CWD, &pipe, Mode::RWXU).unwrap();
    let (said, done) = reload(&switch);
    assert!(!done && said.contains("nobody reads the pipe"), "{said}");
    let mut other = tcpdump(&pipe, 100);
    reader.join().unwrap();
    // A pipe that is full when it is closed contains only part of the last frame: the switch does not wait for the reader.
    assert!(capture::Reader::open(&file).unwrap().take_while(Result::is_ok).count() > 0);
    other.kill().unwrap();
    other.wait().unwrap();
    assert_eq!(end(&mut switch, Signal::TERM), 0);
}

#[test]
fn a_port_that_records_to_a_pipe_is_up_once_it_has_a_reader() {
    let home = tempfile::tempdir().unwrap();
    let pipe = home.path().join("pipe");
    mkfifoat(CWD, &pipe, Mode::RWXU).unwrap();
    let keys = Generator { rate: 20_000.into(), ..Generator::default() };
    let mut switch = start(home.path(), (record("p", "pipe"), port("g", keys), patch("g", "p")));
    let why = format!("cannot record to {}: nobody reads the pipe", pipe.display());
    let down = switch.port("p").unwrap();
    assert!(!down.0.up && down.0.detail == why, "{down:?}");
    let mut reader = tcpdump(&pipe, 1000);
    switch.wait_up(&["p"]).unwrap();
    reader.kill().unwrap();
    reader.wait().unwrap();
    let lost = || Ok(switch.port("p")?.drops().contains_key("no-file").then_some(()));
    switch.wait_for("frames that are dropped", lost).unwrap();
    assert_eq!(end(&mut switch, Signal::TERM), 0);
}
