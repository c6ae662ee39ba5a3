//! Setup for measuring aggregation: one or two Millrace nodes, the link between them, and a network function behind the second
//! one. Everything ends with this program, however it ends.
//!
//! A [`Rig`] finds the programs, and has the directory for their files. A measurement starts and owns, on a rig, a [`Link`]
//! between two nodes, [`Node`]s, and a network function. [`TwoNodes`] is the usual arrangement of all of them.

mod capture;
mod function;
mod link;
mod node;
mod scheduling;
mod two_nodes;

pub use capture::{Packets, replay};
pub use function::{Placement, Processed, Program};
pub use link::*;
pub use node::*;
pub use scheduling::*;
pub use two_nodes::{TwoNodes, TwoNodesConfig};

use crate::millrace::{MillraceError, beside};
use clap::Args;
use lab::dpdk::Pages;
use lab::ovs;
use lab::process::Interrupt;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Error of setting up or running.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum RigError {
    #[error(transparent)]
    Millrace(#[from] MillraceError),
    #[error(transparent)]
    Lab(#[from] lab::Error),
    #[error(transparent)]
    Ovs(#[from] ovs::Unavailable),
    #[error(transparent)]
    Rules(#[from] settings::aggregation::LoadError),
    #[error("there is no driver {}: install the package millrace-dpdk, or run make in dpdk/net_paflow, or name another directory by --programs", path.display())]
    Plugin { path: PathBuf },
    #[error("{action}: {source}")]
    System { action: &'static str, source: std::io::Error },
}

impl RigError {
    /// Reports whether a signal caused it.
    pub fn is_interrupt(&self) -> bool {
        matches!(self, RigError::Lab(error) | RigError::Millrace(MillraceError::Lab(error)) if error.is_interrupt())
    }
}

/// Where the programs are.
#[derive(Clone, Debug, Args)]
pub struct Programs {
    /// Directory of `millrace`, `nf-forward` and the driver net_paflow [default: that of this program]
    #[arg(long, value_name = "DIR")]
    pub programs: Option<PathBuf>,
}

/// The driver for DPDK applications.
const PLUGIN: &str = "librte_net_paflow.so";

impl Programs {
    fn directory(&self) -> PathBuf {
        let own = || Some(std::env::current_exe().ok()?.parent()?.to_owned());
        self.programs.clone().or_else(own).unwrap_or_default()
    }

    /// Returns the path of the driver: beside the programs, or in `../lib/millrace`, where packages have it.
    fn plugin(&self) -> PathBuf {
        let directory = self.directory();
        let beside = directory.join(PLUGIN);
        let installed = directory.parent().map(|prefix| prefix.join("lib/millrace").join(PLUGIN));
        installed.filter(|installed| installed.exists() && !beside.exists()).unwrap_or(beside)
    }

    fn find(&self, name: &str, package: &'static str) -> Result<PathBuf, MillraceError> {
        const HINT: &str = ", or name another directory by --programs";
        let Some(directory) = &self.programs else { return beside(name, package, HINT) };
        let path = directory.join(name);
        if path.is_file() { Ok(path) } else { Err(MillraceError::Missing { path, package, hint: HINT }) }
    }
}

/// State shared by all parts.
pub struct Rig {
    millrace: PathBuf,
    function: PathBuf,
    /// The driver for DPDK applications, if it was built.
    plugin: PathBuf,
    pages: Pages,
    interrupt: Interrupt,
    directory: TempDir,
}

impl Rig {
    /// Finds the programs, and creates a directory for their files. Requests `megabytes` of huge pages for DPDK
    /// ([`Between::megabytes`]).
    pub fn new(programs: &Programs, megabytes: u64) -> Result<Rig, RigError> {
        let failed = |action| move |source| RigError::System { action, source };
        Ok(Rig {
            millrace: programs.find("millrace", "millrace")?,
            plugin: programs.plugin(),
            function: programs.find("nf-forward", "millrace-nf")?,
            pages: if megabytes > 0 { Pages::for_dpdk(megabytes) } else { Pages::Normal },
            interrupt: Interrupt::install()?,
            directory: tempfile::Builder::new()
                .prefix("testbed-")
                .tempdir()
                .map_err(failed("a temporary directory can't be made"))?,
        })
    }

    /// Returns the flag that ends waits.
    pub fn interrupt(&self) -> &Interrupt {
        &self.interrupt
    }

    /// Returns the path of a file in the rig's directory.
    pub fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Returns the driver for DPDK applications.
    fn plugin(&self) -> Result<PathBuf, RigError> {
        if self.plugin.is_file() {
            Ok(lab::dpdk::plugin::accepted(&self.plugin)?)
        } else {
            Err(RigError::Plugin { path: self.plugin.clone() })
        }
    }

    /// Returns the program of the nodes.
    pub fn millrace(&self) -> &Path {
        &self.millrace
    }
}
