//! Progress on the terminal.

use super::path::Path;
use super::report::PathReport;
use indicatif::{ProgressBar, ProgressStyle};
use std::time::Duration;

/// A bar of the present step; without a terminal, a line for each path.
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// Begins with the files.
    pub fn new() -> Progress {
        let bar = ProgressBar::new_spinner();
        bar.enable_steady_tick(Duration::from_millis(500));
        Progress { bar }
    }

    /// Shows that a file is read.
    pub fn read(&self, file: &std::path::Path) {
        self.bar.set_message(format!("reading {}", file.display()));
    }

    /// Shows that a path begins, which all frames take.
    pub fn begin(&self, path: Path, frames: usize) {
        let style = ProgressStyle::with_template("{bar:30} {pos}/{len} frames, {eta} left: {wide_msg}");
        self.bar.set_style(style.expect("the template is sound"));
        self.bar.set_length(frames as u64);
        self.bar.set_position(0);
        self.bar.reset_eta();
        self.bar.set_message(path.to_string());
    }

    /// Shows how many frames have been sent.
    pub fn sent(&self, frames: usize) {
        self.bar.set_position(frames as u64);
    }

    /// Shows the outcome of a path.
    pub fn done(&self, report: &PathReport) {
        let sum = &report.sum;
        let line = format!("{}: {} of {} frames came out as they went in", report.path, sum.equal, sum.sent);
        if self.bar.is_hidden() {
            eprintln!("{line}");
        } else {
            self.bar.println(line);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
