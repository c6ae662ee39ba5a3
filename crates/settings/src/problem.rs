//! The problems of a configuration file: all of them at once, each with its line and a caret.

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
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
    problems: Vec<Problem>,
}

impl Report {
    /// Collects the problems of the file at `path`, which holds `text`.
    pub fn new(path: &Path, text: &str, mut problems: Vec<Problem>) -> Self {
        // A stable sort: problems at one place stay in the order in which they were found.
        problems.sort_by_key(|problem| problem.span.start);
        Self { path: path.to_owned(), text: text.to_owned(), problems }
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
                let mut snippet = Snippet::source(&self.text)
                    .path(&path)
                    .annotation(AnnotationKind::Primary.span(self.within(&problem.span)));
                if let Some((span, label)) = &problem.related {
                    snippet = snippet.annotation(AnnotationKind::Context.span(self.within(span)).label(label));
                }
                let group: Group<'_> =
                    level.primary_title(&problem.message).element(snippet).element(Level::HELP.message(&problem.help));
                renderer.render(&[group])
            })
            .collect();
        rendered.join("\n\n")
    }

    /// Returns line and column of a byte, both from 1; columns count characters.
    fn position(&self, at: usize) -> (usize, usize) {
        let before = &self.text[..self.text.floor_char_boundary(at)];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
    }

    fn within(&self, span: &Range<usize>) -> Range<usize> {
        let start = self.text.floor_char_boundary(span.start);
        start..self.text.ceil_char_boundary(span.end.max(start))
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(false))
    }
}

impl std::error::Error for Report {}
