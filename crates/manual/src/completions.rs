//! Completions for shells.

use clap::Command;
use clap_complete::Shell;

/// Returns the script that completes commands, options and their values in this shell.
pub fn completions(mut command: Command, shell: Shell) -> String {
    let (mut script, name) = (Vec::new(), command.get_name().to_owned());
    clap_complete::generate(shell, &mut command, name, &mut script);
    String::from_utf8(script).expect("it is made of texts")
}
