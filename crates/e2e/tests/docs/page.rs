//! A page of documentation, as a test reads it.
//!
//! Comments, which readers do not see, say how a block is checked; each is for the block that follows:
//! - `<!-- not run: WHY -->`: it is not;
//! - `<!-- file: NAME -->`: a configuration is the file of this name, for the commands of the page;
//! - `<!-- with: NAME -->`: a configuration is a part: it follows this file;
//! - `<!-- hidden: NAME`, lines, `-->`: a file that is there, too;
//! - `<!-- first: COMMANDS -->`: what was done before, by commands.

use std::collections::BTreeMap;

/// A fenced block.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) language: String,
    pub(crate) text: String,
    /// Where it begins.
    pub(crate) line: usize,
    /// The comments before it, by what they begin with.
    pub(crate) notes: BTreeMap<String, String>,
}

/// What can be in a page.
#[derive(Debug)]
pub(crate) enum Part {
    Block(Block),
    Hidden { name: String, text: String },
}

pub(crate) fn parts(page: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut notes = BTreeMap::new();
    let mut lines = page.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        if let Some(comment) = line.strip_prefix("<!-- ") {
            let mut comment = comment.to_owned();
            while !comment.trim_end().ends_with("-->") {
                let (_, more) = lines.next().unwrap_or_else(|| panic!("line {}: a comment does not end", index + 1));
                comment = format!("{comment}\n{more}");
            }
            let comment = comment.trim_end().trim_end_matches("-->").trim_end();
            let (key, text) = comment.split_once(": ").unwrap_or((comment, ""));
            match (key, text.split_once('\n')) {
                ("hidden", Some((name, text))) => parts.push(Part::Hidden { name: name.into(), text: text.into() }),
                ("not run" | "file" | "with" | "first", _) => drop(notes.insert(key.to_owned(), text.to_owned())),
                // It is for people. Of one that is spelled wrong, the block tells.
                _ => {}
            }
        } else if let Some(language) = line.strip_prefix("```") {
            let text = lines.by_ref().map(|(_, line)| line).take_while(|line| *line != "```");
            let text: String = text.flat_map(|line| [line, "\n"]).collect();
            let notes = std::mem::take(&mut notes);
            parts.push(Part::Block(Block { language: language.into(), text, line: index + 1, notes }));
        }
    }
    assert!(notes.is_empty(), "no block follows these comments: {notes:?}");
    parts
}
