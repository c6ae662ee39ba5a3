//! Parser of a documentation page for tests.
//!
//! Comments, invisible to readers, say how to check a block; each applies to the block that follows:
//! - `<!-- not run: WHY -->`: not checked;
//! - `<!-- file: NAME -->`: the block is a configuration file of this name, for the commands of the page;
//! - `<!-- with: NAME -->`: the block is a part of a configuration: it is appended to this file;
//! - `<!-- hidden: NAME`, lines, `-->`: another file;
//! - `<!-- first: COMMANDS -->`: commands to run before the block.

use std::collections::BTreeMap;

/// A fenced block.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) language: String,
    pub(crate) text: String,
    /// Line where it begins.
    pub(crate) line: usize,
    /// The comments before it, by their keyword.
    pub(crate) notes: BTreeMap<String, String>,
}

/// Part of a page.
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
                // It is for people. If it is a misspelled keyword, the block's check shows it.
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
