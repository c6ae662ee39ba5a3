//! Command line of `testbed run`.

use clap::Args;
use std::path::PathBuf;

/// A scenario, and the selection of its runs.
#[derive(Clone, Debug, Args)]
pub struct Run {
    /// The scenario's file
    pub scenario: PathBuf,
    /// Directory of the results; existing results are kept, and only missing runs are made [default: the scenario's name with
    /// `-results`]
    #[arg(long, value_name = "DIRECTORY")]
    pub out: Option<PathBuf>,
    /// Use only these switches
    #[arg(long, value_delimiter = ',', value_name = "NAME,...")]
    pub switches: Vec<String>,
    /// Millrace's program [default: the one next to this program]
    #[arg(long, value_name = "FILE")]
    pub millrace: Option<PathBuf>,
    /// List the runs, and run nothing
    #[arg(long)]
    pub list: bool,
}

impl Run {
    /// Returns the directory of the results.
    pub fn directory(&self) -> PathBuf {
        let stem = || self.scenario.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        self.out.clone().unwrap_or_else(|| PathBuf::from(format!("{}-results", stem())))
    }
}
