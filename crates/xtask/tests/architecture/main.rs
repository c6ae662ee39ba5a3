//! ARCHITECTURE.md lists where `unsafe` is: it is there and nowhere else. Arrows between modules point down.

mod examples;
mod modules;

use modules::{Graph, without_tests};
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

/// Reports whether the code, without comments and tests, uses `unsafe`.
fn is_unsafe(text: &str) -> bool {
    let code = without_tests(text);
    code.lines().map(|line| line.split("//").next().unwrap_or_default()).any(|line| {
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

/// Returns the folder of the sources of each crate.
fn folders() -> BTreeMap<String, PathBuf> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let folder = |entry: fs::DirEntry| (entry.file_name().into_string().unwrap(), entry.path().join("src"));
    fs::read_dir(crates).unwrap().map(|entry| folder(entry.unwrap())).collect()
}

#[test]
fn unsafe_is_where_the_table_says() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().join("ARCHITECTURE.md");
    let table = table(&fs::read_to_string(page).unwrap());
    let folders = folders();
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

/// An arrow that points up, from a part of a folder to another one.
struct Up {
    krate: &'static str,
    /// The part, or all parts of a folder if it ends in `*`.
    from: &'static str,
    to: &'static str,
    why: &'static str,
}

/// All arrows that point up.
const UP: &[Up] = &[
    Up {
        krate: "e2e",
        from: "guest::accel",
        to: "guest::vm",
        why: "only a machine that boots with KVM shows that KVM works",
    },
    Up {
        krate: "engine",
        from: "port::zero_copy",
        to: "port",
        why: "a queue gives access to its zero-copy traits, which give out queues",
    },
    Up {
        krate: "engine",
        from: "port::zero_copy",
        to: "port::site",
        why: "a site has mappings, which call the sites of their two ports",
    },
    Up { krate: "engine", from: "port::dpdk::spec", to: "port::dpdk::control", why: "the settings of a port open it" },
    Up {
        krate: "engine",
        from: "port::virtio_user::spec",
        to: "port::virtio_user::control",
        why: "the settings of a port open it",
    },
    Up {
        krate: "nf",
        from: "aggregate",
        to: "port",
        why: "a port joins packets, and the joined frames go out by that port",
    },
    Up {
        krate: "virtqueue",
        from: "device::*",
        to: "device",
        why: "a queue and its counters of dropped chains stand in one file",
    },
    Up { krate: "virtqueue", from: "driver::*", to: "driver", why: "a queue and its buffers stand in one file" },
    Up {
        krate: "xsk",
        from: "umem",
        to: "queue",
        why: "memory knows its sockets: the next one shares their registration with the kernel",
    },
];

#[test]
fn arrows_between_modules_point_down() {
    let mut wrong = Vec::new();
    for (name, root) in folders() {
        let mut graph = Graph::new(&sources(&root, &root));
        for Up { from, to, why, .. } in UP.iter().filter(|up| up.krate == name) {
            if !graph.remove(from, to) {
                wrong.push(format!("{name}: {from} -> {to} ({why}) is gone; remove it from the list"));
            }
        }
        wrong.extend(graph.cycles().iter().map(|arrows| format!("{name}: {}", arrows.join(", "))));
    }
    assert!(wrong.is_empty(), "modules use each other in a cycle:\n{}", wrong.join("\n"));
}
