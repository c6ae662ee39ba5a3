//! Documentation with examples has its examples run, and no pass over documentation looks for examples in vain.

use super::{folders, sources};
use std::fs;

/// Returns a line of documentation, without its mark.
fn documentation(line: &str) -> Option<&str> {
    let line = line.trim_start();
    Some(line.strip_prefix("///").or_else(|| line.strip_prefix("//!"))?.trim())
}

fn has_example(text: &str) -> bool {
    let fences = text.lines().filter_map(documentation).filter(|line| line.starts_with("```"));
    fences.step_by(2).any(|opening| opening != "```text")
}

#[test]
fn libraries_with_examples_run_them_and_others_do_not_look_for_any() {
    for (name, root) in folders().into_iter().filter(|(_, root)| root.join("lib.rs").exists()) {
        let manifest = fs::read_to_string(root.parent().unwrap().join("Cargo.toml")).unwrap();
        let has = sources(&root, &root).iter().any(|(_, text)| has_example(text));
        let runs = !manifest.lines().any(|line| line == "doctest = false");
        assert_eq!(
            has, runs,
            "{name} has examples: {has}; its Cargo.toml has `doctest = false` under `[lib]`: {}",
            !runs
        );
    }
}

#[test]
fn figures_are_no_examples() {
    assert!(!has_example("//! ```text\n//! a -> b\n//! ```\n"));
    assert!(has_example("/// ```text\n/// a\n/// ```\n/// ```no_run\n/// b();\n/// ```\n"));
}
