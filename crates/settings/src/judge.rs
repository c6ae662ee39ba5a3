//! The judge: collects problems while values are checked.

use crate::mac::Mac;
use crate::problem::Problem;
use crate::read::Unread;
use crate::written::{At, Field};
use std::ops::Range;

/// What was found wrong so far. Who asks for a value that is wrong gets some other one in its place, so that the rest can
/// be judged as well.
#[derive(Debug)]
pub struct Judge {
    /// What was found.
    pub problems: Vec<Problem>,
    unread: Vec<Unread>,
}

impl Judge {
    /// Goes on from what was found when the file was read.
    pub fn new(problems: Vec<Problem>, unread: Vec<Unread>) -> Judge {
        Judge { problems, unread }
    }

    /// Reports an error.
    pub fn error(&mut self, span: &Range<usize>, message: impl Into<String>, help: impl Into<String>) {
        self.problems.push(Problem::error(span, message, help));
    }

    /// Reports a warning.
    pub fn warn(&mut self, span: &Range<usize>, message: impl Into<String>, help: impl Into<String>) {
        self.problems.push(Problem::warning(span, message, help));
    }

    /// Key `key` of the table at `table` is there, but was already reported as unreadable.
    pub fn is_unread(&self, table: &Range<usize>, key: &str) -> bool {
        self.unread.iter().any(|unread| unread.table == *table && unread.key == key)
    }

    /// The value of a key that must be there; `example` shows how to write it.
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

    /// A number within `range`, or `default`.
    pub fn number(&mut self, key: &str, field: &Field<i64>, range: &Range<i64>, default: i64) -> i64 {
        let Some(at) = field.as_ref() else { return default };
        if self.within(key, at.value, &at.span, range) { at.value } else { default }
    }

    /// Whether this number, which stands at `span`, is in `range`; reports if it is not.
    pub fn within(&mut self, key: &str, number: i64, span: &Range<usize>, range: &Range<i64>) -> bool {
        if range.contains(&number) {
            return true;
        }
        let bounds = if range.end == i64::MAX {
            format!("give {} or more", range.start)
        } else {
            format!("give a number from {} to {}", range.start, range.end - 1)
        };
        self.error(span, format!("`{key}` cannot be {number}"), bounds);
        false
    }

    /// The unicast address at `at`; reports if it is none.
    pub fn unicast(&mut self, at: &At<String>) -> Option<Mac> {
        match at.parse::<Mac>() {
            Ok(mac) if mac.is_unicast() => return Some(mac),
            Ok(mac) => self.error(
                &at.span,
                format!("{mac} is not the address of a single station"),
                "give an address whose first byte is even, and not all zeros",
            ),
            Err(form) => self.error(&at.span, format!("`{}` is not a MAC address", at.value), form),
        }
        None
    }
}
