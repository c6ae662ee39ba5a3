//! Directories of paths.

use std::path::Path;

/// Returns the directory of `path`, in a form that can be opened.
pub(super) fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}
