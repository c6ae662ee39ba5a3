//! Manual pages and completions for shells, made of the definition of the command line.

use crate::cli::Cli;
use clap::{Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};
use std::fs;
use std::io::{self, Write};
use std::path::Path;

/// Returns the script that completes commands, options and their values in this shell.
pub fn completions(shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "millrace", &mut script);
    String::from_utf8(script).expect("it is made of texts")
}

/// Writes a page of section 1 for the program and one for each of its commands into this directory, which must exist.
///
/// # Errors
///
/// A file can't be written.
pub fn write(directory: &Path) -> io::Result<()> {
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    write_all(&command, directory)
}

fn write_all(command: &Command, directory: &Path) -> io::Result<()> {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    let mut page = Vec::new();
    write_page(command, name, &mut page)?;
    fs::write(directory.join(format!("{name}.1")), page)?;
    shown(command).try_for_each(|one| write_all(one, directory))
}

/// Returns the commands of a command that users see.
fn shown(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|one| !one.is_hide_set())
}

fn write_page(command: &Command, name: &str, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, ".TH {} 1 \"\" \"millrace {}\" \"Millrace\"", name.to_uppercase(), env!("CARGO_PKG_VERSION"))?;
    let page = Man::new(command.clone());
    page.render_name_section(out)?;
    page.render_synopsis_section(out)?;
    page.render_description_section(out)?;
    page.render_options_section(out)?;
    if shown(command).next().is_some() {
        page.render_subcommands_section(out)?;
    }
    let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let is_head = |line: &&str| ["Example:", "Examples:"].contains(line);
    let notes: Vec<&str> = after.lines().take_while(|line| !is_head(line)).collect();
    let examples: Vec<&str> = after.lines().skip_while(|line| !is_head(line)).skip(1).collect();
    for (heading, lines) in [("NOTES", notes), ("EXAMPLES", examples)] {
        if lines.iter().any(|line| !line.is_empty()) {
            // As it is, line by line: examples stand in columns.
            let mut section = Roff::new();
            section.control("SH", [heading]).control("nf", []);
            lines.iter().for_each(|line| _ = section.text([roman(*line)]));
            section.control("fi", []).to_writer(out)?;
        }
    }
    let mut section = Roff::new();
    let others = "millrace(1); the pages in /usr/share/doc/millrace: install.md, configuration.md, troubleshooting.md";
    section.control("SH", ["SEE ALSO"]).text([roman(others)]).to_writer(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives each command that users see to `check`, with its words joined by `-`, as its page is called.
    fn commands(command: &Command, name: &str, check: &mut dyn FnMut(&str, &Command)) {
        check(name, command);
        shown(command).for_each(|one| commands(one, &format!("{name}-{}", one.get_name()), check));
    }

    fn all(check: &mut dyn FnMut(&str, &Command)) {
        let mut command = Cli::command().disable_help_subcommand(true);
        command.build();
        commands(&command, "millrace", check);
    }

    fn options(command: &Command) -> impl Iterator<Item = &str> {
        command.get_arguments().filter(|one| !one.is_hide_set()).filter_map(|one| one.get_long())
    }

    #[test]
    fn each_command_has_a_page_with_its_options_and_examples() {
        let directory = tempfile::tempdir().unwrap();
        write(directory.path()).unwrap();
        let mut pages = 0;
        all(&mut |name, command| {
            pages += 1;
            let page = fs::read_to_string(directory.path().join(format!("{name}.1"))).unwrap();
            // Hyphens of text that is to be typed are escaped (groff_man(7)).
            let page = page.replace("\\-", "-");
            for option in options(command) {
                assert!(page.contains(&format!("--{option}")), "{name}: {option}");
            }
            let example = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            if let Some(line) = example.lines().find(|line| line.starts_with("  millrace ")) {
                assert!(page.contains(line.trim()), "{name}: {line}");
            }
        });
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), pages, "hidden commands have no page");
        assert!(pages > 15, "{pages}");
    }

    #[test]
    fn each_shell_completes_each_command_and_option() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let script = completions(shell);
            all(&mut |name, command| {
                // clap's scripts for fish are two commands deep.
                if shell == Shell::Fish && name.split('-').count() > 3 {
                    return;
                }
                let word = name.rsplit('-').next().unwrap();
                assert!(script.contains(word), "{shell}: {name}");
                for option in options(command) {
                    // Fish takes them without the dashes.
                    assert!(script.contains(option), "{shell}: {name} --{option}");
                }
            });
        }
    }
}
