//! Tests of reading and comparing, without a switch; those of the whole command are in the folder `tests`.

use super::fate::Fate;
use super::files::Corpus;
use super::model::PathModel;
use super::path::Path;
use super::report::{Miscount, PathReport, Report};
use super::rig::Counted;
use super::tally::{Difference, Kind, Outcome, Tally};
use capture::Writer;
use std::time::Duration;

fn file(frames: &[&[u8]]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = Writer::new(&mut bytes, 65_535).unwrap();
    frames.iter().for_each(|frame| writer.write(Duration::ZERO, frame).unwrap());
    bytes
}

/// Returns the corpus of a folder with these files.
fn read(files: &[(&str, Vec<u8>)]) -> Corpus {
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
    Corpus::read(folder.path(), |_| Ok(())).unwrap()
}

fn frame(number: u8, len: usize) -> Vec<u8> {
    let mut bytes = vec![number; len];
    let header = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    bytes.iter_mut().zip(header).for_each(|(byte, header)| *byte = header);
    bytes
}

/// Returns a corpus of frames with these numbers, of 60 bytes each, in one file.
fn corpus(numbers: &[u8]) -> Corpus {
    let frames: Vec<_> = numbers.iter().map(|&number| frame(number, 60)).collect();
    read(&[("a.pcap", file(&frames.iter().map(Vec::as_slice).collect::<Vec<_>>()))])
}

/// Begins a comparison, and sends all frames of a corpus in one window.
fn sent(corpus: &Corpus, model: PathModel) -> Tally<'_> {
    let mut tally = Tally::new(corpus);
    tally.model = model;
    tally.begin(0);
    (0..corpus.frames.len()).for_each(|frame| tally.send(frame));
    tally
}

#[test]
fn a_folder_has_its_distinct_frames_in_order_and_files_their_problems() {
    let [one, two, three] = [1, 2, 3].map(|number| frame(number, 60));
    let whole = file(&[&two, &three, &one]);
    let corpus = read(&[
        ("b/below.pcap", file(&[&one, &three])),
        ("a.pcap", file(&[&one, &two, &one])),
        ("c.cut", whole[..whole.len() - 1].to_vec()),
        ("d.txt", b"this is no capture, but longer than a header".to_vec()),
        ("e.pcap", file(&[])),
        ("f.pcap", Vec::new()),
    ]);
    let files: Vec<_> = corpus.files.iter().map(|file| (file.path.clone(), file.frames, file.distinct)).collect();
    let wanted = [
        ("a.pcap", 3, 2),
        ("b/below.pcap", 2, 1),
        ("c.cut", 2, 0),
        ("d.txt", 0, 0),
        ("e.pcap", 0, 0),
        ("f.pcap", 0, 0),
    ];
    assert_eq!(files, wanted.map(|(name, frames, distinct)| (name.to_owned(), frames, distinct)));
    let problems: Vec<_> = corpus.files.iter().map(|file| file.problem.is_some()).collect();
    assert_eq!(problems, [false, false, true, true, false, true]);
    let frames: Vec<_> = corpus.frames.iter().map(|frame| (corpus.origin(frame), frame.bytes.to_vec())).collect();
    let wanted = [("a.pcap, frame 1", one), ("a.pcap, frame 2", two), ("b/below.pcap, frame 2", three)];
    assert_eq!(frames, wanted.map(|(origin, bytes)| (origin.to_owned(), bytes)));
}

#[test]
fn a_file_alone_is_read_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("one.pcap");
    std::fs::write(&path, file(&[&frame(1, 60)])).unwrap();
    let corpus = Corpus::read(&path, |_| Ok(())).unwrap();
    assert_eq!((corpus.files[0].path.as_str(), corpus.frames.len()), ("one.pcap", 1));
    let missing = Corpus::read(&folder.path().join("missing"), |_| Ok(()));
    assert!(missing.is_err_and(|error| error.to_string().contains("missing can't be read: ")));
}

