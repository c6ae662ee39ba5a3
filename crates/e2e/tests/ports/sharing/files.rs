//! Capture files that are replayed by a shared port, and the order in which their frames leave.

use super::*;
use capture::{Reader, Writer};
use e2e::virtio::Source;
use engine::reload::Step;
use std::fs::File;
use std::path::Path;
use std::time::Duration;

/// Writes a capture file of distinct frames, and returns these.
fn record(path: &Path, frames: usize) -> Vec<Vec<u8>> {
    let mut source = Source::new(2, 1, SIZES);
    let frames: Vec<_> = (0..frames).map(|_| source.make()).collect();
    let mut file = Writer::new(File::create(path).unwrap(), 2048).unwrap();
    frames.iter().for_each(|frame| file.write(Duration::ZERO, frame).unwrap());
    file.flush().unwrap();
    frames
}

fn recorded(path: &Path) -> Vec<Vec<u8>> {
    Reader::open(path).unwrap().map(|frame| frame.unwrap().bytes).collect()
}

/// Returns a port that replays the file, for workers that share it so.
fn replayed(keys: &RawPort) -> RawPort {
    shared(keys, replay("wan", "in.pcap"))
}

/// Returns a port that records.
fn tape() -> RawPort {
    lab::millrace::config::record("tape", "out.pcap")
}

#[test]
fn replayed_frames_are_recorded_in_their_order() {
    const FRAMES: usize = 20_000;
    for (workers, parent) in [(vec![0, 1, 2], None), (vec![2, 1], Some(0)), (vec![1], Some(1))] {
        let home = Home::new();
        let sent = record(&home.path("in.pcap"), FRAMES);
        let keys = roles(&workers);
        let keys = parent.map_or(keys.clone(), |parent| parented(parent, keys));
        // The tape is open before the replay begins.
        let patch = patch("wan", "tape");
        let millrace = home.start((tape(), replayed(&keys), patch, super::workers(3)));
        millrace.counted("tape", 0, FRAMES as u64);
        let lanes: Vec<_> = workers.iter().map(|&worker| worker as usize).collect();
        adds_up(&millrace, "wan", [FRAMES as u64, 0], &lanes);
        millrace.stop();
        let came = recorded(&home.path("out.pcap"));
        let first = came.iter().zip(&sent).position(|(came, sent)| came != sent);
        assert!(came == sent, "{} frames; the first that differs is {first:?}", came.len());
    }
}

/// A second Millrace is the guest, with as many queues as there are workers.
#[test]
fn without_an_order_each_worker_sends_to_a_queue_of_its_own() {
    const WORKERS: usize = 3;
    /// As many as the guest has buffers in one queue.
    const FRAMES: usize = 1000;
    let (home, other) = (Home::new(), Home::new());
    let sent = record(&home.path("in.pcap"), FRAMES);
    let keys = RawPort { order: FrameOrder::None.into(), ..static_roles() };
    let without = (vhost_user("fw"), workers(WORKERS));
    let with = (replayed(&keys), joined(), &without);
    let millrace = home.start(&without);
    let (socket, queues) = (socket(&home.socket("fw")), (WORKERS as i64).into());
    let guest = port("nic", VirtioUser { socket, queues, queue_size: 1024.into(), ..VirtioUser::default() });
    let recorder = other.start((tape(), guest, patch("nic", "tape"), sleeper()));
    recorder.wait_up(&["nic"]);
    millrace.wait_up(&["fw"]);
    let mut total = 0;
    for _ in 0..5 {
        home.configure(&with);
        let report = millrace.reload();
        assert_eq!((report.failed(), report.ports(Step::Added)), (0, vec!["wan"]), "{report}");
        total += FRAMES as u64;
        let fw = millrace.counted("fw", 0, total);
        adds_up(&millrace, "wan", [FRAMES as u64, 0], &[0, 1, 2]);
        assert!(fw.drops().is_empty(), "{:?}", fw.0);
        // The parent sends frames that the first lane hands over.
        recorder.counted("tape", 0, total);
        home.configure(&without);
        assert_eq!(millrace.reload().ports(Step::Removed), ["wan"]);
    }
    let queues: Vec<u64> = millrace.port("fw").0.queues.iter().map(|queue| queue.tx_packets).collect();
    assert_eq!((queues.len(), queues.iter().sum::<u64>()), (WORKERS, total), "{queues:?}");
    millrace.stop();
    recorder.stop();
    let mut came = recorded(&other.path("out.pcap"));
    let mut sent = vec![sent; 5].concat();
    came.sort();
    sent.sort();
    assert!(came == sent, "not each frame came once: {} of {}", came.len(), sent.len());
}
