//! Manual pages.

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};
use std::fs;
use std::io::{self, Write};
use std::path::Path;

/// Writes a page of section 1 for the program and one for each of its commands into this directory, which must exist. All of them refer to
/// `others`.
///
/// # Errors
///
/// A file can't be written.
pub fn write(command: Command, others: &str, directory: &Path) -> io::Result<()> {
    let mut command = command.disable_help_subcommand(true);
    command.build();
    write_all(&command, others, directory)
}

fn write_all(command: &Command, others: &str, directory: &Path) -> io::Result<()> {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    let mut page = Vec::new();
    write_page(command, name, others, &mut page)?;
    fs::write(directory.join(format!("{name}.1")), page)?;
    shown(command).try_for_each(|one| write_all(one, others, directory))
}

/// Returns the commands of a command that users see.
pub fn shown(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|one| !one.is_hide_set())
}

fn write_page(command: &Command, name: &str, others: &str, out: &mut dyn Write) -> io::Result<()> {
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
            let mut section = Roff::new();
            section.control("SH", [heading]);
            if heading == "NOTES" && lines.len() == 1 {
                section.text([roman(lines[0])]).to_writer(out)?;
                continue;
            }
            // As they are, line by line: examples stand in columns.
            section.control("nf", []);
            lines.iter().for_each(|line| _ = section.text([roman(*line)]));
            section.control("fi", []).to_writer(out)?;
        }
    }
    let mut section = Roff::new();
    section.control("SH", ["SEE ALSO"]).text([roman(others)]).to_writer(out)
}
