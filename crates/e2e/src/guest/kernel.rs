//! The guest kernel: Debian's, downloaded and unpacked, never installed.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::bzimage;
use crate::error::output_of;
use crate::{Error, Result};

/// The modules of a virtio-net guest, in the order in which they can be loaded.
const MODULES: [&str; 8] = [
    "virtio_ring",
    "virtio",
    "virtio_pci_legacy_dev",
    "virtio_pci_modern_dev",
    "virtio_pci",
    "failover",
    "net_failover",
    "virtio_net",
];

/// Debian's kernel for cloud guests: the smallest one, and the fastest to boot.
const PACKAGES: &str = "^linux-image-6\\.1\\.0-[0-9]+-cloud-amd64$";

/// A kernel that QEMU can boot, with its modules.
#[derive(Debug, Clone)]
pub struct Kernel {
    name: String,
    directory: PathBuf,
    modules: Vec<(&'static str, PathBuf)>,
}

impl Kernel {
    /// The newest kernel of the cache; the first call on a machine downloads it (27 MB) with `apt-get`.
    ///
    /// Tests may call this at the same time: one of them prepares the kernel, the others wait for it.
    pub fn prepare() -> Result<Self> {
        let cache = cache()?;
        let _lock = lock(&cache)?;
        let name = match cached(&cache)? {
            Some(name) => name,
            None => download(&cache)?,
        };
        let directory = cache.join(&name);
        let present = |&module: &&str| module_path(&directory, module).exists();
        let modules = MODULES.into_iter().filter(present).map(|module| (module, module_path(&directory, module)));
        Ok(Self { name, modules: modules.collect(), directory })
    }

    /// The name of the Debian package.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The uncompressed kernel.
    pub fn vmlinux(&self) -> PathBuf {
        self.directory.join("vmlinux")
    }

    /// The modules to load, in this order; those built into the kernel are left out.
    pub(super) fn modules(&self) -> impl Iterator<Item = (&str, &Path)> {
        self.modules.iter().map(|(name, path)| (*name, path.as_path()))
    }

    /// Where facts about this kernel on this machine may be kept.
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }
}

/// The cache directory, inside Cargo's target directory.
fn cache() -> Result<PathBuf> {
    let target = match std::env::var_os("CARGO_TARGET_DIR") {
        Some(target) => PathBuf::from(target),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target"),
    };
    let cache = target.join("e2e");
    fs::create_dir_all(&cache).map_err(Error::io(format!("creating {}", cache.display())))?;
    cache.canonicalize().map_err(Error::io(format!("resolving {}", cache.display())))
}

/// Waits until no other process prepares something in `directory`; lasts until the file is dropped.
pub(super) fn lock(directory: &Path) -> Result<File> {
    let path = directory.join("lock");
    let file = File::create(&path).map_err(Error::io(format!("creating {}", path.display())))?;
    file.lock().map_err(Error::io(format!("locking {}", path.display())))?;
    Ok(file)
}

fn cached(cache: &Path) -> Result<Option<String>> {
    let entries = fs::read_dir(cache).map_err(Error::io(format!("listing {}", cache.display())))?;
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    Ok(newest(names.filter(|name| name.starts_with("linux-image-"))))
}

/// The name with the highest ABI number: the number between the version and the flavour.
fn newest(names: impl Iterator<Item = String>) -> Option<String> {
    let abi = |name: &String| name.split('-').nth(3).and_then(|abi| abi.parse::<u32>().ok());
    names.filter(|name| abi(name).is_some()).max_by_key(abi)
}

/// Downloads and unpacks the newest kernel; returns its name.
fn download(cache: &Path) -> Result<String> {
    let found = output_of(Command::new("apt-cache").args(["search", "--names-only", PACKAGES]))?;
    let found = String::from_utf8_lossy(&found).into_owned();
    let names = found.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned);
    let name = newest(names).ok_or_else(|| {
        let problem = format!("no package is named {PACKAGES}; run `apt-get update`, on Debian 12");
        Error::malformed("the package lists of apt", problem)
    })?;
    // In a directory of its own that takes its final name when it is complete: a half-made kernel is never used.
    let work = tempfile::Builder::new().prefix("preparing-").tempdir_in(cache);
    let work = work.map_err(Error::io(format!("creating a directory in {}", cache.display())))?;
    output_of(Command::new("apt-get").args(["-q", "download", &name]).current_dir(work.path()))?;
    let package = only_file(work.path(), |file| file.ends_with(".deb"))?;
    let tree = work.path().join("tree");
    output_of(Command::new("dpkg").arg("-x").arg(&package).arg(&tree))?;
    let made = work.path().join(&name);
    fs::create_dir(&made).map_err(Error::io(format!("creating {}", made.display())))?;
    extract_kernel(&tree.join("boot"), &made)?;
    extract_modules(&tree.join("lib/modules"), &made)?;
    let destination = cache.join(&name);
    fs::rename(&made, &destination).map_err(Error::io(format!("creating {}", destination.display())))?;
    Ok(name)
}

