//! Guest kernels: Debian's, downloaded and unpacked, never installed.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::apt::Apt;
use super::bzimage;
use lab::output_of;
use lab::{Error, Result};

/// Modules of a virtio-net guest, in loading order.
const VIRTIO: [&str; 8] = [
    "virtio_ring",
    "virtio",
    "virtio_pci_legacy_dev",
    "virtio_pci_modern_dev",
    "virtio_pci",
    "failover",
    "net_failover",
    "virtio_net",
];

/// Modules of a guest whose programs drive its devices (VFIO), in loading order.
const VFIO: [&str; 6] = ["irqbypass", "vfio_virqfd", "vfio", "vfio_iommu_type1", "vfio-pci-core", "vfio-pci"];

/// The same without an IOMMU (UIO).
const UIO: [&str; 2] = ["uio", "uio_pci_generic"];

/// Source of a kernel: always Debian's for cloud guests, which are the smallest and boot fastest.
struct Origin {
    /// Pattern of the packages' names.
    images: &'static str,
    /// The archive's suite, if this machine does not use it.
    suite: Option<&'static str>,
    /// Its subdirectory of the cache.
    cache: &'static str,
    /// Modules that the guest loads when it boots, in this order.
    modules: &'static [&'static str],
    /// Patterns of further packages, with `VERSION` for the version and `ABI` for it without the kernel's kind: what building
    /// modules takes.
    headers: &'static [&'static str],
}

/// The kernel of Debian 12.
const STABLE: Origin = Origin {
    images: "^linux-image-6\\.1\\.0-[0-9]+-cloud-amd64$",
    suite: None,
    cache: "",
    modules: &VIRTIO,
    headers: &[],
};

/// The same kernel, without drivers for network devices: with or without an IOMMU.
const STABLE_VFIO: Origin = Origin { cache: "vfio", modules: &VFIO, ..STABLE };
const STABLE_UIO: Origin = Origin { cache: "uio", modules: &UIO, ..STABLE };

/// The newest kernel that Debian provides for its stable releases.
const RECENT: Origin = Origin {
    images: "^linux-image-[0-9.]+[+]deb13-cloud-amd64$",
    suite: Some("trixie-backports"),
    cache: "recent",
    modules: &VIRTIO,
    headers: &[],
};

/// The kernel of Debian 12, and the packages for building modules for it.
const STABLE_HEADERS: Origin = Origin {
    cache: "headers",
    headers: &["linux-headers-VERSION", "linux-headers-ABI-common", "linux-kbuild-6[.]1", "linux-compiler-gcc-12-x86"],
    ..STABLE
};

/// The same for the newest kernel that has been built with the compiler of Debian 12.
const BACKPORTED_HEADERS: Origin = Origin {
    images: "^linux-image-6[.]12[.][0-9]+[+]deb12-cloud-amd64$",
    suite: Some("bookworm-backports"),
    cache: "headers-backported",
    modules: &VIRTIO,
    headers: &["linux-headers-VERSION", "linux-headers-ABI-common", "linux-kbuild-ABI"],
};

/// Modules that a guest gets only if a test asks for them, from kernels with headers.
const MORE_MODULES: [&str; 3] = ["irqbypass", "kvm", "kvm-amd"];

/// A kernel that QEMU can boot, with its modules.
#[derive(Debug, Clone)]
pub struct Kernel {
    name: String,
    directory: PathBuf,
    modules: Vec<(&'static str, PathBuf)>,
}

impl Kernel {
    /// Returns the newest kernel of the cache; the first call on a machine downloads it (27 MB) with `apt-get`.
    ///
    /// Tests may call this concurrently: one of them prepares the kernel, the others wait for it.
    pub fn prepare() -> Result<Self> {
        Self::prepare_of(&STABLE)
    }

    /// Does the same for features of recent kernels: returns one from the backports to a later Debian, from the mirror that
    /// this machine uses.
    pub fn prepare_recent() -> Result<Self> {
        Self::prepare_of(&RECENT)
    }

    /// Returns a kernel that leaves network devices to programs ([`super::Vm::bind`] to `vfio-pci`), instead of driving them.
    pub fn prepare_with_vfio() -> Result<Self> {
        Self::prepare_of(&STABLE_VFIO)
    }

    /// Does the same for a machine without an IOMMU ([`super::Vm::bind`] to `uio_pci_generic`).
    pub fn prepare_with_uio() -> Result<Self> {
        Self::prepare_of(&STABLE_UIO)
    }

