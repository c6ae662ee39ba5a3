//! Manual pages and completions for shells.

use crate::cli::Cli;
use clap::CommandFactory;
use manual::Shell;
use std::io;
use std::path::Path;

/// What all pages refer to.
const OTHERS: &str =
    "millrace(1); the pages in /usr/share/doc/millrace: install.md, configuration.md, troubleshooting.md";

/// Returns the script that completes commands, options and their values in this shell.
pub fn completions(shell: Shell) -> String {
    manual::completions(Cli::command(), shell)
}

/// Writes a page of section 1 for the program and one for each of its commands into this directory, which must exist.
///
/// # Errors
///
/// A file can't be written.
pub fn write(directory: &Path) -> io::Result<()> {
    manual::write(Cli::command(), OTHERS, directory)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Command;
    use manual::shown;
    use std::fs;

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
