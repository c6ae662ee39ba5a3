use super::*;
use packet::{BurstStorage, FrameBlock};
use rustix::fs::{CWD, Mode, OFlags, mkfifoat};
use std::fs::{File, OpenOptions};
use std::io::{Cursor, ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;

/// Returns a recording to a new pipe.
fn recorder(home: &tempfile::TempDir) -> Recorder {
    let path = home.path().join("pipe");
    mkfifoat(CWD, &path, Mode::RWXU).unwrap();
    Recorder::new("a", &path, &Arc::default())
}

fn reader(recorder: &Recorder) -> File {
    OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits() as i32).open(recorder.path()).unwrap()
}

/// Returns the content of a pipe.
fn all(pipe: &mut File) -> Vec<u8> {
    let mut bytes = Vec::new();
    let read = pipe.read_to_end(&mut bytes);
    assert!(read.is_ok() || read.is_err_and(|error| error.kind() == ErrorKind::WouldBlock));
    bytes
}

/// Returns the lengths of the frames in a file, which must be whole.
fn lengths(file: Vec<u8>) -> Vec<usize> {
    let frames = capture::Reader::new(Cursor::new(file)).unwrap();
    frames.map(|frame| frame.unwrap().bytes.len()).collect()
}

/// Records frames of these lengths.
fn write(recorder: &Recorder, lengths: &[usize]) -> Taken {
    let block: FrameBlock = lengths.iter().map(|length| vec![7; *length]).collect();
    let mut storage = BurstStorage::default();
    let mut burst = storage.start();
    (0..block.len()).for_each(|number| burst.push(block.frame(number)));
    recorder.write(burst.frames())
}

#[test]
fn frames_that_a_reader_missed_wait_for_the_next_reader() {
    let home = tempfile::tempdir().unwrap();
    let recorder = recorder(&home);
    assert_eq!(recorder.renew(), Err("nobody reads the pipe".to_owned()));
    let lost = write(&recorder, &[60, 61]);
    assert_eq!((lost.frames, lost.refused), (0, Some(Reason::NoFile)));

    let mut first = reader(&recorder);
    assert_eq!((recorder.renew(), recorder.renew()), (Ok(true), Ok(false)));
    write(&recorder, &[62]);
    recorder.keep();
    assert_eq!(lengths(all(&mut first)), [62]);
    assert_eq!(write(&recorder, &[63, 64]).refused, None);
    drop(first);
    recorder.keep();
    let waits = recorder.stats();
    assert_eq!(
        (waits.records, waits.state.as_str(), waits.written, waits.waiting),
        (false, "nobody reads the pipe", 1, 2)
    );

    // Each reader gets a file of its own.
    let mut second = reader(&recorder);
    recorder.keep();
    assert_eq!(lengths(all(&mut second)), [63, 64]);
    let stats = recorder.stats();
    assert_eq!((stats.records, stats.state.as_str(), stats.written, stats.waiting), (true, "records", 3, 0));
    assert_eq!(stats.lost, [("no-file".to_owned(), 2)].into());
}

#[test]
fn a_reader_that_is_slow_gets_whole_frames() {
    let home = tempfile::tempdir().unwrap();
    let recorder = recorder(&home);
    let mut pipe = reader(&recorder);
    recorder.renew().unwrap();
    let mut taken = 0;
    let busy = loop {
        let burst = write(&recorder, &[1500; 32]);
        taken += burst.frames;
        if burst.refused.is_some() {
            break burst;
        }
    };
    assert!(busy.refused == Some(Reason::Busy) && recorder.stats().records);
    let mut bytes = all(&mut pipe);
    while recorder.stats().waiting > 0 {
        recorder.keep();
        bytes.extend(all(&mut pipe));
    }
    assert_eq!(lengths(bytes), vec![1500; taken]);
    assert_eq!(recorder.stats().written, taken as u64);
}

#[test]
fn unwritten_frames_are_lost_at_the_end() {
    let home = tempfile::tempdir().unwrap();
    let recorder = recorder(&home);
    let pipe = reader(&recorder);
    recorder.renew().unwrap();
    write(&recorder, &[60, 61]);
    drop(pipe);
    recorder.end();
    let ended = recorder.stats();
    assert_eq!((ended.written, ended.waiting, ended.lost), (0, 0, [("no-file".to_owned(), 2)].into()));
    // A worker that did not respond in time may still have it.
    assert_eq!(write(&recorder, &[60]).refused, Some(Reason::NoFile));
    let mut pipe = reader(&recorder);
    recorder.keep();
    assert_eq!(recorder.renew(), Ok(false));
    assert!(all(&mut pipe).is_empty(), "it has ended");
}
