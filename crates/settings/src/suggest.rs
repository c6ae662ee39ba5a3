//! Names in messages: suggestions for mistyped ones, and lists of many.

/// Returns the candidate nearest to `word`, if it is near enough to be a typing mistake.
pub fn closest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let length = word.chars().count();
    // Replacing every letter is no typing mistake.
    let limit = (length / 3).clamp(1, 3).min(length.saturating_sub(1));
    candidates
        .into_iter()
        .map(|candidate| (distance(word, candidate), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Things of one kind that are named one by one; of more, the others are only counted.
pub const FEW: usize = 3;

/// Names the first of some things, and counts the others: `ports a, b, c and 5 others`.
pub fn few(what: &str, names: &[&str]) -> String {
    let (first, others) = names.split_at(names.len().min(FEW));
    match (first, others) {
        ([only], _) => format!("{what} {only}"),
        (first, []) => format!("{what}s {}", first.join(", ")),
        (first, [_]) => format!("{what}s {} and one other", first.join(", ")),
        (first, others) => format!("{what}s {} and {} others", first.join(", "), others.len()),
    }
}

/// Returns the Levenshtein distance: insertions, deletions and substitutions between two words, ignoring case.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.to_lowercase().chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.to_lowercase().chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_names_are_counted() {
        assert_eq!(few("port", &["a"]), "port a");
        assert_eq!(few("port", &["a", "b", "c"]), "ports a, b, c");
        assert_eq!(few("port", &["a", "b", "c", "d"]), "ports a, b, c and one other");
        assert_eq!(few("port", &["a", "b", "c", "d", "e"]), "ports a, b, c and 2 others");
    }

    #[test]
    fn near_words_are_found_and_far_ones_are_not() {
        let keys = ["socket", "queues", "queue-size"];
        assert_eq!(closest("sokcet", keys), Some("socket"));
        assert_eq!(closest("queue", keys), Some("queues"));
        assert_eq!(closest("Queue_size", keys), Some("queue-size"));
        assert_eq!(closest("bandwidth", keys), None);
        assert_eq!(closest("c", ["a", "b"]), None);
    }
}
