//! The better way of forwarding frames, from windows in which each of the two ways was timed.

/// Comparisons until a trial is decided.
pub(super) const TIMES: usize = 9;
/// Ratio from which a difference in the rate of frames counts, if [`MOST`] comparisons have its sign.
const NOISE: f64 = 1.0 + 1.0 / 64.0;
const MOST: usize = 7;
/// [`FEW`] comparisons decide a trial if all of them find the ratio [`CLEAR`].
const FEW: usize = 3;
const CLEAR: f64 = 1.25;

/// How frames of the length on trial are forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Without a copy.
    Direct,
    Copy,
}

/// Picoseconds for a frame: from one frame to the next, and of the switch's own work.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Timed {
    pub(super) apart: u64,
    pub(super) work: u64,
}

/// The better way, and how much longer it takes until the next frame comes in the other one: as a share, and not less than zero.
#[derive(Clone, Copy)]
pub(super) struct Verdict {
    pub(super) better: Way,
    pub(super) excess: f64,
}

impl Verdict {
    /// Returns the way in which more frames came; if as many came either way, the one that took the switch less time. To omit
    /// a copy may cost the functions more than it saves the switch. `None` if that is not clear yet.
    ///
    /// Each comparison has a window of either way, in the order of [`Way`]. Medians leave out those during which other processes had
    /// the processor.
    pub(super) fn of(compared: &[[Timed; 2]]) -> Option<Verdict> {
        let [direct, copy] = [Way::Direct as usize, Way::Copy as usize];
        let ratio = |direct: u64, copy: u64| direct.max(1) as f64 / copy.max(1) as f64;
        let mut ratios = [0.0; TIMES];
        let ratios = &mut ratios[..compared.len()];
        ratios.iter_mut().zip(compared).for_each(|(to, of)| *to = ratio(of[direct].apart, of[copy].apart));
        ratios.sort_unstable_by(f64::total_cmp);
        let (count, median) = (ratios.len(), ratios[ratios.len() / 2]);
        let is_beyond = |least: f64, most: usize| {
            let copies = median > least && ratios[count - most] > 1.0;
            copies || (median < 1.0 / least && ratios[most - 1] < 1.0)
        };
        let is_clear = count >= FEW && (ratios[0] > CLEAR || ratios[count - 1] < 1.0 / CLEAR);
        if is_clear || (count == TIMES && is_beyond(NOISE, MOST)) {
            return Some(Verdict::of_ratio(median, median));
        }
        (count == TIMES).then(|| {
            let work = |way: usize| {
                let mut work: [u64; TIMES] = std::array::from_fn(|at| compared[at][way].work);
                work.sort_unstable();
                work[count / 2]
            };
            Verdict::of_ratio(ratio(work(direct), work(copy)), median)
        })
    }

    /// Returns the verdict if the direct way takes `ratio` times what a copy takes, and `apart` times as long until the next frame.
    fn of_ratio(ratio: f64, apart: f64) -> Verdict {
        let (better, longer) = if ratio > 1.0 { (Way::Copy, apart) } else { (Way::Direct, 1.0 / apart) };
        Verdict { better, excess: (longer - 1.0).max(0.0) }
    }
}