    /// Returns a kernel that modules can be built for ([`super::Module`]).
    pub fn prepare_with_headers() -> Result<Self> {
        Self::prepare_of(&STABLE_HEADERS)
    }

    /// Does the same for the kernel of the backports to Debian 12.
    pub fn prepare_backported_with_headers() -> Result<Self> {
        Self::prepare_of(&BACKPORTED_HEADERS)
    }

    /// Takes a kernel that was built elsewhere, from a directory like those of the cache: `vmlinux`, which may be any image
    /// that QEMU boots, the modules, and the headers in `usr/src`. Its name begins with `linux-image-`.
    pub fn at(directory: impl Into<PathBuf>) -> Self {
        let directory = directory.into();
        let name = directory.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Self { name, modules: present(&directory, &VIRTIO), directory }
    }

    fn prepare_of(origin: &Origin) -> Result<Self> {
        let cache = cache(origin.cache)?;
        let _lock = lock(&cache)?;
        let name = match cached(&cache)? {
            Some(name) => name,
            None => download(origin, &cache)?,
        };
        let directory = cache.join(&name);
        Ok(Self { name, modules: present(&directory, origin.modules), directory })
    }

    /// Returns the name of the Debian package.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the path of the uncompressed kernel.
    pub fn vmlinux(&self) -> PathBuf {
        self.directory.join("vmlinux")
    }

    /// Returns the kernel's own module of this name, for [`super::Builder::file`]: one of those that guests do not load by
    /// themselves, of a kernel with headers.
    pub fn module(&self, name: &str) -> PathBuf {
        module_path(&self.directory, name)
    }

    pub(super) fn headers(&self) -> PathBuf {
        let version = self.name.trim_start_matches("linux-image-");
        self.directory.join("usr/src").join(format!("linux-headers-{version}"))
    }

    /// Returns the modules to load, in this order; those built into the kernel are left out.
    pub(super) fn modules(&self) -> impl Iterator<Item = (&str, &Path)> {
        self.modules.iter().map(|(name, path)| (*name, path.as_path()))
    }

    /// Returns a directory for facts about this kernel on this machine.
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }
}

/// Returns those modules that are not built into the kernel.
fn present(directory: &Path, modules: &[&'static str]) -> Vec<(&'static str, PathBuf)> {
    let all = modules.iter().map(|&module| (module, module_path(directory, module)));
    all.filter(|(_, path)| path.exists()).collect()
}

/// Returns a directory of the cache, inside Cargo's target directory.
pub(super) fn cache(name: &str) -> Result<PathBuf> {
    let target = match std::env::var_os("CARGO_TARGET_DIR") {
        Some(target) => PathBuf::from(target),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target"),
    };
    let cache = target.join("e2e").join(name);
    fs::create_dir_all(&cache).map_err(Error::io(format!("creating {}", cache.display())))?;
    cache.canonicalize().map_err(Error::io(format!("resolving {}", cache.display())))
}

/// Waits until no other process uses `directory`, and locks it until the file is dropped.
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

/// Returns the name with the highest numbers: version, ABI and revision, compared in their order in the name.
fn newest(names: impl Iterator<Item = String>) -> Option<String> {
    let numbers = |name: &String| -> Vec<u32> {
        name.split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse().ok()).collect()
    };
    names.max_by_key(numbers)
}

/// Downloads and unpacks the newest kernel; returns its name.
fn download(origin: &Origin, cache: &Path) -> Result<String> {
    // Prepare it in a temporary directory and rename it when complete: a half-made kernel is never used.
    let work = tempfile::Builder::new().prefix("preparing-").tempdir_in(cache);
    let work = work.map_err(Error::io(format!("creating a directory in {}", cache.display())))?;
    let apt = Apt::new(origin.suite, work.path())?;
    let name = newest(apt.search(origin.images)?.into_iter()).ok_or_else(|| {
        let problem = format!("no package is named {}; run `apt-get update`, on Debian 12", origin.images);
        Error::malformed("the package lists of apt", problem)
    })?;
    // Recent kernels are split into four packages.
    let parts = name.replacen("linux-image-", "^linux-(base|binary|modules)-", 1).replace('+', "[+]") + "$";
    let tree = work.path().join("tree");
    for package in apt.search(&parts)?.iter().chain([&name]) {
        output_of(Command::new("dpkg").arg("-x").arg(apt.download(package)?).arg(&tree))?;
    }
    for package in headers_of(origin, &name, &apt)? {
        output_of(Command::new("dpkg").arg("-x").arg(apt.download(&package)?).arg(&tree))?;
    }
    let made = work.path().join(&name);
    fs::create_dir(&made).map_err(Error::io(format!("creating {}", made.display())))?;
    extract_kernel(&tree, &made)?;
    extract_modules(&tree, &made, origin.modules)?;
    let destination = cache.join(&name);
    if !origin.headers.is_empty() {
        extract_modules(&tree, &made, &MORE_MODULES)?;
        extract_headers(&tree, &made, &name, &destination)?;
    }
    fs::rename(&made, &destination).map_err(Error::io(format!("creating {}", destination.display())))?;
    Ok(name)
}

