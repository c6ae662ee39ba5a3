//! The modules of a crate, and which of them use which: read from the text of its files, as a parser is not needed for this.
//!
//! A module is a file. It uses another one if one of its paths names an item that the other one defines:
//! - names are followed through imports: a file that names `forward::Output`, which `forward` re-exports from `forward::output`,
//!   uses only the latter;
//! - a re-export is not a use, unless the file uses the name itself: a `mod.rs` that only declares and re-exports its children
//!   uses none of them;
//! - `mod child;` is not a use, nor is a call of a method;
//! - comments and tests are left out.
//!
//! The parts of a folder are its own `mod.rs`, and each file and folder in it. One part uses another if any file of the one uses
//! any file of the other. These are the arrows, and they must not form a cycle.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A path, by its segments. A module is named by its path from the root of the crate.
type Path = Vec<String>;

/// The paths of a file.
#[derive(Default)]
struct Module {
    imports: Vec<Import>,
    /// Paths outside of imports.
    paths: Vec<Path>,
    /// Names outside of imports.
    names: BTreeSet<String>,
}

struct Import {
    path: Path,
    /// The name that it gets here.
    name: String,
    is_public: bool,
}

/// The arrows between the parts of each folder of a crate.
pub struct Graph {
    /// By folder, and by part: the parts that it uses, each with an example of a module that does, and of one that it uses.
    folders: BTreeMap<Path, BTreeMap<Path, BTreeMap<Path, String>>>,
}

impl Graph {
    /// Returns the graph of these files, each with its path from `src`.
    pub fn new(files: &[(String, String)]) -> Graph {
        let root = if files.iter().any(|(file, _)| file == "lib.rs") { "lib.rs" } else { "main.rs" };
        let is_in = |file: &&(String, String)| file.0 == root || !(file.0 == "main.rs" || file.0.starts_with("bin/"));
        let name = |file: &str| match file.trim_end_matches(".rs").trim_end_matches("/mod") {
            _ if file == root => Vec::new(),
            path => path.split('/').map(str::to_owned).collect(),
        };
        let modules = files.iter().filter(is_in).map(|(file, text)| (name(file), read(&tokens(text))));
        let krate = Crate(modules.collect());
        let mut graph = Graph { folders: BTreeMap::new() };
        for (user, module) in &krate.0 {
            for used in krate.used_by(user, module) {
                let common = user.iter().zip(&used).take_while(|(a, b)| a == b).count();
                let part = |path: &Path| path[..path.len().min(common + 1)].to_vec();
                let parts = graph.folders.entry(user[..common].to_vec()).or_default();
                let arrows = parts.entry(part(user)).or_default();
                arrows.entry(part(&used)).or_insert_with(|| format!("{} -> {}", shown(user), shown(&used)));
            }
        }
        graph
    }

    /// Removes the arrows from one part of a folder to another one, or from all its parts if `from` ends in `*`. Reports whether
    /// there were any.
    pub fn remove(&mut self, from: &str, to: &str) -> bool {
        let mut any = false;
        for (user, arrows) in self.folders.values_mut().flatten() {
            let siblings = from.strip_suffix('*').is_some_and(|folder| shown(user).starts_with(folder));
            if siblings || shown(user) == from {
                let before = arrows.len();
                arrows.retain(|used, _| shown(used) != to);
                any |= arrows.len() < before;
            }
        }
        any
    }

    /// Returns a shortest cycle for each group of parts of a folder that use each other: the arrows, each as an example.
    pub fn cycles(&self) -> Vec<Vec<String>> {
        let mut found = Vec::new();
        for parts in self.folders.values() {
            let mut seen = BTreeSet::new();
            for part in parts.keys() {
                if !seen.contains(part)
                    && let Some(cycle) = cycle_of(parts, part)
                {
                    found.push(cycle.windows(2).map(|arrow| parts[arrow[0]][arrow[1]].clone()).collect());
                    seen.extend(cycle);
                }
            }
        }
        found
    }
}

