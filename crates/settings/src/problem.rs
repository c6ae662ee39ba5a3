//! The problems of a configuration file: all of them at once, each with its line and a caret.

use annotate_snippets::{Annotation, AnnotationKind, Level, Renderer, Snippet};
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Whether a problem keeps the switch from starting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The file cannot be used.
    Error,
    /// The file can be used, but probably does not mean what its author intended.
    Warning,
}

/// One problem.
#[derive(Clone, Debug)]
pub struct Problem {
    /// Whether it keeps the switch from starting.
    pub severity: Severity,
    /// One line of description.
    pub message: String,
    /// Its byte range in the file.
    pub span: Range<usize>,
    /// A related place, and its label.
    pub related: Option<(Range<usize>, String)>,
    /// The remedy.
    pub help: String,
}

impl Problem {
    /// Returns a problem that keeps the switch from starting.
    pub fn error(span: &Range<usize>, message: impl Into<String>, help: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            message: message.into(),
            span: span.clone(),
            related: None,
            help: help.into(),
        }
    }

    /// Returns a problem that is probably a mistake.
    pub fn warning(span: &Range<usize>, message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(span, message, help) }
    }

    /// Adds a related place.
    pub fn and_at(mut self, span: &Range<usize>, label: impl Into<String>) -> Self {
        self.related = Some((span.clone(), label.into()));
        self
    }
}

/// All problems of one file, in the order of the file.
#[derive(Clone, Debug)]
pub struct Report {
    path: PathBuf,
    text: String,
    /// Offset of each line of the text. There may be thousands of problems, and none may cost a walk through the text.
    lines: Vec<usize>,
    problems: Vec<Problem>,
}

/// Lines between two places that are shown as one piece of the file, those between them left out.
const NEAR: usize = 100;

impl Report {
    /// Collects the problems of the file at `path`, which holds `text`.
    pub fn new(path: &Path, text: &str, mut problems: Vec<Problem>) -> Self {
        // A stable sort: problems at one place stay in the order in which they were found.
        problems.sort_by_key(|problem| problem.span.start);
        let after = text.match_indices('\n').map(|(newline, _)| newline + 1);
        Self { path: path.to_owned(), text: text.to_owned(), lines: [0].into_iter().chain(after).collect(), problems }
    }

    /// Reports whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.problems.is_empty()
    }

    /// Reports whether there are errors.
    pub fn has_errors(&self) -> bool {
        self.count(Severity::Error) > 0
    }

    /// Counts the problems of one severity.
    pub fn count(&self, severity: Severity) -> usize {
        self.problems.iter().filter(|problem| problem.severity == severity).count()
    }

    /// Formats the problems, one line each: `file:line:column: message; help`.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        self.problems.iter().map(|problem| {
            let (line, column) = self.position(problem.span.start);
            format!("{}:{line}:{column}: {}; {}", self.path.display(), problem.message, problem.help)
        })
    }

    /// Formats the problems with their lines, for people.
    pub fn render(&self, styled: bool) -> String {
        let renderer = if styled { Renderer::styled() } else { Renderer::plain() };
        let path = self.path.display().to_string();
        let rendered: Vec<String> = self
            .problems
            .iter()
            .map(|problem| {
                let level = match problem.severity {
                    Severity::Error => Level::ERROR,
                    Severity::Warning => Level::WARNING,
                };
                let excerpts = self.excerpts(problem).into_iter().map(|excerpt| excerpt.path(&path));
                let group = level.primary_title(&problem.message).elements(excerpts);
                renderer.render(&[group.element(Level::HELP.message(&problem.help))])
            })
            .collect();
        rendered.join("\n\n")
    }

    /// Returns the lines that show a problem, with their annotations: in one piece if its places are near each other.
    fn excerpts<'r>(&'r self, problem: &'r Problem) -> Vec<Excerpt<'r>> {
        let span = self.within(&problem.span);
        let (first, last) = self.lines_of(&span);
        let primary = |piece: &Piece| AnnotationKind::Primary.span(piece.relative(&span));
        let Some((other, label)) = &problem.related else {
            let piece = self.piece(first, last);
            return vec![self.excerpt(&piece).annotation(primary(&piece))];
        };
        let other = self.within(other);
        let (from, to) = self.lines_of(&other);
        let related = |piece: &Piece| AnnotationKind::Context.span(piece.relative(&other)).label(label);
        if last.max(to) - first.min(from) <= NEAR {
            let piece = self.piece(first.min(from), last.max(to));
            return vec![self.excerpt(&piece).annotation(primary(&piece)).annotation(related(&piece))];
        }
        let (here, there) = (self.piece(first, last), self.piece(from, to));
        vec![self.excerpt(&here).annotation(primary(&here)), self.excerpt(&there).annotation(related(&there))]
    }

    fn excerpt(&self, piece: &Piece) -> Excerpt<'_> {
        Snippet::source(&self.text[piece.bytes.clone()]).line_start(piece.line + 1)
    }

    /// Returns the lines from `first` to `last`.
    fn piece(&self, first: usize, last: usize) -> Piece {
        let end = self.lines.get(last + 1).copied().unwrap_or(self.text.len());
        Piece { bytes: self.lines[first]..end, line: first }
    }

    fn lines_of(&self, span: &Range<usize>) -> (usize, usize) {
        (self.line_of(span.start), self.line_of(span.end))
    }

    /// Returns the line of a byte, from 0.
    fn line_of(&self, at: usize) -> usize {
        self.lines.partition_point(|&start| start <= at) - 1
    }

    /// Returns line and column of a byte, both from 1; columns count characters.
    fn position(&self, at: usize) -> (usize, usize) {
        let (at, line) = (self.text.floor_char_boundary(at), self.line_of(at));
        (line + 1, self.text[self.lines[line]..at].chars().count() + 1)
    }

    fn within(&self, span: &Range<usize>) -> Range<usize> {
        let start = self.text.floor_char_boundary(span.start);
        start..self.text.ceil_char_boundary(span.end.max(start))
    }
}

