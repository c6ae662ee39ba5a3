//! The files of a package that are made: the program, what it prints of itself, and the licences of what is in it. The others are taken
//! from the repository by the lists in `crates/millrace/Cargo.toml`.

use super::arch::Arch;
use super::maker::{Maker, word};
use super::notices;
use crate::debian;
use crate::failure::Failure;
use std::fs;
use std::path::Path;

/// Shells, and the files of their completions: as all distributions have it but for zsh, where theirs differ.
const SHELLS: [(&str, &str); 3] = [("bash", "millrace"), ("zsh", "_millrace"), ("fish", "millrace.fish")];

/// Makes the tree for a program, from an empty one.
pub fn make(maker: &Maker<'_>, arch: Arch, program: &Path) -> Result<(), Failure> {
    let root = maker.tree();
    if root.exists() {
        fs::remove_dir_all(&root).map_err(|e| format!("cannot empty {}: {e}", root.display()))?;
    }
    let [manual, completions] = ["man", "completions"].map(|name| root.join(name));
    [&manual, &completions].into_iter().try_for_each(|directory| debian::make(directory))?;
    let installed = word(&root.join("millrace"));
    let strip = ["--strip-all", "--remove-section=.comment", "-o", &installed, &word(program)];
    maker.context.command(&arch.tool("strip")).args(&strip).output()?;
    run(maker, arch, &installed, &["manual", &word(&manual)])?;
    compress(maker, &manual)?;
    for (shell, file) in SHELLS {
        write(&completions.join(file), &run(maker, arch, &installed, &["completions", shell])?)?;
    }
    let notices = root.join("notices");
    debian::make(&notices)?;
    write(&notices.join("licences-of-crates"), &notices::of_crates(maker.context, arch.glibc())?)?;
    compress(maker, &notices)
}

/// Writes Debian's changelog of a package beside its files.
pub fn changelog(maker: &Maker<'_>, place: &Path, name: &str) -> Result<(), Failure> {
    let date = ["--utc", "--rfc-email", "--date", &format!("@{}", maker.time)];
    let date = maker.context.command("date").args(&date).output()?;
    let (version, revision) = (maker.version(), &maker.revision);
    let text = format!(
        "{name} ({version}-{revision}) unstable; urgency=medium\n\n  * The changes are in CHANGELOG.md of the sources.\n\n \
         -- The Millrace authors <millrace@users.noreply.github.com>  {date}"
    );
    write(&place.join("changelog"), &text)
}

/// Runs the program, in an emulator if it is for another processor.
fn run(maker: &Maker<'_>, arch: Arch, program: &str, arguments: &[&str]) -> Result<String, Failure> {
    let run = match Arch::of_this_machine()? == arch {
        true => maker.context.command(program),
        false => {
            let libraries = format!("/usr/{}-linux-gnu", arch.rust());
            maker.context.command(&format!("qemu-{}", arch.rust())).args(&["-L", &libraries, program])
        }
    };
    run.args(arguments).output()
}

/// Compresses all files of a directory, without the time.
fn compress(maker: &Maker<'_>, directory: &Path) -> Result<(), Failure> {
    maker.context.command("sh").args(&["-c", "gzip --best --no-name *"]).inside(directory).output().map(drop)
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    fs::write(path, text).map_err(|e| format!("cannot write {}: {e}", path.display()).into())
}
