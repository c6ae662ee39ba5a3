//! `include/paflow.h` matches the library.

use paflow::Piece;
use paflow::decode::MOST;
use paflow::plan::MAX_BURST;
use paflow_abi::abi::Packet;
use paflow_abi::join::{Group, Kind};
use paflow_abi::reason;
use std::io::Write;
use std::mem::offset_of;
use std::process::{Command, Stdio};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Writes assertions in C about a structure.
macro_rules! layout {
    ($name:literal is $type:ty, $($there:literal is $here:ident),*) => {
        [
            format!("_Static_assert(sizeof(struct {}) == {}, \"\");\n", $name, size_of::<$type>()),
            $(format!("_Static_assert(offsetof(struct {}, {}) == {}, \"\");\n", $name, $there, offset_of!($type, $here))),*
        ]
        .concat()
    };
}

#[test]
fn structures_and_constants_are_the_same() {
    let text = [
        "#include <paflow.h>\n".to_owned(),
        layout!("paflow_piece" is Piece, "start" is start, "length" is len),
        layout!("paflow_packet" is Packet, "bytes" is bytes, "there" is there, "length" is length),
        layout!("paflow_group" is Group, "kind" is kind, "length" is length, "first" is first, "count" is count,
            "next_hop" is next_hop, "only_joined" is only_joined),
        [
            ("PAFLOW_MOST", MOST),
            ("PAFLOW_BURST", MAX_BURST),
            ("PAFLOW_REASONS", reason::COUNT),
            ("PAFLOW_ALONE", Kind::Alone as usize),
        ]
        .into_iter()
        .chain([("PAFLOW_JOINED", Kind::Joined as usize), ("PAFLOW_UNKNOWN_CHAIN", Kind::UnknownChain as usize)])
        .chain([("PAFLOW_TOO_LONG", Kind::TooLong as usize)])
        .map(|(name, value)| format!("_Static_assert({name} == {value}, \"\");\n"))
        .collect(),
    ];
    let mut compiler = Command::new("cc")
        .args([
            "-std=c11",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-fsyntax-only",
            "-x",
            "c",
            "-I",
            &format!("{ROOT}/include"),
            "-",
        ])
        .stdin(Stdio::piped())
        .spawn()
        .expect("cc is there: install gcc");
    compiler.stdin.take().unwrap().write_all(text.concat().as_bytes()).unwrap();
    assert!(compiler.wait().unwrap().success(), "{}", text.concat());
}

/// Returns the names of the functions after `mark` in a text.
fn names(text: &str, mark: &str) -> Vec<String> {
    let name = |rest: &str| rest.split('(').next().unwrap_or_default().to_owned();
    text.split(mark).skip(1).map(name).collect()
}

#[test]
fn functions_are_declared() {
    let read = |file: &str| std::fs::read_to_string(format!("{ROOT}/{file}")).unwrap();
    let (source, header) = (read("src/abi.rs"), read("include/paflow.h"));
    let defined = names(&source, "extern \"C\" fn ");
    assert!(defined.len() > 8, "{defined:?}");
    let lines: Vec<_> = header.lines().filter(|line| !line.starts_with("//")).collect();
    let declared = |name: &String| lines.iter().filter(|line| line.contains(&format!("{name}("))).count();
    assert!(defined.iter().all(|name| declared(name) == 1), "{defined:?}");
    let all = lines.iter().filter(|line| line.contains("paflow_") && line.contains('(')).count();
    assert_eq!(all, defined.len(), "functions that nobody defines are declared");
}