#[test]
fn a_path_names_the_frames_that_it_does_not_carry() {
    let fate = |mut model: PathModel, len| model.send(0, &frame(1, len));
    assert_eq!(fate(PathModel::wire(), 13), Fate::Dropped("runt"));
    assert_eq!(fate(PathModel::wire(), 14), Fate::Carried);
    assert_eq!(fate(PathModel::wire(), 65_557), Fate::Carried);
    assert_eq!(fate(PathModel::wire(), 65_558), Fate::Dropped("too-long"));
    assert_eq!(fate(PathModel::up_to(100), 100), Fate::Carried);
    assert_eq!(fate(PathModel::up_to(100), 101), Fate::Dropped("too-long"));
    // The tag counts.
    assert_eq!(fate(PathModel::tagged(7), 65_553), Fate::Carried);
    assert_eq!(fate(PathModel::tagged(7), 65_554), Fate::Dropped("too-long"));
    assert_eq!(fate(PathModel::tagged(7), 13), Fate::Dropped("runt"));
}

#[test]
fn untagged_frames_travel_in_a_vlan() {
    let model = PathModel::tagged(7);
    let tagged = |tag: [u8; 4]| [&frame(1, 60)[..12], &tag, &[9; 50]].concat();
    let (plain, in_vlan, priority) = (frame(1, 60), tagged([0x81, 0, 0x20, 5]), tagged([0x88, 0xa8, 0xe0, 0]));
    for (frame, lane, added) in [(&plain, 7, 4), (&in_vlan, 5, 0), (&priority, 7, 4)] {
        let put = model.put(frame);
        assert_eq!((put.len(), model.lane(&put)), (frame.len() + added, lane));
        assert_eq!(*model.take(&put), **frame);
    }
    assert_eq!(model.put(&plain)[12..18], [0x81, 0, 0, 7, 8, 0]);
    assert_eq!(*model.put(&[1; 13]), [1; 13]);
}

#[test]
fn unchanged_frames_are_equal() {
    let corpus = corpus(&[1, 2, 3]);
    let mut tally = sent(&corpus, PathModel::wire());
    for frame in &corpus.frames {
        assert!(!tally.is_complete());
        tally.take(1, &frame.bytes);
    }
    assert!(tally.is_complete() && tally.end());
    let tallied = tally.finish();
    assert_eq!(tallied.outcomes, [Outcome::Equal; 3]);
    assert!(tallied.counts.is_empty() && tallied.differences.is_empty());
}

#[test]
fn a_changed_frame_is_told_from_a_lost_one() {
    let corpus = corpus(&[1, 2, 3]);
    let mut tally = sent(&corpus, PathModel::wire());
    tally.take(1, &corpus.frames[0].bytes);
    // Nearer to the third than to the second.
    let mut changed = corpus.frames[2].bytes.to_vec();
    changed[58] ^= 0x40;
    tally.take(1, &changed);
    assert!(!tally.is_complete() && !tally.end());
    let tallied = tally.finish();
    assert_eq!(tallied.outcomes, [Outcome::Equal, Outcome::Different, Outcome::Different]);
    assert_eq!(tallied.counts, [(Kind::Changed, 1), (Kind::Lost, 1)].into());
    let said: Vec<_> = tallied.differences.iter().map(Difference::to_string).collect();
    assert_eq!(said[0], "a.pcap, frame 3 (60 bytes): changed from byte 58 on\n    sent 0303\n    came 4303 (60 bytes)");
    assert!(
        said[1].starts_with("a.pcap, frame 2 (60 bytes): lost without a reason\n    sent 020000000001"),
        "{said:?}"
    );
}

#[test]
fn a_frame_that_is_cut_or_padded_is_changed() {
    let corpus = corpus(&[1]);
    for len in [59, 61] {
        let mut tally = sent(&corpus, PathModel::wire());
        tally.take(1, &frame(1, len));
        tally.end();
        let tallied = tally.finish();
        let [Difference { kind: Kind::Changed, at: Some(at), .. }] = &tallied.differences[..] else {
            panic!("{:?}", tallied.differences)
        };
        assert_eq!(*at, len.min(60));
    }
}

#[test]
fn order_number_and_direction_count() {
    let corpus = corpus(&[1, 2, 3]);
    let mut tally = sent(&corpus, PathModel::wire());
    for frame in [1, 0, 0, 2] {
        tally.take(1, &corpus.frames[frame].bytes);
    }
    tally.take(0, &corpus.frames[2].bytes);
    tally.take(1, &frame(9, 60));
    assert!(tally.end(), "nothing is missing");
    let tallied = tally.finish();
    let kinds = [Kind::Repeated, Kind::Overtaken, Kind::Returned, Kind::Unknown];
    assert_eq!(tallied.counts, kinds.map(|kind| (kind, 1)).into());
    assert_eq!(tallied.outcomes, [Outcome::Different, Outcome::Equal, Outcome::Different]);
}

