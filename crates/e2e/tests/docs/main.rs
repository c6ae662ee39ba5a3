//! Tests of the documentation's examples: every command runs, and every configuration is valid.

mod page;

use e2e::plugin::plugin;
use page::{Block, Part, parts};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

/// A directory with the files of a page, and the programs.
struct Sandbox {
    home: TempDir,
    path: String,
}

impl Sandbox {
    fn new() -> Sandbox {
        // A short path, as it holds sockets.
        let home = tempfile::Builder::new().prefix("docs-").tempdir().unwrap();
        let programs = home.path().join("bin");
        fs::create_dir(&programs).unwrap();
        let mut links = vec![("millrace", e2e::program().to_owned())];
        links.extend(["nf-forward", "nf-macswap"].map(|name| (name, e2e::function(name))));
        for (name, program) in links {
            std::os::unix::fs::symlink(fs::canonicalize(program).unwrap(), programs.join(name)).unwrap();
        }
        std::os::unix::fs::symlink(root().join("wireshark"), home.path().join("wireshark")).unwrap();
        let built = home.path().join("target/release");
        fs::create_dir_all(&built).unwrap();
        std::os::unix::fs::symlink(plugin(), built.join("librte_net_paflow.so")).unwrap();
        fs::write(home.path().join("guest.img"), vec![0; 1 << 20]).unwrap();
        fs::write(home.path().join("wan.pcap"), example()).unwrap();
        let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
        Sandbox { home, path }
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.home.path().join(name), text).unwrap();
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.home.path().join(name))
            .unwrap_or_else(|error| panic!("the page has no {name}: {error}"))
    }

    /// Runs a script, and kills everything that it started. Returns its output if it fails.
    fn run(&self, script: &str) -> Result<(), String> {
        let rig = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/docs/rig.sh");
        let script = format!("source {}\n{script}", rig.display());
        let output = Command::new("unshare")
            .args(["--net", "--pid", "--fork", "--kill-child", "--mount-proc", "--", "bash", "-c", &script])
            .current_dir(self.home.path())
            .env("PATH", &self.path)
            .env("XDG_RUNTIME_DIR", self.home.path())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let _ = fs::remove_file(self.home.path().join("switch.log"));
        if output.status.success() {
            return Ok(());
        }
        let [said, complained] =
            [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        Err(format!("{}\n{said}{complained}", output.status))
    }

    /// Checks a block; returns the error.
    fn check(&self, block: &Block) -> Result<(), String> {
        let note = |key: &str| block.notes.get(key);
        if note("not run").is_some() {
            return Ok(());
        }
        match block.language.as_str() {
            "toml" => {
                let before = note("with").map(|name| self.read(name)).unwrap_or_default();
                let name = note("file").map_or("block.toml", String::as_str);
                self.write(name, &format!("{before}\n{}", block.text));
                self.run(&format!("millrace check {name}"))
            }
            "sh" => {
                let first = note("first").map_or("", String::as_str);
                self.run(&format!("{first}\n{}", block.text))
            }
            _ => Ok(()),
        }
    }
}

/// Returns a capture with the example aggregate of docs/aggregation-format.md.
fn example() -> Vec<u8> {
    let page = fs::read_to_string(root().join("docs/aggregation-format.md")).unwrap();
    let is_example = |block: &Block| block.text.contains("  Ethernet\n");
    let blocks = parts(&page).into_iter().filter_map(|part| match part {
        Part::Block(block) => Some(block),
        Part::Hidden { .. } => None,
    });
    let example = blocks.into_iter().find(is_example).expect("the page has an example");
    let word = |word: &str| u8::from_str_radix(word, 16).ok().filter(|_| word.len() == 2);
    // Descriptions follow the bytes on each line.
    let frame: Vec<u8> = example.text.lines().flat_map(|line| line.split_whitespace().map_while(word)).collect();
    let mut file = Vec::new();
    capture::Writer::new(&mut file, 65_535).unwrap().write(std::time::Duration::from_secs(1), &frame).unwrap();
    file
}

fn check(page: &str) {
    let text = fs::read_to_string(root().join(page)).unwrap();
    let sandbox = Sandbox::new();
    let mut wrong = Vec::new();
    for part in parts(&text) {
        match part {
            Part::Hidden { name, text } => sandbox.write(&name, &text),
            Part::Block(block) => wrong
                .extend(sandbox.check(&block).err().map(|why| format!("{page}:{}: {}\n{why}", block.line, block.text))),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

macro_rules! pages {
    ($($name:ident: $page:literal,)*) => {
        const PAGES: &[&str] = &[$($page),*];
        $(
            #[test]
            fn $name() {
                check($page);
            }
        )*
    };
}

pages! {
    readme: "README.md",
    api: "docs/api.md",
    aggregation: "docs/aggregation.md",
    aggregation_format: "docs/aggregation-format.md",
    captures: "docs/captures.md",
    configuration: "docs/configuration.md",
    dpdk: "docs/dpdk.md",
    exchange: "docs/exchange.md",
    from_other_switches: "docs/from-other-switches.md",
    guests: "docs/guests.md",
    install: "docs/install.md",
    mapping: "docs/mapping.md",
    mirror: "docs/mirror.md",
    sharing: "docs/sharing.md",
    simulation: "docs/simulation.md",
    openflow: "docs/openflow.md",
    offloads: "docs/offloads.md",
    papers: "docs/papers.md",
    performance: "docs/performance.md",
    proxy: "docs/proxy.md",
    reload: "docs/reload.md",
    security: "docs/security.md",
    switches: "docs/switches.md",
    testbed: "docs/testbed.md",
    top: "docs/top.md",
    troubleshooting: "docs/troubleshooting.md",
    vxlan: "docs/vxlan.md",
    zcopy: "docs/zcopy.md",
}

#[test]
fn no_page_is_left_out() {
    let pages =
        fs::read_dir(root().join("docs")).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut pages: Vec<_> = pages.filter(|name| name.ends_with(".md")).map(|name| format!("docs/{name}")).collect();
    pages.push("README.md".into());
    pages.retain(|page| !PAGES.contains(&page.as_str()));
    assert!(pages.is_empty(), "no test checks {pages:?}");
}

#[test]
fn mistakes_are_found() {
    let sandbox = Sandbox::new();
    let blocks =
        "<!-- file: a.toml -->\n```toml\n[[port]]\nname = \"a\"\ndriver = \"snk\"\n```\n\n```sh\nls | false\n```\n";
    let wrong: Vec<_> = parts(blocks)
        .iter()
        .map(|part| match part {
            Part::Block(block) => sandbox.check(block).unwrap_err(),
            Part::Hidden { name, .. } => panic!("{name}"),
        })
        .collect();
    assert!(wrong[0].contains("did you mean `sink`?") && wrong.len() == 2, "{wrong:?}");
}
