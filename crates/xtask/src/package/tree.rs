//! The files of a package of programs that are made: the programs, what these print of themselves, and the licences of what is in them.
//! The others are taken from the repository by the lists in the manifest of its first crate.

use super::arch::Arch;
use super::content::{Content, Program};
use super::maker::{Maker, word};
use super::notices;
use crate::debian;
use crate::failure::Failure;
use std::fs;
use std::path::Path;

/// Shells, with the beginning and the end of the names of completions.
const SHELLS: [(&str, &str, &str); 3] = [("bash", "", ""), ("zsh", "_", ""), ("fish", "", ".fish")];

/// Makes the tree of a package at `root`, from an empty one, of the programs in the directory `built`.
pub fn make(maker: &Maker<'_>, content: &Content, arch: Arch, built: &Path, root: &Path) -> Result<(), Failure> {
    if root.exists() {
        fs::remove_dir_all(root).map_err(|e| format!("cannot empty {}: {e}", root.display()))?;
    }
    let [programs, manual, notices] = ["bin", "man", "notices"].map(|name| root.join(name));
    [&programs, &manual, &notices].into_iter().try_for_each(|directory| debian::make(directory))?;
    for program in content.programs {
        let installed = programs.join(program.installed);
        let words = [&installed, &built.join(program.built)].map(|path| word(path));
        let strip = ["--strip-all", "--remove-section=.comment", "-o", &words[0], &words[1]];
        maker.context.command(&arch.tool("strip")).args(&strip).output()?;
        describe(maker, program, arch, root)?;
    }
    compress(maker, &manual)?;
    write(&notices.join("licences-of-crates"), &notices::of_crates(maker.context, content, arch.glibc())?)?;
    compress(maker, &notices)
}

/// Lets an installed program write its manual pages and completions into the tree.
fn describe(maker: &Maker<'_>, program: &Program, arch: Arch, root: &Path) -> Result<(), Failure> {
    let Program { installed: name, asked, .. } = program;
    let path = word(&root.join("bin").join(name));
    run(maker, arch, &path, &[asked.manual(), &word(&root.join("man"))])?;
    for (shell, begin, end) in SHELLS {
        let directory = root.join("completions").join(shell);
        debian::make(&directory)?;
        let script = run(maker, arch, &path, &[asked.completions(), shell])?;
        write(&directory.join(format!("{begin}{name}{end}")), &script)?;
    }
    Ok(())
}

/// Writes Debian's changelog of a package beside its files.
pub fn changelog(maker: &Maker<'_>, package: &str) -> Result<(), Failure> {
    let date = ["--utc", "--rfc-email", "--date", &format!("@{}", maker.time)];
    let date = maker.context.command("date").args(&date).output()?;
    let (version, revision) = (maker.version(), &maker.revision);
    let text = format!(
        "{package} ({version}-{revision}) unstable; urgency=medium\n\n  * The changes are in CHANGELOG.md of the sources.\n\n \
         -- The Millrace authors <millrace@users.noreply.github.com>  {date}"
    );
    write(&maker.tree(package).join("changelog"), &text)
}

/// Runs the program, in an emulator if it is for another processor.
fn run(maker: &Maker<'_>, arch: Arch, program: &str, arguments: &[&str]) -> Result<String, Failure> {
    let run = match Arch::of_this_machine()? == arch {
        true => maker.context.command(program),
        false => {
            let libraries = format!("/usr/{}", arch.multiarch());
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