/// Returns a shortest cycle through `part`, which stands at both of its ends.
fn cycle_of<'g>(uses: &'g BTreeMap<Path, BTreeMap<Path, String>>, part: &'g Path) -> Option<Vec<&'g Path>> {
    let mut before: BTreeMap<&Path, &Path> = BTreeMap::new();
    let mut next = VecDeque::from([part]);
    while let Some(at) = next.pop_front() {
        for used in uses.get(at).into_iter().flat_map(BTreeMap::keys) {
            if used == part {
                let mut cycle = vec![part, at];
                while let Some(previous) = before.get(cycle[cycle.len() - 1]) {
                    cycle.push(previous);
                }
                cycle.reverse();
                return Some(cycle);
            }
            if !before.contains_key(used) {
                before.insert(used, at);
                next.push_back(used);
            }
        }
    }
    None
}

fn shown(path: &[String]) -> String {
    if path.is_empty() { "crate".into() } else { path.join("::") }
}

struct Crate(BTreeMap<Path, Module>);

impl Crate {
    /// Returns the modules that `module` uses.
    fn used_by(&self, path: &[String], module: &Module) -> BTreeSet<Path> {
        let imported = module.imports.iter().filter(|import| !import.is_public || module.names.contains(&import.name));
        let paths = imported.map(|import| &import.path).chain(&module.paths);
        let owners = paths.filter_map(|used| self.owner(path, used)).filter(|owner| owner != path);
        owners.collect()
    }

    /// Returns the module that defines the item that `path`, written in `module`, names. There is none if the item is another
    /// crate's, or a module: then the paths that begin with its name count.
    fn owner(&self, module: &[String], path: &[String]) -> Option<Path> {
        self.resolve(module, path, 0).filter(|(_, item)| item.is_some()).map(|(owner, _)| owner)
    }

    /// Returns the module that `path`, written in `module`, names, or that defines the item that it names, and the item.
    fn resolve(&self, module: &[String], path: &[String], depth: u32) -> Option<(Path, Option<String>)> {
        let mut at = module.to_vec();
        let mut rest = path.iter();
        let mut is_first = true;
        // Names may be imported in a cycle, and then are another crate's.
        if depth > 8 {
            return None;
        }
        while let Some(segment) = rest.next() {
            let child = [at.as_slice(), std::slice::from_ref(segment)].concat();
            match segment.as_str() {
                "crate" => at.clear(),
                "self" => {}
                "super" => drop(at.pop()),
                _ if self.0.contains_key(&child) => at = child,
                name => {
                    let import = self.0.get(&at)?.imports.iter().find(|import| import.name == name);
                    return match import {
                        Some(import) => {
                            self.resolve(&at, &[import.path.as_slice(), rest.as_slice()].concat(), depth + 1)
                        }
                        None if is_first => None,
                        None => Some((at, Some(name.to_owned()))),
                    };
                }
            }
            is_first = false;
        }
        Some((at, None))
    }
}

/// Splits code into names, `::`, and single characters, without comments, literals and tests.
fn tokens(text: &str) -> Vec<String> {
    let text = without_tests(text);
    let chars: Vec<char> = text.chars().collect();
    let mut tokens = Vec::new();
    let mut at = 0;
    while at < chars.len() {
        let rest = &chars[at..];
        let is_name = |c: &char| c.is_alphanumeric() || *c == '_';
        at += match rest {
            ['/', '/', ..] => rest.iter().take_while(|c| **c != '\n').count(),
            ['/', '*', ..] => 4 + rest[2..].windows(2).take_while(|end| *end != ['*', '/']).count(),
            ['"', ..] => {
                let mut end = 1;
                while end < rest.len() && rest[end] != '"' {
                    end += if rest[end] == '\\' { 2 } else { 1 };
                }
                end + 1
            }
            ['\'', '\\', ..] => 4 + rest[3..].iter().take_while(|c| **c != '\'').count(),
            ['\'', _, '\'', ..] => 3,
            [':', ':', ..] => {
                tokens.push("::".into());
                2
            }
            [c, ..] if is_name(c) => {
                let name: String = rest.iter().take_while(|c| is_name(c)).collect();
                let len = name.chars().count();
                tokens.push(name);
                len
            }
            [c, ..] => {
                if !c.is_whitespace() {
                    tokens.push(c.to_string());
                }
                1
            }
            [] => 1,
        };
    }
    tokens
}

