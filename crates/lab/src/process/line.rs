//! Command lines as a reader could type them.

use std::borrow::Cow;

/// Formats a program and its arguments for a shell.
pub(crate) fn line<S: AsRef<str>>(program: &str, arguments: &[S]) -> String {
    let words = std::iter::once(program).chain(arguments.iter().map(S::as_ref));
    words.map(quoted).collect::<Vec<_>>().join(" ")
}

fn quoted(word: &str) -> Cow<'_, str> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@+%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return Cow::Borrowed(word);
    }
    Cow::Owned(format!("'{}'", word.replace('\'', r"'\''")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_special_characters_are_quoted() {
        assert_eq!(line("ip", &["link", "add", "br0"]), "ip link add br0");
        assert_eq!(line("a b", &["", "it's", "(0,2)"]), r"'a b' '' 'it'\''s' '(0,2)'");
    }
}
