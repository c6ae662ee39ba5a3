//! The files of a Millrace.

use super::config::Configuration;
use crate::{Error, Result};
use std::path::{Path, PathBuf};

/// Paths of a Millrace's configuration and its control socket. They outlive the process, so that a new one finds what the
/// old one left.
#[derive(Clone, Debug)]
pub struct Files {
    /// The configuration.
    pub configuration: PathBuf,
    /// The control socket.
    pub control: PathBuf,
}

impl Files {
    /// Names the files of a Millrace in this directory: others may be there, too.
    pub fn named(directory: &Path, name: &str) -> Files {
        let file = |extension| directory.join(format!("{name}.{extension}"));
        Files { configuration: file("toml"), control: file("ctl") }
    }

    /// Writes the configuration, with the control socket added.
    pub fn configure(&self, configuration: impl Configuration) -> Result<()> {
        self.write(&configuration.text(), None)
    }

    /// Does the same for a Millrace that keeps ports which are added by calls in this directory.
    pub fn configure_keeping(&self, configuration: impl Configuration, ports: &Path) -> Result<()> {
        self.write(&configuration.text(), Some(ports))
    }

    fn write(&self, text: &str, ports: Option<&Path>) -> Result<()> {
        let ports = ports.map(|ports| format!("ports = {:?}\n", ports.display().to_string())).unwrap_or_default();
        let control = self.control.display().to_string();
        std::fs::write(&self.configuration, format!("{text}\n[control]\nsocket = {control:?}\n{ports}"))
            .map_err(Error::io("writing Millrace's configuration"))
    }
}