fn extract_kernel(boot: &Path, made: &Path) -> Result<()> {
    let image = only_file(boot, |file| file.starts_with("vmlinuz-"))?;
    let image = fs::read(&image).map_err(Error::io(format!("reading {}", image.display())))?;
    let (tool, payload) = bzimage::payload(&image)?;
    let compressed = made.join("payload");
    write(&compressed, payload)?;
    write(&made.join("vmlinux"), &decompress(tool, &compressed)?)?;
    fs::remove_file(&compressed).map_err(Error::io(format!("removing {}", compressed.display())))
}

fn extract_modules(tree: &Path, made: &Path) -> Result<()> {
    let release = only_file(tree, |_| true)?;
    let builtin = fs::read_to_string(release.join("modules.builtin")).unwrap_or_default();
    for module in MODULES {
        let file = format!("{module}.ko");
        let found = find(&release.join("kernel"), &|name| name.strip_prefix(&file).is_some_and(is_suffix))?;
        match found {
            Some(path) => write(&module_path(made, module), &read_module(&path)?)?,
            None if builtin.lines().any(|line| line.ends_with(&format!("/{file}"))) => {}
            None => return Err(Error::malformed(release.display().to_string(), format!("it has no module {module}"))),
        }
    }
    Ok(())
}

fn is_suffix(suffix: &str) -> bool {
    matches!(suffix, "" | ".xz" | ".zst" | ".gz")
}

fn read_module(path: &Path) -> Result<Vec<u8>> {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("xz") => decompress("xz", path),
        Some("zst") => decompress("zstd", path),
        Some("gz") => decompress("gzip", path),
        _ => fs::read(path).map_err(Error::io(format!("reading {}", path.display()))),
    }
}

fn module_path(directory: &Path, module: &str) -> PathBuf {
    directory.join(format!("{module}.ko"))
}

fn decompress(tool: &str, path: &Path) -> Result<Vec<u8>> {
    // Through standard input, as some of the tools judge a file by its name.
    let file = File::open(path).map_err(Error::io(format!("opening {}", path.display())))?;
    output_of(Command::new(tool).arg("-dc").stdin(Stdio::from(file)))
}

fn write(path: &Path, content: &[u8]) -> Result<()> {
    fs::write(path, content).map_err(Error::io(format!("writing {}", path.display())))
}

/// The one entry of `directory` whose name `wanted` accepts.
fn only_file(directory: &Path, wanted: impl Fn(&str) -> bool) -> Result<PathBuf> {
    let entries = fs::read_dir(directory).map_err(Error::io(format!("listing {}", directory.display())))?;
    let mut paths = entries.flatten().filter(|entry| wanted(&entry.file_name().to_string_lossy()));
    match (paths.next(), paths.next()) {
        (Some(entry), None) => Ok(entry.path()),
        _ => Err(Error::malformed(directory.display().to_string(), "exactly one file of the package was expected")),
    }
}

fn find(directory: &Path, wanted: &dyn Fn(&str) -> bool) -> Result<Option<PathBuf>> {
    for entry in fs::read_dir(directory).map_err(Error::io(format!("listing {}", directory.display())))?.flatten() {
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_directory {
            if let Some(found) = find(&entry.path(), wanted)? {
                return Ok(Some(found));
            }
        } else if wanted(&entry.file_name().to_string_lossy()) {
            return Ok(Some(entry.path()));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_kernel_is_not_the_last_in_the_alphabet() {
        let names = ["linux-image-6.1.0-9-cloud-amd64", "linux-image-6.1.0-56-cloud-amd64", "linux-image-cloud"];
        assert_eq!(newest(names.into_iter().map(str::to_owned)).unwrap(), names[1]);
    }
}