/// Some lines of the file, as they are shown.
type Excerpt<'r> = Snippet<'r, Annotation<'r>>;

/// The place of some lines: their bytes, and the number of the first one, from 0.
struct Piece {
    bytes: Range<usize>,
    line: usize,
}

impl Piece {
    /// Returns a range of the file as one of these lines.
    fn relative(&self, span: &Range<usize>) -> Range<usize> {
        span.start - self.bytes.start..span.end - self.bytes.start
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(false))
    }
}

impl std::error::Error for Report {}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a file of `lines` lines, and a function from a line to its range of bytes.
    fn file(lines: usize) -> (String, impl Fn(usize) -> Range<usize>) {
        ((1..=lines).map(|line| format!("line {line:06}\n")).collect(), |line: usize| {
            (line - 1) * 12..(line - 1) * 12 + 11
        })
    }

    #[test]
    fn places_far_from_each_other_are_shown_apart() {
        let (text, line) = file(1000);
        let show = |other: usize| {
            let problem =
                Problem::error(&line(500), "this is wrong", "do that").and_at(&line(other), "because of this");
            Report::new(Path::new("m.toml"), &text, vec![problem]).to_string()
        };
        let near = show(497);
        assert!(near.contains("497 | line 000497") && near.contains("500 | line 000500"), "{near}");
        let far = show(3);
        assert!(far.contains("--> m.toml:500:1") && far.contains("::: m.toml:3:1"), "{far}");
        assert!(far.contains("3 | line 000003") && far.contains("because of this"), "{far}");
        assert!(!far.contains("000004") && !far.contains("000499"), "{far}");
    }

    /// Minutes, if each problem cost a walk through the file.
    #[test]
    fn the_cost_of_a_problem_does_not_grow_with_their_number() {
        const MANY: usize = 20_000;
        let (text, line) = file(MANY);
        let problems = (1..=MANY)
            .map(|number| Problem::warning(&line(number), "odd", "look").and_at(&line(1), "as it is not this one"));
        let report = Report::new(Path::new("m.toml"), &text, problems.collect());
        assert_eq!(report.lines().last().unwrap(), format!("m.toml:{MANY}:1: odd; look"));
        assert!(report.render(false).contains(&format!("{MANY} | line 0{MANY}")));
    }
}
