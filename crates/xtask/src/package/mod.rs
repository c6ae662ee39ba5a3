//! `cargo xtask package`: packages for Debian and for distributions with RPM, and an image for containers. Everything is made without
//! privileges and without a container engine, below `target/package`.

mod arch;
mod build;
mod machine;
mod notices;
mod oci;
mod tree;

use crate::command::Context;
use crate::failure::Failure;
use crate::tools::{Need, prepare};
use arch::Arch;
use clap::{Args, ValueEnum};
use std::path::{Path, PathBuf};

#[derive(Args)]
pub struct PackageArguments {
    /// Kinds of packages; all by default
    #[arg(value_enum)]
    formats: Vec<Format>,
    /// Processors that they are for; that of this machine by default
    #[arg(long, value_enum)]
    arch: Vec<Arch>,
    /// Revision of the packaging, which follows the version
    #[arg(long, default_value_t = 1)]
    revision: u32,
    /// Then install the Debian package in a virtual machine, and use, reload, upgrade and purge it there
    #[arg(long)]
    test: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Debian packages: millrace, and millrace-dpdk for this machine's processor
    Deb,
    /// A package for distributions with RPM
    Rpm,
    /// An image for containers, in OCI layout
    Oci,
}

/// Makes what is asked for, and lists it.
pub fn run(context: &Context, arguments: &PackageArguments) -> Result<(), Failure> {
    let asked = |format| arguments.formats.is_empty() || arguments.formats.contains(&format);
    let formats = [Format::Deb, Format::Rpm, Format::Oci].into_iter().filter(|&format| asked(format));
    let formats: Vec<Format> = formats.collect();
    if arguments.test && !formats.contains(&Format::Deb) {
        return Err("the test is of the Debian package: name `deb` as well".into());
    }
    let here = Arch::of_this_machine()?;
    let archs = if arguments.arch.is_empty() { vec![here] } else { arguments.arch.clone() };
    prepare(context, &[Need::Packagers])?;
    if archs.iter().any(|&arch| arch != here) || formats.contains(&Format::Oci) {
        prepare(context, &[Need::Platforms])?;
    }
    // Equal sources make equal packages: files are as old as the commit.
    let time = context.command("git").args(&["log", "-1", "--format=%ct"]).output()?.trim().to_owned();
    let maker = Maker { context, time, revision: arguments.revision.to_string() };
    let all = archs.len() * formats.len();
    let mut made = Vec::new();
    for &arch in &archs {
        for &format in &formats {
            println!("==> {} of {all}: {format:?} for {}", made.len() + 1, arch.debian());
            made.push(match format {
                Format::Deb => maker.deb(arch)?,
                Format::Rpm => vec![maker.rpm(arch)?],
                Format::Oci => vec![maker.oci(arch)?],
            });
        }
    }
    println!();
    for path in made.iter().flatten() {
        let size = std::fs::metadata(path).map_or(0, |meta| meta.len());
        println!("{:7.1} MB  {}", size as f64 / 1e6, path.strip_prefix(&context.root).unwrap_or(path).display());
    }
    if arguments.test { machine::test(&maker) } else { Ok(()) }
}

/// What all packages of a run share.
struct Maker<'c> {
    context: &'c Context,
    /// Time of the commit, in seconds since 1970.
    time: String,
    revision: String,
}

impl Maker<'_> {
    /// Returns a place for packages, and for what they are made of.
    fn place(&self, name: &str) -> PathBuf {
        self.context.target("package").join(name)
    }

    fn version(&self) -> &'static str {
        env!("CARGO_PKG_VERSION")
    }

    /// Makes the Debian packages, and checks them with Debian's own checks.
    fn deb(&self, arch: Arch) -> Result<Vec<PathBuf>, Failure> {
        let program = build::program(self, arch.glibc())?;
        tree::make(self, arch, &program)?;
        // The variant is named after the processor.
        let mut packages = vec![self.deb_of(arch, "millrace", &["--variant", arch.debian()])?];
        if arch == Arch::of_this_machine()? {
            build::plugins(self)?;
            packages.push(self.deb_of(arch, "millrace-dpdk", &[])?);
        } else {
            println!("NOT MADE: millrace-dpdk for {}; it takes that machine's DPDK", arch.debian());
        }
        let names: Vec<_> = packages.iter().map(|path| word(path)).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        // The packages are not uploaded to Debian, so there is no report that asked for them.
        let strict = ["--allow-root", "--fail-on", "error,warning", "--suppress-tags", "initial-upload-closes-no-bugs"];
        self.context.command("lintian").args(&strict).args(&names).run()?;
        Ok(packages)
    }

    /// Makes a Debian package by the lists of a crate.
    fn deb_of(&self, arch: Arch, name: &str, options: &[&str]) -> Result<PathBuf, Failure> {
        let output = self.deb_path(arch, name);
        tree::changelog(self, name)?;
        // Programs are built and stripped already.
        let words = ["deb", "--no-build", "--no-strip", "--quiet", "--target", arch.glibc(), "--package", name];
        let place = ["--deb-revision", &self.revision, "--output", &word(&output)];
        self.context.cargo(&words).args(options).args(&place).env("SOURCE_DATE_EPOCH", &self.time).run()?;
        Ok(output)
    }

    fn deb_path(&self, arch: Arch, name: &str) -> PathBuf {
        self.place(&format!("{name}_{}-{}_{}.deb", self.version(), self.revision, arch.debian()))
    }

    fn rpm(&self, arch: Arch) -> Result<PathBuf, Failure> {
        let program = build::program(self, arch.glibc())?;
        tree::make(self, arch, &program)?;
        let output = self.place(&format!("millrace-{}-{}.{}.rpm", self.version(), self.revision, arch.rust()));
        let (place, release) = (output.display().to_string(), format!("release = \"{}\"", self.revision));
        let words = ["generate-rpm", "--package", "crates/millrace", "--target", arch.glibc()];
        // It reads the program's libraries, of any processor; the built-in way runs it.
        let options = ["--auto-req", "find-requires", "--set-metadata", &release, "--output", &place];
        self.context.cargo(&words).args(&options).env("SOURCE_DATE_EPOCH", &self.time).run()?;
        Ok(output)
    }

    fn oci(&self, arch: Arch) -> Result<PathBuf, Failure> {
        let program = build::program(self, arch.musl())?;
        tree::make(self, arch, &program)?;
        oci::image(self, arch)
    }
}

/// Returns a path as a word of a command line.
fn word(path: &Path) -> String {
    path.display().to_string()
}
