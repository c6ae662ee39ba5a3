//! Reads TOML text and reports every key that does not fit, not only the first.
//!
//! Deserialization stops at the first error. So the offending key is reported and removed from the document, and the
//! rest is tried again until it fits: each round removes one key, so this terminates, after some number of keys at the latest.

use crate::problem::Problem;
use crate::suggest::closest;
use crate::tagged::Tagged;
use serde::de::DeserializeOwned;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue, Deserializer};

/// Keys that are reported as unreadable. Each costs a walk through the file, and no user reads more.
const MOST_UNREAD: usize = 50;

/// The result of reading a file.
#[derive(Debug)]
pub struct Read<T> {
    /// The keys that fit. `None` if the file is not TOML.
    pub file: Option<T>,
    /// The keys that did not.
    pub unread: Vec<Unread>,
    /// The problems with them.
    pub problems: Vec<Problem>,
}

/// A key that is in the file but could not be read, so that it is not reported as missing, too.
#[derive(Debug, PartialEq, Eq)]
pub struct Unread {
    /// Span of the table that contains it.
    pub table: Range<usize>,
    /// Its name.
    pub key: String,
}

/// Reads `text`.
pub fn read<T: DeserializeOwned>(text: &str) -> Read<T> {
    read_sorted(text, |_, _| {})
}

/// Reads `text`, in which the keys of a section depend on a tag.
pub fn read_tagged<T: DeserializeOwned>(text: &str, tagged: &Tagged) -> Read<T> {
    read_sorted(text, |document, problems| tagged.sort(document, problems))
}

fn read_sorted<T: DeserializeOwned>(text: &str, sort: impl FnOnce(&mut DeTable<'_>, &mut Vec<Problem>)) -> Read<T> {
    let mut read = Read { file: None, unread: Vec::new(), problems: Vec::new() };
    let (mut document, syntax) = DeTable::parse_recoverable(text);
    if !syntax.is_empty() {
        // The parser guesses the rest of the document: checking that would report false errors.
        read.problems.extend(syntax.iter().map(|error| {
            let span = error.span().unwrap_or(0..0);
            Problem::error(&span, format!("not TOML: {}", error.message()), "see https://toml.io for the syntax")
        }));
        return read;
    }
    sort(document.get_mut(), &mut read.problems);
    for _ in 0..MOST_UNREAD {
        let error = match T::deserialize(Deserializer::from(document.clone())) {
            Ok(file) => {
                read.file = Some(file);
                return read;
            }
            Err(error) => error,
        };
        let span = error.span().unwrap_or(0..0);
        read.problems.push(explain(error.message(), &span));
        match take_out(document.get_mut(), &(0..0), &span) {
            Some(unread) => read.unread.push(unread),
            None => return read,
        }
    }
    let all = format!("{MOST_UNREAD} keys cannot be read, and there may be more");
    read.problems.push(Problem::error(&(text.len()..text.len()), all, "mend these first"));
    read
}

/// Removes the innermost key whose name or value is at `span`.
fn take_out(table: &mut DeTable<'_>, table_span: &Range<usize>, span: &Range<usize>) -> Option<Unread> {
    // The span of a table under a [header] is the header alone, so all children must be searched.
    for (_, value) in table.iter_mut() {
        let found = take_out_of_value(value, span);
        if found.is_some() {
            return found;
        }
    }
    let (key, _) = table.iter().find(|(key, value)| holds(&key.span(), span) || holds(&value.span(), span))?;
    let name = key.get_ref().to_string();
    table.remove(name.as_str());
    Some(Unread { table: table_span.clone(), key: name })
}

fn take_out_of_value(value: &mut Spanned<DeValue<'_>>, span: &Range<usize>) -> Option<Unread> {
    let value_span = value.span();
    match value.get_mut() {
        DeValue::Table(table) => take_out(table, &value_span, span),
        DeValue::Array(array) => array.iter_mut().find_map(|element| take_out_of_value(element, span)),
        _ => None,
    }
}

fn holds(outer: &Range<usize>, inner: &Range<usize>) -> bool {
    outer.start <= inner.start && inner.end <= outer.end
}

/// Translates serde's message into this program's terms.
fn explain(message: &str, span: &Range<usize>) -> Problem {
    // serde quotes names with backticks: first the offender, then the known names.
    let mut quoted = message.split('`').skip(1).step_by(2);
    let named = |what: &str, mut quoted: Vec<&str>| {
        let offender = quoted.remove(0);
        let help = match closest(offender, quoted.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("known here: {}", quoted.join(", ")),
        };
        Problem::error(span, format!("unknown {what} `{offender}`"), help)
    };
    if message.starts_with("unknown field") {
        return named("key", quoted.collect());
    }
    if message.starts_with("unknown variant") {
        return named("value", quoted.collect());
    }
    if let Some((found, expected)) =
        message.strip_prefix("invalid type: ").and_then(|rest| rest.rsplit_once(", expected "))
    {
        if found.starts_with("integer") && (expected.starts_with("i64") || found.ends_with("128")) {
            return beyond(span, quoted.next());
        }
        let expected = match expected {
            "i64" => "an integer",
            "f64" => "a number",
            "a sequence" => "an array",
            "string or table" => "a string",
            other => other,
        };
        let found = if found == "map" {
            "a table"
        } else if found == "sequence" {
            "an array"
        } else {
            found
        };
        let help = match (found, expected) {
            ("a table", "an array") => "write the header with double brackets, as in [[port]]".to_owned(),
            ("an array", "a table") => "write the header with single brackets, and only once".to_owned(),
            _ => format!("give {expected}"),
        };
        return Problem::error(span, format!("found {found}, expected {expected}"), help);
    }
    if let Some((found, expected)) =
        message.strip_prefix("invalid value: ").and_then(|rest| rest.rsplit_once(", expected "))
    {
        if expected.starts_with("i64") {
            return beyond(span, quoted.next());
        }
        return Problem::error(span, format!("found {found}, expected {expected}"), format!("give {expected}"));
    }
    if message.ends_with("number overflowed") {
        return beyond(span, None);
    }
    Problem::error(span, message, "see docs/configuration.md for the values of this key")
}

/// Returns the problem with a number that no key takes, as it does not fit.
fn beyond(span: &Range<usize>, number: Option<&str>) -> Problem {
    let number = number.unwrap_or("the number");
    if number.starts_with('-') {
        return Problem::error(span, format!("{number} is too small"), format!("give at least {}", i64::MIN));
    }
    Problem::error(span, format!("{number} is too large"), format!("give at most {}", i64::MAX))
}
