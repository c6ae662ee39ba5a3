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
        let (text, control) = (configuration.text(), self.control.display().to_string());
        std::fs::write(&self.configuration, format!("{text}\n[control]\nsocket = {control:?}\n"))
            .map_err(Error::io("writing Millrace's configuration"))
    }
}
