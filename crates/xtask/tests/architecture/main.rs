//! ARCHITECTURE.md lists where `unsafe` is. It is there and nowhere else.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Lists the Rust files below `folder` except tests, by their path from `root`.
fn sources(root: &Path, folder: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap()) {
        let (path, name) = (entry.path(), entry.file_name().into_string().unwrap());
        if name == "tests" || name == "tests.rs" {
            continue;
        }
        if path.is_dir() {
            found.extend(sources(root, &path));
        } else if name.ends_with(".rs") {
            let text = fs::read_to_string(&path).unwrap();
            found.push((path.strip_prefix(root).unwrap().to_str().unwrap().to_owned(), text));
        }
    }
    found
}

/// Reports whether the code, without comments and tests at its end, uses `unsafe`.
fn is_unsafe(text: &str) -> bool {
    let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let code = code.lines().map(|line| line.split("//").next().unwrap_or_default());
    code.into_iter().any(|line| {
        ["unsafe {", "unsafe fn", "unsafe impl", "unsafe extern", "#[unsafe("].iter().any(|form| line.contains(form))
    })
}

/// Returns the table's entry for each crate.
fn table(page: &str) -> BTreeMap<String, String> {
    let rows = page.lines().skip_while(|line| !line.ends_with("| `unsafe` |")).skip(2);
    let rows = rows.take_while(|line| line.starts_with('|')).map(|line| {
        let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
        assert_eq!(cells.len(), 3, "{line}");
        (cells[0].trim_matches('`').to_owned(), cells[2].to_owned())
    });
    rows.collect()
}

#[test]
fn unsafe_is_where_the_table_says() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let page = fs::read_to_string(crates.with_file_name("ARCHITECTURE.md")).unwrap();
    let table = table(&page);
    let folders: BTreeMap<String, PathBuf> = fs::read_dir(crates)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.file_name().into_string().unwrap(), entry.path().join("src")))
        .collect();
    assert!(table.keys().eq(folders.keys()), "the table has {:?}, and there are {:?}", table.keys(), folders.keys());
    for (name, said) in &table {
        let root = &folders[name];
        let files: BTreeSet<_> =
            sources(root, root).into_iter().filter(|(_, text)| is_unsafe(text)).map(|(path, _)| path).collect();
        let named: BTreeSet<_> =
            said.split('`').skip(1).step_by(2).filter(|path| path.ends_with(".rs")).map(str::to_owned).collect();
        match said.split([':', ' ']).next() {
            Some("yes") => assert!(!files.is_empty(), "{name} has no unsafe code, and the table says it has"),
            Some("none") => assert!(files.is_empty(), "{name} has unsafe code, and the table says none: {files:?}"),
            _ => assert_eq!(files, named, "files of {name} with unsafe code, and those that the table names"),
        }
    }
}
