//! Replays capture files through Millrace along several paths, and compares output with input.
//!
//! - `files` reads a folder, and keeps each distinct frame once;
//! - a `path` starts switches, with a guest at each end ([`lab::guest`]); its `model` predicts the fate of each frame;
//! - the `pump` sends frames, a window at a time, and the `tally` compares.

mod controller;
mod error;
mod fate;
mod files;
mod headers;
mod model;
mod path;
mod progress;
mod pump;
mod report;
mod rig;
mod stations;
mod table;
mod tally;
#[cfg(test)]
mod tests;

use crate::millrace;
use clap::{Args, ValueEnum};
use error::CorpusError;
use files::Corpus;
use lab::process::Interrupt;
use path::Path;
use progress::Progress;
use pump::Pump;
use report::{PathReport, Report};
use rig::Workspace;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use tally::Tally;

/// Options of `testbed corpus`: the captures to replay, and the paths.
#[derive(Clone, Debug, Args)]
#[command(after_help = HELP)]
pub struct ReplayCorpus {
    /// Folder of capture files, pcap or pcapng, also in folders below it; or one such file
    folder: PathBuf,
    /// Paths to take
    #[arg(long, value_name = "PATH,...", value_delimiter = ',', default_values_t = Path::value_variants().to_vec())]
    paths: Vec<Path>,
    /// Longest IP packet between switches: longer frames don't fit into a tunnel, and are not joined
    #[arg(long, value_name = "BYTES", default_value_t = 9000, value_parser = clap::value_parser!(u16).range(256..=9000))]
    mtu: u16,
    /// Seconds to wait for a frame that must come out
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    patience: u64,
    /// Millrace's program [default: the one next to this program]
    #[arg(long, value_name = "FILE")]
    millrace: Option<PathBuf>,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

/// Hints for reading its output.
const HELP: &str = "\
Each distinct frame is sent once along each path, from one guest to another (virtio-net drivers
in this process), and must come out byte for byte, once and in order. Frames that a path can't
carry must be missing, and the switches' counters must give the reason:
  runt       every path: shorter than 14 bytes
  too-long   every path: longer than 65557 bytes; vxlan: longer than MTU - 36 bytes
  reserved   bridge: to 01:80:c2:00:00:00 to 0f, which bridges keep to themselves
  hairpin    bridge: to its own source, or to a station that moved just before
Everything else is a difference. Files that are no captures are named, and of a file that is
cut off the frames before are taken. Exit status: 0 if there is no difference, 1 if there is one
or nothing could be replayed.

Examples:
  testbed corpus captures/                               all paths
  testbed corpus captures/ --paths patch,vxlan --json    two of them, for scripts
  testbed corpus one.pcap --mtu 1500                     one file; jumbo frames fit no tunnel";

/// Replays a folder, and prints the report.
pub fn run(options: &ReplayCorpus) -> Result<ExitCode, CorpusError> {
    let program = millrace::program(options.millrace.as_deref())?;
    let interrupt = Interrupt::install()?;
    let progress = Progress::new();
    let corpus = Corpus::read(&options.folder, |file| {
        progress.read(file);
        interrupt.check()
    })?;
    if corpus.frames.is_empty() {
        let problem = corpus.files.into_iter().find_map(|file| Some(format!("{}: {}", file.path, file.problem?)));
        return Err(CorpusError::NoFrames { folder: options.folder.clone(), problem });
    }
    let mut report = Report::new(&options.folder, &corpus);
    for &path in &options.paths {
        let directory = tempfile::Builder::new().prefix("testbed-").tempdir().map_err(CorpusError::Directory)?;
        let workspace = Workspace { program: &program, directory: directory.path(), interrupt: &interrupt };
        let replayed = replay(path, &workspace, &corpus, options, &progress)?;
        progress.done(&replayed);
        report.add(replayed);
    }
    drop(progress);
    if options.json {
        println!("{}", serde_json::to_string_pretty(&report).expect("strings and numbers"));
    } else {
        println!("{report}");
    }
    Ok(if report.equal { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Replays all frames along one path. A failure is part of its report, except for a signal.
fn replay(
    path: Path,
    workspace: &Workspace<'_>,
    corpus: &Corpus,
    options: &ReplayCorpus,
    progress: &Progress,
) -> Result<PathReport, CorpusError> {
    progress.begin(path, corpus.frames.len());
    let mut tally = Tally::new(corpus);
    let mut pump = Pump::new(corpus, Duration::from_secs(options.patience));
    let counted = path.set_up(workspace, corpus, options.mtu).and_then(|(mut rig, model)| {
        tally.model = model;
        pump.run(&mut rig, &mut tally, |sent| progress.sent(sent))?;
        Ok(pump.settle(&mut rig, &mut tally)?)
    });
    match counted {
        Ok(counted) => Ok(PathReport::new(path, corpus, tally.finish(), &counted)),
        Err(error) if error.is_interrupt() => Err(error),
        Err(error) => {
            let failure = format!("{error}{}", pump.last());
            Ok(PathReport::failed(path, corpus, tally.finish(), failure))
        }
    }
}