#[test]
fn frames_of_different_lanes_may_overtake_each_other() {
    let plain = frame(1, 60);
    let tagged = [&plain[..12], &[0x81, 0, 0, 5], &plain[12..]].concat();
    let corpus = read(&[("a.pcap", file(&[&plain, &tagged]))]);
    let mut tally = sent(&corpus, PathModel::tagged(7));
    for frame in [1, 0] {
        let put = tally.model.put(&corpus.frames[frame].bytes).into_owned();
        tally.take(1, &put);
    }
    assert_eq!(tally.finish().outcomes, [Outcome::Equal; 2]);
}

#[test]
fn drops_have_to_be_counted_for_the_reason_that_the_frame_gives() {
    let corpus = read(&[("a.pcap", file(&[&frame(1, 60), &frame(2, 61), &frame(3, 62)]))]);
    let run = |came: &[usize], dropped: &[(&str, u64)]| {
        let mut tally = sent(&corpus, PathModel::up_to(60));
        came.iter().for_each(|&frame| tally.take(1, &corpus.frames[frame].bytes));
        tally.end();
        let dropped = dropped.iter().map(|(reason, count)| (reason.to_string(), *count)).collect();
        PathReport::new(Path::Vxlan, &corpus, tally.finish(), &Counted { dropped, ..Counted::default() })
    };
    let good = run(&[0], &[("too-long", 2)]);
    assert!(good.is_equal(), "{good:?}");
    assert_eq!((good.sum.equal, good.sum.dropped.clone()), (1, [("too-long", 2)].into()));
    // One was lost elsewhere.
    let bad = run(&[0], &[("no-buffers", 1), ("too-long", 1)]);
    let miscounts = [("no-buffers", 1, 0), ("too-long", 1, 2)];
    let miscounts = miscounts.map(|(reason, counted, missing)| (reason.to_owned(), Miscount { counted, missing }));
    assert_eq!(bad.miscounted, miscounts.into());
    assert!(!bad.is_equal());
    // A reason does not explain a frame that gives none.
    let bad = run(&[], &[("no-buffers", 1), ("too-long", 2)]);
    assert_eq!((bad.kinds.clone(), bad.sum.different), ([(Kind::Lost, 1)].into(), 1));
    let bad = run(&[0, 1], &[("too-long", 1)]);
    assert_eq!((bad.kinds.clone(), bad.is_equal()), ([(Kind::NotDropped, 1)].into(), false));
}

#[test]
fn the_report_names_files_paths_and_differences() {
    let corpus = read(&[("a.pcap", file(&[&frame(1, 60), &frame(2, 60)])), ("b.txt", b"no capture".to_vec())]);
    let mut report = Report::new("captures".as_ref(), &corpus);
    let mut tally = sent(&corpus, PathModel::wire());
    corpus.frames.iter().for_each(|frame| tally.take(1, &frame.bytes));
    report.add(PathReport::new(Path::Patch, &corpus, tally.finish(), &Counted::default()));
    let text = report.to_string();
    assert!(text.starts_with("captures: 2 frames in 2 files, 2 distinct\nb.txt (0 frames): "), "{text}");
    assert!(text.ends_with("or the path can't carry them."), "{text}");
    let mut tally = sent(&corpus, PathModel::wire());
    tally.take(1, &corpus.frames[1].bytes);
    let counted = Counted { dropped: [("busy".to_owned(), 1)].into(), joined: 5, aggregates: 2 };
    let lossy = PathReport::new(Path::Aggregation, &corpus, tally.finish(), &counted);
    report.add(PathReport { failure: Some("it ended".to_owned()), ..lossy });
    let text = report.to_string();
    for part in [
        "Along aggregation, 5 frames travelled in 2 aggregates.",
        "Along aggregation:\n  1 lost without a reason\n",
        "  1 dropped as busy by the switches' counters, but 0 frames are missing for that\n  a.pcap: 1 of 2 frames\n",
        "  a.pcap, frame 1 (60 bytes): lost without a reason\n",
        "  it ended\n\nThere are differences.",
    ] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!((&json["equal"], &json["paths"][1]["files"]["a.pcap"]["different"]), (&false.into(), &1.into()));
    assert_eq!(json["paths"][1]["differences"][0]["sent"]["file"], "a.pcap");
}
