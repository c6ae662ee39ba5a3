//! Parser of callgrind's output: the events inside each call of one function by another.

use std::collections::BTreeMap;

/// Events by name: `Ir`, `D1mr` and so on.
pub type Events = BTreeMap<String, u64>;

/// Sums the events inside calls by `caller` of each of `parts`, which are parts of functions' names. Valgrind's manual
/// describes the format ("Callgrind Format Specification"); names and positions must not be compressed.
pub fn inside(profile: &str, caller: &str, parts: &[&str]) -> Option<Vec<Events>> {
    let names: Vec<&str> = profile.lines().find_map(|line| line.strip_prefix("events: "))?.split(' ').collect();
    let mut sums = vec![Events::new(); parts.len()];
    let (mut counts, mut called, mut is_call) = (false, None, false);
    for line in profile.lines() {
        if let Some(name) = line.strip_prefix("fn=") {
            counts = name.contains(caller);
        } else if let Some(name) = line.strip_prefix("cfn=") {
            called = parts.iter().position(|part| name.contains(part));
        } else if line.starts_with("calls=") {
            is_call = true;
        } else if is_call {
            // The next line: the place of the call, and the events inside. Trailing zeros are omitted.
            is_call = false;
            let Some(sum) = called.filter(|_| counts).map(|part| &mut sums[part]) else { continue };
            for (name, count) in names.iter().zip(line.split(' ').skip(1)) {
                *sum.entry((*name).to_owned()).or_default() += count.parse::<u64>().ok()?;
            }
        }
    }
    Some(sums)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_calls_by_the_right_caller_count() {
        let profile = "positions: line\nevents: Ir Dr D1mr\n\nfl=???\nfn=before\n0 5\ncfn=x::part_a\ncalls=3 0\n0 900 90 9\n\n\
                       fn=x::measured::h12\n0 7 1\ncfn=x::part_a::h3\ncalls=1 0\n0 10 4 2\n0 3\ncfn=x::part_b\ncalls=2 0\n\
                       0 20\ncfn=other\ncalls=2 0\n0 500 1 1\ncfn=x::part_a::h3\ncalls=1 0\n0 1 1 1\n\nfn=part_a\n0 11 5 3\n";
        let found = inside(profile, "measured", &["part_a", "part_b"]).unwrap();
        let get = |part: usize, name: &str| found[part].get(name).copied();
        assert_eq!([get(0, "Ir"), get(0, "Dr"), get(0, "D1mr")], [Some(11), Some(5), Some(3)]);
        assert_eq!([get(1, "Ir"), get(1, "D1mr")], [Some(20), None]);
        assert!(inside("nothing", "measured", &["a"]).is_none());
    }
}
