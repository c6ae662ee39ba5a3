//! `cargo xtask package`: packages for Debian and for distributions with RPM, and an image for containers. Everything is made without
//! privileges and without a container engine, below `target/package`.

mod arch;
mod build;
mod content;
mod deb;
mod libraries;
mod loading;
mod machine;
mod maker;
mod notices;
mod oci;
mod rpm;
mod tree;

use crate::command::Context;
use crate::failure::Failure;
use crate::tools::{Need, prepare};
use arch::Arch;
use clap::{Args, ValueEnum};
use maker::Maker;

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
    /// Then install the Debian packages in a virtual machine, and use, reload, upgrade and purge them there
    #[arg(long)]
    test: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Debian packages: millrace, millrace-tools and millrace-dpdk
    Deb,
    /// Packages for distributions with RPM: millrace and millrace-tools
    Rpm,
    /// An image for containers, in OCI layout
    Oci,
}

/// Makes what is asked for, and lists it.
pub fn run(context: &Context, arguments: &PackageArguments) -> Result<(), Failure> {
    let asked = |format| arguments.formats.is_empty() || arguments.formats.contains(&format);
    let formats = [Format::Deb, Format::Rpm, Format::Oci].into_iter().filter(|&format| asked(format));
    let formats: Vec<Format> = formats.collect();
    let here = Arch::of_this_machine()?;
    let archs = if arguments.arch.is_empty() { vec![here] } else { arguments.arch.clone() };
    if arguments.test && (archs != [here] || !formats.contains(&Format::Deb)) {
        return Err(
            "the test is of the Debian package for this machine's processor: name `deb`, and no other --arch".into()
        );
    }
    prepare(context, &[Need::Packagers])?;
    if archs.iter().any(|&arch| arch != here) || formats.contains(&Format::Oci) {
        prepare(context, &[Need::Platforms])?;
    }
    let time = context.command("git").args(&["log", "-1", "--format=%ct"]).output()?.trim().to_owned();
    let maker = Maker { context, time, revision: arguments.revision.to_string() };
    let all = archs.len() * formats.len();
    let mut made = Vec::new();
    for &arch in &archs {
        for &format in &formats {
            println!("==> {} of {all}: {format:?} for {}", made.len() + 1, arch.debian());
            made.push(match format {
                Format::Deb => deb::make(&maker, arch)?,
                Format::Rpm => rpm::make(&maker, arch)?,
                Format::Oci => vec![oci::make(&maker, arch)?],
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
