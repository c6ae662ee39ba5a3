//! Files of results.

use std::path::Path;

/// Writes these files, by name, to a directory, which is created if it is missing.
pub(super) fn write<'f>(directory: &Path, files: impl Iterator<Item = (&'f str, &'f String)>) -> std::io::Result<()> {
    std::fs::create_dir_all(directory)?;
    for (name, content) in files {
        std::fs::write(directory.join(name), content)?;
    }
    Ok(())
}
