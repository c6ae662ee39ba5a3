//! Capture files that are the same, are none, or are in use.

use super::*;
use rustix::fs::{CWD, FlockOperation, flock, mkfifoat};
use std::fs::{self, File, hard_link};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;

/// Returns all problems of `m.toml` in this directory, one line each, without the file's name and the help.
fn problems_in(directory: &Path, text: &str) -> Vec<String> {
    let file = directory.join("m.toml");
    fs::write(&file, text).unwrap();
    let report = match Config::examine(&file) {
        Ok((_, warnings)) => warnings,
        Err(LoadError::Invalid(report)) => report,
        Err(error) => panic!("{error}"),
    };
    let place = format!("{}:", file.display());
    let line = |line: String| line.replace(&place, "").split("; ").next().unwrap_or_default().to_owned();
    report.lines().map(line).filter(|line| !line.contains("is in no patch")).collect()
}

fn capture(frames: usize) -> Vec<u8> {
    let mut file = Vec::new();
    let mut writer = ::capture::Writer::new(&mut file, 65_535).unwrap();
    (0..frames).for_each(|_| writer.write(Duration::ZERO, &[1; 60]).unwrap());
    file
}

#[test]
fn files_are_the_same_under_all_of_their_names() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    fs::create_dir(root.join("d")).unwrap();
    fs::write(root.join("there"), capture(1)).unwrap();
    hard_link(root.join("there"), root.join("hard")).unwrap();
    symlink("there", root.join("soft")).unwrap();
    symlink("new", root.join("to-new")).unwrap();
    symlink("m.toml", root.join("to-config")).unwrap();
    let two = |a: &str, b: &str| {
        problems_in(root, &format!("port = [{{name='a', driver='pcap', {a}}},\n{{name='b', driver='pcap', {b}}}]"))
    };
    let record = |name: &str| format!("record='{name}'");
    let replay = |name: &str| format!("replay='{name}'");
    for (first, second) in [
        ("there", "hard"),
        ("there", "soft"),
        ("hard", "./there"),
        ("d/../soft", "there"),
        ("new", "d/../new"),
        ("to-new", "new"),
        ("no/dir", "no/dir"),
    ] {
        for (a, b, why) in [
            (record(first), record(second), "this file is already written by something else"),
            (replay(first), record(second), "this file is replayed by a port"),
            (record(first), replay(second), "this file is written by a port, so it can't be replayed"),
            (
                record(first),
                format!("replay='there2', record-to='{second}'"),
                "this file is already written by something else",
            ),
        ] {
            let problems = two(&a, &b);
            assert!(
                problems.iter().any(|problem| problem.starts_with("2:") && problem.ends_with(why)),
                "{a}, {b}: {problems:?}"
            );
        }
    }
    assert_eq!(two(&replay("there"), &replay("hard")), [""; 0]);
    assert_eq!(two(&record("there"), &record("other")), [""; 0]);
    for name in ["m.toml", "to-config", "d/../m.toml"] {
        let problems = two(&record(name), "record='x', record-to='y'");
        assert!(problems[0].ends_with("this file is the configuration"), "{name}: {problems:?}");
    }
}

#[test]
fn other_kinds_of_files_are_no_capture_files() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    fs::create_dir(root.join("directory")).unwrap();
    let _socket = UnixListener::bind(root.join("socket")).unwrap();
    mkfifoat(CWD, root.join("pipe"), rustix::fs::Mode::RWXU).unwrap();
    symlink("/dev/full", root.join("device")).unwrap();
    let of = |keys: &str| problems_in(root, &format!("port = [{{name='a', driver='pcap', {keys}}}]"));
    for what in ["directory", "socket", "device"] {
        for key in ["replay", "record", "record='x', record-to"] {
            let expected = format!("this cannot be a capture file: it is a {what}, not a file");
            let problems = of(&format!("{key}='{what}'"));
            assert!(problems.len() == 1 && problems[0].ends_with(&expected), "{problems:?}");
        }
    }
    assert_eq!(of("record='pipe'"), [""; 0]);
    let problems = of("replay='pipe'");
    assert!(problems[0].ends_with("it is a named pipe, and a replay needs a file that has an end"), "{problems:?}");
}

#[test]
fn problems_in_the_file_system_are_reported() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    let of = |keys: &str| problems_in(root, &format!("port = [{{name='a', driver='pcap', {keys}}}]"));
    let told = |keys: &str, part: &str| {
        let problems = of(keys);
        assert!(problems.len() == 1 && problems[0].contains(part), "{keys}: {problems:?}");
    };
    let cut = capture(3);
    fs::write(root.join("cut"), &cut[..cut.len() - 9]).unwrap();
    fs::write(root.join("good"), &cut).unwrap();
    fs::write(root.join("text"), "no capture").unwrap();
    assert_eq!(of("replay='good', record='new'"), [""; 0]);
    told("replay='cut'", "its last 67 bytes, from offset 176 on, are not a whole packet");
    told("replay='text'", "it is neither pcap nor pcapng");
    told("replay='gone'", "this file does not exist");
    told("record='gone/x'", "there is no directory ");
    // A reload does not read them once more.
    let text = "port = [{name='a', driver='pcap', replay='cut'}]";
    assert!(!Config::parse(&root.join("m.toml"), text).unwrap().1.lines().any(|line| line.contains("cut off")));
}

#[test]
fn a_file_that_another_process_records_to_is_reported() {
    let root = tempfile::tempdir().unwrap();
    let file = File::create(root.path().join("live")).unwrap();
    let text = "control.socket = 'control'\nport = [{name='a', driver='pcap', record='live'}]";
    let of = || problems_in(root.path(), text);
    assert_eq!(of(), [""; 0]);
    flock(&file, FlockOperation::LockExclusive).unwrap();
    let expected =
        format!("process {} has this file open, perhaps another Millrace that records to it", std::process::id());
    let told = of();
    assert!(told.len() == 1 && told[0].ends_with(&expected), "{told:?}");
    // The switch of this very configuration may.
    let _control = UnixListener::bind(root.path().join("control")).unwrap();
    assert_eq!(of(), [""; 0]);
}
