//! Compiles the program.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Lists files of this directory with their contents.
macro_rules! sources {
    ($($name:literal),*) => { &[$(($name, include_str!($name))),*] };
}

/// The sources, by name.
const SOURCES: &[(&str, &str)] = sources![
    "app.c",
    "app.h",
    "clock.h",
    "control.c",
    "control.h",
    "headers.h",
    "histogram.c",
    "histogram.h",
    "loop.h",
    "main.c",
    "options.c",
    "options.h",
    "pace.c",
    "pace.h",
    "payload.c",
    "payload.h",
    "port.c",
    "port.h",
    "reflector.c",
    "reflector.h",
    "report.c",
    "sequence.c",
    "sequence.h",
    "sink.c",
    "sink.h",
    "source.c",
    "source.h",
    "stamp.h"
];

/// Options of the compiler, besides those of DPDK.
const OPTIONS: &[&str] = &["-std=gnu17", "-O3", "-Wall", "-Wextra"];

/// Reason why the program can't be built.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum Unavailable {
    #[error("there is no program {tool}: install the Debian package {package}")]
    Tool { tool: &'static str, package: &'static str },
    #[error("there is no library of DPDK to build with: install the Debian package libdpdk-dev; pkg-config says:\n{0}")]
    Library(String),
    #[error("the DPDK application does not compile with this compiler and DPDK {version}:\n{said}")]
    Sources { version: String, said: String },
    #[error("{action}: {source}")]
    Io { action: String, source: io::Error },
}

type Result<T> = std::result::Result<T, Unavailable>;

/// Returns the version of the library that programs are built with.
pub fn available() -> Result<String> {
    run(&mut Command::new("cc"), "--version", "cc", "gcc")?.map_err(Unavailable::Library)?;
    pkg_config("--modversion")
}

/// Returns the program's path in `cache`, where its name has the hash of its sources. Builds it if it is not there.
pub(super) fn program(cache: &Path) -> Result<PathBuf> {
    let version = available()?;
    let mut hasher = DefaultHasher::new();
    (SOURCES, OPTIONS, &version).hash(&mut hasher);
    let program = cache.join(format!("dpdk-app-{:016x}", hasher.finish()));
    if program.is_file() {
        return Ok(program);
    }
    let failed = |action: String| move |source| Unavailable::Io { action, source };
    std::fs::create_dir_all(cache).map_err(failed(format!("creating {}", cache.display())))?;
    let directory = tempfile::Builder::new().prefix("dpdk-app-").tempdir_in(cache);
    let directory = directory.map_err(failed(format!("creating a directory in {}", cache.display())))?;
    let built = directory.path().join("program");
    compile(directory.path(), &built, &version)?;
    // Other processes may do the same at this time; each of them gets a whole program.
    std::fs::rename(&built, &program).map_err(failed(format!("creating {}", program.display())))?;
    Ok(program)
}

/// Builds the program in `directory`; returns the compiler's warnings.
fn compile(directory: &Path, program: &Path, version: &str) -> Result<String> {
    for (name, text) in SOURCES {
        let path = directory.join(name);
        std::fs::write(&path, text)
            .map_err(|source| Unavailable::Io { action: format!("writing {}", path.display()), source })?;
    }
    let mut command = Command::new("cc");
    command.current_dir(directory).args(OPTIONS);
    command.args(SOURCES.iter().map(|(name, _)| name).filter(|name| name.ends_with(".c")));
    command.args(pkg_config("--cflags")?.split_whitespace()).args(pkg_config("--libs")?.split_whitespace());
    command.arg("-lm").arg("-o").arg(program);
    let output = command.output().map_err(|source| Unavailable::Io { action: "starting cc".to_owned(), source })?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() { Ok(said) } else { Err(Unavailable::Sources { version: version.to_owned(), said }) }
}

fn pkg_config(question: &str) -> Result<String> {
    let mut command = Command::new("pkg-config");
    run(command.arg("libdpdk"), question, "pkg-config", "pkg-config")?.map_err(Unavailable::Library)
}

/// Runs a tool of this package; returns its output, of standard error if it failed.
fn run(
    command: &mut Command,
    argument: &str,
    tool: &'static str,
    package: &'static str,
) -> Result<std::result::Result<String, String>> {
    let output = command.arg(argument).output().map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => Unavailable::Tool { tool, package },
        _ => Unavailable::Io { action: format!("starting {tool}"), source },
    })?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    Ok(if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_compiles_without_a_warning() {
        let directory = tempfile::tempdir().unwrap();
        let said = compile(directory.path(), &directory.path().join("program"), "here").unwrap();
        assert_eq!(said, "");
    }

    #[test]
    fn it_is_built_once() {
        let cache = tempfile::tempdir().unwrap();
        let program = super::program(cache.path()).unwrap();
        let made = program.metadata().unwrap().modified().unwrap();
        assert_eq!(super::program(cache.path()).unwrap(), program);
        assert_eq!(program.metadata().unwrap().modified().unwrap(), made);
        assert_eq!(std::fs::read_dir(cache.path()).unwrap().count(), 1);
    }

    #[test]
    fn all_files_are_embedded() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/dpdk/app");
        let names = std::fs::read_dir(here).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.filter(|name| !name.ends_with(".rs")).collect();
        names.sort();
        assert_eq!(names, SOURCES.iter().map(|(name, _)| *name).collect::<Vec<_>>());
    }

    #[test]
    fn a_missing_library_is_named() {
        let mut command = Command::new("pkg-config");
        let answer = run(command.arg("no-such-library-here"), "--modversion", "pkg-config", "pkg-config").unwrap();
        let error = answer.map_err(Unavailable::Library).unwrap_err().to_string();
        assert!(error.contains("libdpdk-dev") && error.contains("no-such-library-here"), "{error}");
        let error = run(&mut Command::new("no-such-tool-here"), "--version", "cc", "gcc").unwrap_err().to_string();
        assert!(error.contains("install the Debian package gcc"), "{error}");
    }
}
