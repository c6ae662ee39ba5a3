//! Frames between stations, for a bridge.

use engine::forward::mac_table::Key;
use engine::port::{RxQueue, Wait};
use packet::{Burst, MAX_BURST, MacAddr, Segment};

/// Bytes of a frame.
const LEN: usize = 64;

/// A queue that always has a burst: the pairs of stations send a frame each, in turn.
pub struct Conversations {
    frames: Vec<[u8; LEN]>,
}

impl Conversations {
    pub fn new(pairs: u8) -> Conversations {
        let frame = |pair| {
            let mut frame = [0; LEN];
            frame[..6].copy_from_slice(&station(true, pair).0);
            frame[6..12].copy_from_slice(&station(false, pair).0);
            frame
        };
        Conversations { frames: (0..pairs).map(frame).collect() }
    }

    /// Returns the stations that get the frames.
    pub fn destinations(&self) -> Vec<Key> {
        (0..).map(|pair| Key::of(station(true, pair), 0)).take(self.frames.len()).collect()
    }
}

impl RxQueue for Conversations {
    fn receive<'q>(&'q self, burst: &mut Burst<'_, 'q>) -> bool {
        self.frames.iter().cycle().take(MAX_BURST).for_each(|frame| burst.push(Segment::from(&frame[..])));
        true
    }

    fn recycle(&self) {}

    fn arm(&self) -> Wait {
        Wait::Event
    }
}

/// Returns the address of a station that sends or gets the frames of this pair.
fn station(gets: bool, pair: u8) -> MacAddr {
    MacAddr([2, 0, 0, 0, gets.into(), pair])
}
