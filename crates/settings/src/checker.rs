//! The collection of problems while values are checked.

use crate::problem::Problem;
use crate::read::Unread;
use crate::written::{At, Field};
use packet::MacAddr;
use std::ops::Range;

/// The problems found so far. A wrong value is replaced by another one, so that the rest can be checked as well.
#[derive(Debug)]
pub struct Checker {
    /// The problems found.
    pub problems: Vec<Problem>,
    unread: Vec<Unread>,
}

impl Checker {
    /// Continues from the problems found while reading the file.
    pub fn new(problems: Vec<Problem>, unread: Vec<Unread>) -> Checker {
        Checker { problems, unread }
    }

    /// Reports an error.
    pub fn error(&mut self, span: &Range<usize>, message: impl Into<String>, help: impl Into<String>) {
        self.problems.push(Problem::error(span, message, help));
    }

    /// Reports a warning.
    pub fn warn(&mut self, span: &Range<usize>, message: impl Into<String>, help: impl Into<String>) {
        self.problems.push(Problem::warning(span, message, help));
    }

    /// Reports whether `key` of the table at `table` exists, but was already reported as unreadable.
    pub fn is_unread(&self, table: &Range<usize>, key: &str) -> bool {
        self.unread.iter().any(|unread| unread.table == *table && unread.key == key)
    }

    /// Returns a required key's value, or reports it missing; `example` shows how to write it.
    pub fn required<'a, T>(
        &mut self,
        table: &Range<usize>,
        key: &str,
        field: &'a Field<T>,
        example: &str,
    ) -> Option<&'a At<T>> {
        if field.is_none() && !self.is_unread(table, key) {
            self.error(table, format!("`{key}` is missing"), format!("add `{example}`"));
        }
        field.as_ref()
    }

    /// Returns a number within `range`, or `default`; reports one out of range.
    pub fn number(&mut self, key: &str, field: &Field<i64>, range: &Range<i64>, default: i64) -> i64 {
        let Some(at) = field.as_ref() else { return default };
        if self.within(key, at.value, &at.span, range) { at.value } else { default }
    }

    /// Checks that this number, at `span`, is in `range`, and reports it if not.
    pub fn within(&mut self, key: &str, number: i64, span: &Range<usize>, range: &Range<i64>) -> bool {
        if range.contains(&number) {
            return true;
        }
        let (start, last) = (range.start, range.end - 1);
        let (why, bounds) = match (number > last, range.end == i64::MAX) {
            (true, true) => (": it is too large", format!("give at most {last}")),
            (false, true) => ("", format!("give {start} or more")),
            _ => ("", format!("give a number from {start} to {last}")),
        };
        self.error(span, format!("`{key}` cannot be {number}{why}"), bounds);
        false
    }

    /// Returns the unicast address at `at`; reports any other value.
    pub fn unicast(&mut self, at: &At<String>) -> Option<MacAddr> {
        match at.parse::<MacAddr>() {
            Ok(mac) if mac.is_unicast() => return Some(mac),
            Ok(mac) => self.error(
                &at.span,
                format!("{mac} is not the address of a single station"),
                "give an address whose first byte is even, and not all zeros",
            ),
            Err(error) => self.error(&at.span, format!("`{}` is not a MAC address", at.value), error.to_string()),
        }
        None
    }
}
