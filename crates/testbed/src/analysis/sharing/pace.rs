//! Pace of threads that process packets, from the times at which each was done.

use crate::statistics::median;

/// Packets before these do not count: their share of all, as the parent has received some before the threads begin.
const LEAD: usize = 4;

/// Returns the packets per cycle of all threads together, while all of them work; `None` if there was no such time. For each
/// thread there are the times of its packets, in cycles and in order.
pub fn pace(times: &[Vec<u64>]) -> Option<f64> {
    let end = times.iter().map(|times| times.last().copied()).min()??;
    let mut all: Vec<u64> = times.iter().flatten().copied().collect();
    all.sort_unstable();
    let start = *all.get(all.len() / LEAD)?;
    let packets = all.iter().filter(|&&time| time > start && time <= end).count();
    // Less than a batch of each thread says nothing.
    (packets > all.len() / LEAD).then(|| packets as f64 / (end - start) as f64)
}

/// Returns the cycles that a packet takes within a batch: the median time from one to the next.
pub fn work(times: &[Vec<u64>]) -> Option<f64> {
    median(times.iter().flat_map(|times| times.windows(2)).map(|pair| (pair[1] - pair[0]) as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_count_while_all_of_them_work() {
        let one: Vec<u64> = (0..100).map(|n| 1000 + 10 * n).collect();
        assert_eq!(pace(std::slice::from_ref(&one)), Some(0.1));
        // Two threads are twice as fast; the time in which one continues alone does not count.
        let longer: Vec<u64> = (0..200).map(|n| 1005 + 10 * n).collect();
        let both = pace(&[one.clone(), longer]).unwrap();
        assert!((both - 0.2).abs() < 0.01, "{both}");
        assert_eq!(work(&[one.clone(), one]), Some(10.0));
    }

    #[test]
    fn a_thread_without_a_packet_says_nothing() {
        let one: Vec<u64> = (0..100).collect();
        assert_eq!((pace(&[one.clone(), Vec::new()]), pace(&[]), work(&[])), (None, None, None));
        // One has ended before the others have begun.
        assert_eq!(pace(&[vec![1, 2], one.iter().map(|n| n + 1000).collect()]), None);
    }
}
