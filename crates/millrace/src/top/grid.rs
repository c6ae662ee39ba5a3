//! A table that can be sorted and filtered, apart from how it is drawn.

use std::cmp::Ordering;
use std::ops::Range;

/// A column.
#[derive(Debug)]
pub(super) struct Column {
    pub(super) name: &'static str,
    /// Its meaning, for the help.
    pub(super) meaning: &'static str,
}

/// Urgency of a cell for the user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Tone {
    #[default]
    Normal,
    /// Frames are lost or copied, or a worker has no time left.
    Warning,
    /// Nothing passes.
    Bad,
}

/// A cell.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Cell {
    pub(super) text: String,
    pub(super) tone: Tone,
    /// The number that is sorted by, in a column of numbers.
    number: Option<f64>,
}

impl Cell {
    pub(super) fn text(text: impl Into<String>) -> Cell {
        Cell { text: text.into(), ..Cell::default() }
    }

    /// Makes a cell from a number, or `-` without one.
    pub(super) fn number(number: impl Into<Option<f64>>, show: impl FnOnce(f64) -> String) -> Cell {
        let number = number.into();
        Cell { text: number.map_or_else(|| "-".to_owned(), show), number, ..Cell::default() }
    }

    pub(super) fn toned(self, tone: Tone) -> Cell {
        Cell { tone, ..self }
    }
}

/// A row.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Row {
    /// Name by which it is found again in the next interval.
    pub(super) key: String,
    pub(super) cells: Vec<Cell>,
    /// Its details, in words.
    pub(super) detail: String,
}

impl Row {
    fn contains(&self, text: &str) -> bool {
        self.cells.iter().any(|cell| cell.text.to_lowercase().contains(text))
    }
}

/// Order of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sort {
    /// The column; `None` is the order that the rows come in.
    pub(super) column: Option<usize>,
    /// Numbers come largest first, and text from A to Z, unless reversed.
    pub(super) is_reversed: bool,
}

impl Sort {
    /// Moves to the next of `columns` columns, or from the last one to none.
    pub(super) fn next(self, columns: usize) -> Sort {
        let column = self.column.map_or(0, |column| column + 1);
        Sort { column: (column < columns).then_some(column), is_reversed: false }
    }
}

/// A table.
#[derive(Clone, Debug)]
pub(super) struct Grid {
    pub(super) columns: &'static [Column],
    /// Columns of numbers, which are aligned to the right.
    pub(super) numbers: Range<usize>,
    pub(super) rows: Vec<Row>,
    /// Shown if there is no row.
    pub(super) empty: &'static str,
}

impl Grid {
    /// Keeps the rows that contain `text`, in upper or lower case.
    pub(super) fn filter(&mut self, text: &str) {
        let text = text.to_lowercase();
        self.rows.retain(|row| row.contains(&text));
    }

    /// Sorts the rows. Equal ones stay in the order that they have.
    pub(super) fn sort(&mut self, sort: Sort) {
        if let Some(column) = sort.column {
            let is_number = self.numbers.contains(&column);
            self.rows.sort_by(|a, b| compare(a.cells.get(column), b.cells.get(column), is_number));
        }
        if sort.is_reversed {
            self.rows.reverse();
        }
    }
}

fn compare(a: Option<&Cell>, b: Option<&Cell>, is_number: bool) -> Ordering {
    if is_number {
        let [a, b] = [a, b].map(|cell| cell.and_then(|cell| cell.number).unwrap_or(f64::NEG_INFINITY));
        b.total_cmp(&a)
    } else {
        let [a, b] = [a, b].map(|cell| cell.map(|cell| cell.text.to_lowercase()));
        a.cmp(&b)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: &[Column] = &[Column { name: "PORT", meaning: "" }, Column { name: "RATE", meaning: "" }];

    fn grid(rows: &[(&str, Option<f64>)]) -> Grid {
        let row = |&(name, rate): &(&str, Option<f64>)| Row {
            key: name.into(),
            cells: vec![Cell::text(name), Cell::number(rate, |rate| rate.to_string())],
            ..Row::default()
        };
        Grid { columns: COLUMNS, numbers: 1..2, rows: rows.iter().map(row).collect(), empty: "" }
    }

    fn keys(grid: &Grid) -> Vec<&str> {
        grid.rows.iter().map(|row| row.key.as_str()).collect()
    }

    fn sorted(column: Option<usize>, is_reversed: bool) -> Vec<String> {
        let mut grid = grid(&[("b", Some(9.0)), ("C", None), ("a", Some(10.0))]);
        grid.sort(Sort { column, is_reversed });
        keys(&grid).into_iter().map(str::to_owned).collect()
    }

    #[test]
    fn numbers_are_sorted_largest_first_and_text_by_the_alphabet() {
        assert_eq!(sorted(None, false), ["b", "C", "a"]);
        assert_eq!(sorted(None, true), ["a", "C", "b"]);
        assert_eq!(sorted(Some(0), false), ["a", "b", "C"]);
        assert_eq!(sorted(Some(1), false), ["a", "b", "C"]);
        assert_eq!(sorted(Some(1), true), ["C", "b", "a"]);
        assert_eq!(sorted(Some(7), false), ["b", "C", "a"], "there is no such column");
    }

    #[test]
    fn the_sort_column_goes_round() {
        let first = Sort::default().next(2);
        assert_eq!((first.column, first.next(2).column, first.next(2).next(2).column), (Some(0), Some(1), None));
    }

    #[test]
    fn the_filter_takes_any_cell_in_any_case() {
        let filtered = |text| {
            let mut grid = grid(&[("wan", Some(1.0)), ("Guest", Some(2.0))]);
            grid.filter(text);
            keys(&grid).join(" ")
        };
        assert_eq!(filtered(""), "wan Guest");
        assert_eq!(filtered("gUE"), "Guest");
        assert_eq!(filtered("1"), "wan");
        assert_eq!(filtered("x"), "");
    }
}
