//! Programs that are called by another name than that of their package, and those that have no commands.

use crate::completions::completions;
use crate::page::write;
use clap::{Arg, Command, Parser, value_parser};
use clap_complete::Shell;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::exit;

/// The options.
const COMPLETIONS: &str = "completions";
const MANUAL: &str = "manual";

/// Returns the definition of the command line of this program, with the name that it was called by.
pub fn command<A: Parser>() -> Command {
    let called = std::env::args_os().next();
    let called = called.as_deref().map(Path::new).and_then(|path| path.file_name()?.to_str());
    match called {
        // clap keeps names for ever.
        Some(name) => A::command().name(&*name.to_owned().leak()),
        None => A::command(),
    }
}

/// Parses the command line of this program, or ends it with a message. The program has no commands: two options that stand alone print
/// completions and write its page, which refers to `others`.
pub fn parse<A: Parser>(others: &str) -> A {
    let mut command = with_options(command::<A>());
    let mut matches = command.get_matches_mut();
    if let Some(&shell) = matches.get_one::<Shell>(COMPLETIONS) {
        end(io::stdout().lock().write_all(completions(command, shell).as_bytes()));
    }
    if let Some(directory) = matches.get_one::<PathBuf>(MANUAL) {
        end(write(command, others, directory));
    }
    A::from_arg_matches_mut(&mut matches).unwrap_or_else(|error| error.format(&mut command).exit())
}

/// Adds the options to those of a program.
fn with_options(command: Command) -> Command {
    let option = |name: &'static str| Arg::new(name).long(name).exclusive(true).help_heading("For packages");
    let shell = option(COMPLETIONS).value_name("SHELL").value_parser(value_parser!(Shell));
    let directory = option(MANUAL).value_name("DIRECTORY").value_parser(value_parser!(PathBuf));
    command
        .arg(shell.help("Print a script that completes options in a shell"))
        .arg(directory.help("Write the manual page"))
}

fn end(outcome: io::Result<()>) -> ! {
    if let Err(error) = outcome {
        eprintln!("{error}");
        exit(1)
    }
    exit(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::error::ErrorKind;

    #[derive(Debug, Parser)]
    struct Arguments {
        /// A port
        #[arg(long)]
        port: u16,
        #[arg(required = true)]
        sockets: Vec<String>,
    }

    fn parsed(words: &[&str]) -> Result<clap::ArgMatches, ErrorKind> {
        let command = with_options(<Arguments as clap::CommandFactory>::command());
        command.try_get_matches_from([&["program"], words].concat()).map_err(|error| error.kind())
    }

    #[test]
    fn the_options_stand_alone() {
        let matches = parsed(&["--completions", "zsh"]).unwrap();
        assert_eq!(matches.get_one::<Shell>(COMPLETIONS), Some(&Shell::Zsh));
        assert!(parsed(&["--manual", "."]).is_ok());
        assert_eq!(parsed(&["--manual", ".", "--port", "1"]).unwrap_err(), ErrorKind::ArgumentConflict);
        assert_eq!(parsed(&["--port", "1"]).unwrap_err(), ErrorKind::MissingRequiredArgument);
        assert!(parsed(&["--port", "1", "a.sock"]).is_ok());
    }

    #[test]
    fn the_page_has_the_name_and_all_options() {
        let directory = tempfile::tempdir().unwrap();
        let command = with_options(<Arguments as clap::CommandFactory>::command()).name("nf-this");
        write(command.clone(), "that(1)", directory.path()).unwrap();
        let page = std::fs::read_to_string(directory.path().join("nf-this.1")).unwrap().replace("\\-", "-");
        for part in ["NF-THIS 1", "--port", "A port", "--manual", "that(1)"] {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert!(completions(command, Shell::Bash).contains("nf-this"));
    }
}
