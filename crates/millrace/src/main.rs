//! The `millrace` program.

use clap::Parser;
use millrace::cli::{Cli, Command, DecodeOptions, RunOptions};
use millrace::config::{Config, LoadError, Report};
use millrace::{config, control, ctl, daemon, decode, demo, log, machine, manual, terminal, top};
use std::error::Error;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Run(options) => run(&options),
        Command::Check(options) => check(&options.path()),
        Command::Ctl(options) => ctl::run(&options, &mut io::stdout().lock()).map_err(Into::into),
        Command::Top(options) => top::run(&options).map_err(Into::into),
        Command::Decode(options) => decode(&options),
        Command::Schema(options) => print(match (options.api, options.markdown) {
            (false, false) => format!("{:#}\n", config::schema()),
            (false, true) => config::markdown(),
            (true, false) => format!("{:#}\n", control::openrpc()),
            (true, true) => control::page(),
        }),
        Command::Completions(options) => print(manual::completions(options.shell)),
        Command::Manual(options) => manual::write(&options.directory)
            .map_err(|error| format!("cannot write pages into {}: {error}", options.directory.display()).into()),
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
    log::start(options.log.into());
    daemon::run(&options.config, options.strict).map_err(|error| match error {
        daemon::DaemonError::Config(error) => error.into(),
        other => other.into(),
    })
}

fn check(path: &Path) -> Result<(), Box<dyn Error>> {
    let (config, warnings) = Config::examine(path)?;
    if !warnings.is_empty() {
        note(&format!("{}\n", show(&warnings)));
    }
    let spec = &config.spec;
    machine::absent(&config)?.iter().for_each(|absent| note(&format!("warning: {absent}")));
    print(format!(
        "{}: good, with {} ports, {} patches, {} bridges and {} workers\n",
        path.display(),
        spec.ports.len(),
        spec.patches.len(),
        spec.bridges.len(),
        spec.workers.len()
    ))
}

fn decode(options: &DecodeOptions) -> Result<(), Box<dyn Error>> {
    for remark in decode::run(options, &mut io::BufWriter::new(io::stdout().lock()))? {
        note(&format!("warning: {}: {remark}", options.file.display()));
    }
    Ok(())
}

fn print(text: String) -> Result<(), Box<dyn Error>> {
    match io::stdout().lock().write_all(text.as_bytes()) {
        // The reader of the output (a pager, `head`) has closed it.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}

fn complain(error: &(dyn Error + 'static)) {
    match error.downcast_ref() {
        Some(LoadError::Invalid(report)) => note(&show(report)),
        _ => note(&format!("millrace: {error}")),
    }
}

/// Writes a line to the standard error output. Ignores errors: the terminal may be closed.
fn note(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

fn show(report: &Report) -> String {
    report.render(terminal::has_colours(&io::stderr()))
}