/// Returns the packages that building modules for kernel `name` takes.
fn headers_of(origin: &Origin, name: &str, apt: &Apt) -> Result<Vec<String>> {
    let version = name.trim_start_matches("linux-image-").replace('+', "[+]");
    let abi = version.trim_end_matches("-cloud-amd64");
    let patterns = origin.headers.iter().map(|pattern| pattern.replace("VERSION", &version).replace("ABI", abi));
    let found = patterns.map(|pattern| match apt.search(&format!("^{pattern}$"))?.pop() {
        Some(package) => Ok(package),
        None => Err(Error::malformed("the package lists of apt", format!("no package is named {pattern}"))),
    });
    found.collect()
}

fn extract_headers(tree: &Path, made: &Path, name: &str, destination: &Path) -> Result<()> {
    let moved = made.join("usr");
    fs::rename(tree.join("usr"), &moved).map_err(Error::io(format!("creating {}", moved.display())))?;
    // The makefile of the headers names its other half as if both were installed.
    let version = name.trim_start_matches("linux-image-");
    let makefile = moved.join("src").join(format!("linux-headers-{version}/Makefile"));
    let text = fs::read_to_string(&makefile).map_err(Error::io(format!("reading {}", makefile.display())))?;
    let here = format!("{}/usr/src/", destination.display());
    write(&makefile, text.replace("/usr/src/", &here).as_bytes())
}

fn extract_kernel(tree: &Path, made: &Path) -> Result<()> {
    let image = find(tree, &|file| file.starts_with("vmlinuz"))?;
    let image = image.ok_or_else(|| Error::malformed(tree.display().to_string(), "the package has no kernel"))?;
    let image = fs::read(&image).map_err(Error::io(format!("reading {}", image.display())))?;
    let (tool, payload) = bzimage::payload(&image)?;
    let compressed = made.join("payload");
    write(&compressed, payload)?;
    write(&made.join("vmlinux"), &decompress(tool, &compressed)?)?;
    fs::remove_file(&compressed).map_err(Error::io(format!("removing {}", compressed.display())))
}

fn extract_modules(tree: &Path, made: &Path, modules: &[&str]) -> Result<()> {
    let builtin = find(tree, &|file| file == "modules.builtin")?;
    let builtin = builtin.and_then(|file| fs::read_to_string(file).ok()).unwrap_or_default();
    for module in modules {
        let file = format!("{module}.ko");
        match find(tree, &|name| name.strip_prefix(&file).is_some_and(is_suffix))? {
            Some(path) => write(&module_path(made, module), &read_module(&path)?)?,
            None if builtin.lines().any(|line| line.ends_with(&format!("/{file}"))) => {}
            None => return Err(Error::malformed(tree.display().to_string(), format!("it has no module {module}"))),
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
    // Over standard input, as some of the tools judge a file by its name.
    let file = File::open(path).map_err(Error::io(format!("opening {}", path.display())))?;
    output_of(Command::new(tool).arg("-dc").stdin(Stdio::from(file)))
}

fn write(path: &Path, content: &[u8]) -> Result<()> {
    fs::write(path, content).map_err(Error::io(format!("writing {}", path.display())))
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
        let names = ["linux-image-6.1.0-9-cloud-amd64", "linux-image-6.1.0-56-cloud-amd64"];
        assert_eq!(newest(names.into_iter().map(str::to_owned)).unwrap(), names[1]);
        let names = ["linux-image-7.2.9+deb13-cloud-amd64", "linux-image-7.2.12+deb13-cloud-amd64"];
        assert_eq!(newest(names.into_iter().map(str::to_owned)).unwrap(), names[1]);
    }
}
