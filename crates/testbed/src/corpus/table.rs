//! The report as text.

use super::files::File;
use super::report::{PathReport, Report};
use super::tally::{Difference, Kind};
use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};
use std::fmt::{self, Display};

/// Most remarks on files, and most differences of a path, that are shown.
const SHOWN: usize = 10;

impl Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Changed => "changed",
            Kind::Lost => "lost without a reason",
            Kind::Repeated => "came out again",
            Kind::Overtaken => "came out after a later one",
            Kind::NotDropped => "came out, though the path should drop it",
            Kind::Returned => "came back to its sender",
            Kind::Unknown => "came out, though nobody sent it",
        })
    }
}

impl Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let files = self.files.len();
        writeln!(f, "{}: {} frames in {files} files, {} distinct", self.folder, self.frames, self.distinct)?;
        let mut remarks = self.files.iter().flat_map(remarks);
        remarks.by_ref().take(SHOWN).try_for_each(|remark| writeln!(f, "{remark}"))?;
        let more = remarks.count();
        if more > 0 {
            writeln!(f, "and {more} more; --json has all")?;
        }
        writeln!(f, "\n{}", table(&self.paths))?;
        for path in self.paths.iter().filter(|path| path.aggregates > 0) {
            writeln!(f, "\nAlong {}, {} frames travelled in {} aggregates.", path.path, path.joined, path.aggregates)?;
        }
        self.paths.iter().filter(|path| !path.is_equal()).try_for_each(|path| details(path, f))?;
        f.write_str(if self.equal {
            "\nAll frames came out as they went in, or the path can't carry them."
        } else {
            "\nThere are differences."
        })
    }
}

/// Returns remarks on a file.
fn remarks(file: &File) -> impl Iterator<Item = String> {
    let File { path, frames, left_out, problem, .. } = file;
    let problem = problem.as_ref().map(|problem| format!("{path} ({frames} frames): {problem}"));
    let left_out = (*left_out > 0).then(|| format!("{path}: {left_out} frames are too long to be sent"));
    problem.into_iter().chain(left_out)
}

fn table(paths: &[PathReport]) -> Table {
    let mut table = Table::new();
    table.load_style(NOTHING).set_header([
        "PATH",
        "SENT",
        "EQUAL",
        "DIFFERENT",
        "DROPPED, AS THE PATH CAN'T CARRY THEM",
    ]);
    for PathReport { path, sum, .. } in paths {
        let reasons: Vec<_> = sum.dropped.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
        let [sent, equal, different] = [sum.sent, sum.equal, sum.different].map(|count| count.to_string());
        table.add_row([path.to_string(), sent, equal, different, reasons.join(", ")]);
    }
    for column in 1..=3 {
        table.column_mut(column).into_iter().for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    }
    table
}

/// Writes the differences along a path.
fn details(report: &PathReport, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let PathReport { path, sum, files, kinds, differences, miscounted, failure, .. } = report;
    writeln!(f, "\nAlong {path}:")?;
    for (kind, count) in kinds {
        writeln!(f, "  {count} {kind}")?;
    }
    for (reason, count) in miscounted {
        let (counted, missing) = (count.counted, count.missing);
        writeln!(
            f,
            "  {counted} dropped as {reason} by the switches' counters, but {missing} frames are missing for that"
        )?;
    }
    for (file, sum) in files.iter().filter(|(_, sum)| sum.different > 0) {
        writeln!(f, "  {file}: {} of {} frames", sum.different, sum.sent)?;
    }
    differences.iter().take(SHOWN).try_for_each(|difference| writeln!(f, "  {difference}"))?;
    if differences.len() > SHOWN {
        writeln!(f, "  and more: --json has the first hundred")?;
    }
    if sum.not_sent > 0 {
        writeln!(f, "  {} frames were not sent", sum.not_sent)?;
    }
    failure.iter().try_for_each(|failure| writeln!(f, "  {failure}"))
}

impl Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Difference { kind, at, sent, came } = self;
        if let Some(sent) = sent {
            write!(f, "{}, frame {} ({} bytes): ", sent.file, sent.frame, sent.piece.length)?;
        }
        write!(f, "{kind}")?;
        if let Some(at) = at {
            write!(f, " from byte {at} on")?;
        }
        for (what, piece) in [("sent", sent.as_ref().map(|sent| &sent.piece)), ("came", came.as_ref())] {
            if let Some(piece) = piece {
                write!(f, "\n    {what} {}", piece.bytes)?;
            }
        }
        came.as_ref().map_or(Ok(()), |came| write!(f, " ({} bytes)", came.length))
    }
}
