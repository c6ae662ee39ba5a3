//! Kernel modules that are not part of a kernel, built for it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Kernel;
use super::kernel::lock;
use lab::output_of;
use lab::{Error, Result};

/// The sources of a module, and how to build them.
#[derive(Debug, Clone)]
pub struct Module {
    sources: PathBuf,
    settings: Vec<String>,
}

impl Module {
    /// Takes the directory of the sources, whose name is the module's.
    pub fn new(sources: impl Into<PathBuf>) -> Self {
        Self { sources: sources.into(), settings: Vec::new() }
    }

    /// Adds a variable for make, as `NAME=VALUE`.
    pub fn setting(mut self, setting: &str) -> Self {
        self.settings.push(setting.to_owned());
        self
    }

    /// Builds the module for `kernel`, which must have headers; returns its file. Does nothing if that was built of the same
    /// sources before.
    pub fn build(&self, kernel: &Kernel) -> Result<PathBuf> {
        let name = self.sources.file_name().unwrap_or_default().to_string_lossy().into_owned();
        // Make takes no other characters in paths.
        let variant = [std::slice::from_ref(&name), &self.settings].concat().join("-").replace('=', "-");
        let directory = kernel.directory().join(variant);
        fs::create_dir_all(&directory).map_err(Error::io(format!("creating {}", directory.display())))?;
        let _lock = lock(&directory)?;
        let (record, module) = (directory.join("built-of"), directory.join(format!("{name}.ko")));
        let sources = self.read()?;
        let text: String = sources.iter().map(|(file, text)| format!("== {file}\n{text}")).collect();
        if module.exists() && fs::read_to_string(&record).is_ok_and(|before| before == text) {
            return Ok(module);
        }
        for (file, text) in &sources {
            write(&directory.join(file), text)?;
        }
        let mut make = Command::new("make");
        make.arg("-C").arg(kernel.headers()).arg(format!("M={}", directory.display()));
        // Type information needs a tool that may be missing, and is not used here.
        make.args(["CONFIG_DEBUG_INFO_BTF_MODULES=", "modules"]).args(&self.settings);
        output_of(&mut make)?;
        write(&record, &text)?;
        Ok(module)
    }

    /// Returns the names and texts of the sources.
    fn read(&self) -> Result<Vec<(String, String)>> {
        let failed = |path: &Path| Error::io(format!("reading {}", path.display()));
        let mut sources = Vec::new();
        for entry in fs::read_dir(&self.sources).map_err(failed(&self.sources))?.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name == "Kbuild" || name.ends_with(".c") && !name.ends_with(".mod.c") || name.ends_with(".h") {
                sources.push((name, fs::read_to_string(entry.path()).map_err(failed(&entry.path()))?));
            }
        }
        sources.sort();
        Ok(sources)
    }
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).map_err(Error::io(format!("writing {}", path.display())))
}
