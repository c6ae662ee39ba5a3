//! Capture files that are replayed by a shared port, and the order in which their frames leave.

use super::*;
use capture::{Reader, Writer};
use e2e::virtio::Source;
use engine::reload::Step;
use lab::cpu;
use std::fs::File;
use std::path::Path;
use std::time::Duration;

/// Writes a capture file of so many distinct frames. Returns them.
fn record(path: &Path, frames: usize) -> Vec<Vec<u8>> {
    let mut source = Source::new(2, 1, SIZES);
    let frames: Vec<_> = (0..frames).map(|_| source.make()).collect();
    let mut file = Writer::new(File::create(path).unwrap(), 2048).unwrap();
    frames.iter().for_each(|frame| file.write(Duration::ZERO, frame).unwrap());
    file.flush().unwrap();
    frames
}

/// Returns the frames of a capture file.
fn recorded(path: &Path) -> Vec<Vec<u8>> {
    Reader::open(path).unwrap().map(|frame| frame.unwrap().bytes).collect()
}

fn replay(keys: &str) -> String {
    format!("[[port]]\nname = \"wan\"\ndriver = \"pcap\"\nreplay = \"in.pcap\"\n{keys}")
}

/// A port that records.
const TAPE: &str = "[[port]]\nname = \"tape\"\ndriver = \"pcap\"\nrecord = \"out.pcap\"\n";

#[test]
fn what_is_replayed_is_recorded_in_its_order() {
    const FRAMES: usize = 20_000;
    for (workers, more) in [(vec![0, 1, 2], ""), (vec![2, 1], "parent = 0\n"), (vec![1], "parent = 1\n")] {
        let home = Home::new();
        let sent = record(&home.path("in.pcap"), FRAMES);
        let keys = format!("rx-sharing = \"static-role\"\nworkers = {workers:?}\nstalled-after = \"10s\"\n{more}");
        // The tape is open before the replay begins.
        let patch = "[[patch]]\nports = [\"wan\", \"tape\"]\n";
        let millrace = home.start(&[TAPE, &replay(&keys), patch, &super::workers(3)].concat());
        millrace.counted("tape", 0, FRAMES as u64);
        adds_up(&millrace, "wan", [FRAMES as u64, 0], &workers);
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
    let _alone = cpu::alone();
    let (home, other) = (Home::new(), Home::new());
    let sent = record(&home.path("in.pcap"), FRAMES);
    let keys = STATIC_ROLES.to_owned() + "order = \"none\"\n";
    let without = [port("fw"), workers(WORKERS)].concat();
    let with = [&replay(&keys), PATCH, &without].concat();
    let millrace = home.start(&without);
    let socket = home.socket("fw").display().to_string();
    let guest = format!(
        "[[port]]\nname = \"nic\"\ndriver = \"virtio-user\"\nsocket = \"{socket}\"\nqueues = {WORKERS}\nqueue-size = 1024\n"
    );
    let recorder = other.start(&[TAPE, &guest, "[[patch]]\nports = [\"nic\", \"tape\"]\n", SLEEPER].concat());
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
        // The parent sends what the first lane hands over.
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
