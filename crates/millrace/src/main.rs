//! The `millrace` program.

use clap::Parser;
use millrace::cli::{Cli, Command, RunOptions};
use millrace::config::{Config, LoadError, Report};
use millrace::{config, ctl, daemon, decode, demo, machine, top};
use std::error::Error;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Run(options) => run(&options),
        Command::Check(options) => check(&options.path()),
        Command::Ctl(options) => ctl::run(&options, &mut io::stdout().lock()).map_err(Into::into),
        Command::Top(options) => top::run(&options).map_err(Into::into),
        Command::Decode(options) => {
            decode::run(&options, &mut io::BufWriter::new(io::stdout().lock())).map_err(Into::into)
        }
        Command::Schema(options) => {
            print(if options.markdown { config::markdown() } else { format!("{:#}\n", config::schema()) })
        }
        Command::Demo(options) => demo::run(options.seconds, options.json).map_err(Into::into),
        Command::DemoFunction(options) => demo::run_function(&options),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(error.as_ref());
            ExitCode::FAILURE
        }
    }
}

fn run(options: &RunOptions) -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt()
        .with_max_level(tracing::Level::from(options.log))
        .with_writer(io::stderr)
        .with_ansi(false)
        .init();
    daemon::run(&options.config, options.strict).map_err(|error| match error {
        daemon::DaemonError::Config(error) => error.into(),
        other => other.into(),
    })
}

fn check(path: &Path) -> Result<(), Box<dyn Error>> {
    let (config, warnings) = Config::load(path)?;
    if !warnings.is_empty() {
        eprintln!("{}\n", show(&warnings));
    }
    let spec = &config.spec;
    machine::absent(&config)?.iter().for_each(|absent| eprintln!("warning: {absent}"));
    print(format!(
        "{}: good, with {} ports, {} patches, {} bridges and {} workers\n",
        path.display(),
        spec.ports.len(),
        spec.patches.len(),
        spec.bridges.len(),
        spec.workers.len()
    ))
}

fn print(text: String) -> Result<(), Box<dyn Error>> {
    match io::stdout().lock().write_all(text.as_bytes()) {
        // The reader of the output (a pager, `head`) has closed it.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}

fn complain(error: &(dyn Error + 'static)) {
    // If the terminal was closed, nobody reads it.
    let _ = match error.downcast_ref() {
        Some(LoadError::Invalid(report)) => writeln!(io::stderr(), "{}", show(report)),
        _ => writeln!(io::stderr(), "millrace: {error}"),
    };
}

fn show(report: &Report) -> String {
    report.render(io::stderr().is_terminal())
}