/// Leaves out modules and items at the left margin that only tests have.
pub fn without_tests(text: &str) -> String {
    let mut kept = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.starts_with("#[cfg(test)]") || line.starts_with("#[cfg(all(test,") {
            let mut item = lines.by_ref().skip_while(|line| line.starts_with("#["));
            if item.next().is_some_and(|line| line.ends_with('{')) {
                item.find(|line| *line == "}");
            }
            continue;
        }
        kept.push_str(line);
        kept.push('\n');
    }
    kept
}

/// Finds the imports and paths in code.
fn read(tokens: &[String]) -> Module {
    let mut module = Module::default();
    let mut at = 0;
    while at < tokens.len() {
        let token = tokens[at].as_str();
        let follows = |index: usize, what: &str| tokens.get(index).is_some_and(|token| token == what);
        if token == "use" && !follows(at + 1, "<") {
            let is_public = at > 0 && ["pub", ")"].contains(&tokens[at - 1].as_str());
            at += 1;
            let mut found = Vec::new();
            tree(tokens, &mut at, &[], &mut found);
            module.imports.extend(found.into_iter().map(|(path, name)| Import { path, name, is_public }));
            continue;
        }
        let is_name = token.starts_with(|c: char| c.is_alphabetic() || c == '_');
        if !is_name || at > 0 && ["::", ".", "mod", "fn"].contains(&tokens[at - 1].as_str()) {
            at += 1;
            continue;
        }
        module.names.insert(token.to_owned());
        let mut path = vec![token.to_owned()];
        while follows(at + 1, "::") && tokens.get(at + 2).is_some_and(|t| t.starts_with(char::is_alphabetic)) {
            path.push(tokens[at + 2].clone());
            at += 2;
        }
        if path.len() > 1 {
            module.paths.push(path);
        }
        at += 1;
    }
    module
}

/// Reads the tree of an import from `at` on: adds each path, and the name that it gets.
fn tree(tokens: &[String], at: &mut usize, prefix: &[String], found: &mut Vec<(Path, String)>) {
    let mut path = prefix.to_vec();
    let mut renamed = None;
    while let Some(token) = tokens.get(*at) {
        match token.as_str() {
            "{" => {
                *at += 1;
                while tokens.get(*at).is_some_and(|token| token != "}") {
                    tree(tokens, at, &path, found);
                    *at += usize::from(tokens.get(*at).is_some_and(|token| token == ","));
                }
                *at += 1;
                return;
            }
            "," | ";" | "}" => break,
            "as" => {
                renamed = tokens.get(*at + 1).cloned();
                *at += 1;
            }
            "::" => {}
            "self" if !path.is_empty() => {}
            name => path.push(name.to_owned()),
        }
        *at += 1;
    }
    let name = renamed.or_else(|| path.last().cloned()).unwrap_or_default();
    found.push((path, name));
}

/// Returns the cycles of a crate with these files.
fn cycles(files: &[(&str, &str)]) -> Vec<Vec<String>> {
    let files: Vec<_> = files.iter().map(|(file, text)| ((*file).to_owned(), (*text).to_owned())).collect();
    Graph::new(&files).cycles()
}

#[test]
fn a_cycle_is_found_through_re_exports_and_named_with_its_files() {
    let files = [
        ("lib.rs", "mod above;\nmod below;\n"),
        ("above/mod.rs", "mod user;\nmod type_;\npub use type_::Type;\n"),
        ("above/user.rs", "use crate::below;\nfn f() { below::f() }\n"),
        ("above/type_.rs", "pub struct Type;\n"),
        ("below.rs", "use crate::above::{Type, /* not */};\nfn f(_: Type) {}\n"),
    ];
    assert_eq!(cycles(&files), [["above::user -> below", "below -> above::type_"]]);
}

#[test]
fn re_exports_comments_and_tests_are_no_uses() {
    let files = [
        ("lib.rs", "mod a;\npub use a::{A, B as C};\n/// [`a::A`]\npub struct D;\n"),
        ("a.rs", "use crate::D;\npub struct A(D);\n#[cfg(test)]\nmod tests {\n    use crate::C;\n}\n"),
    ];
    assert_eq!(cycles(&files), Vec::<Vec<String>>::new());
    let files = [("lib.rs", "mod a;\nuse a::A;\npub struct D;\n"), ("a.rs", "pub struct A(super::D);\n")];
    assert_eq!(cycles(&files), [["crate -> a", "a -> crate"]]);
}
