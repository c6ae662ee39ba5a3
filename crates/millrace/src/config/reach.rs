//! Places in the file system that a configuration needs, each with its use: a confined switch keeps access to these only.
//!
//! A directory is identified by device and inode, not by name, as in landlock (kernel
//! Documentation/userspace-api/landlock.rst): everything beneath it is accessible under any name.

use super::directory::parent;
use super::origin::Origin;
use super::types::Config;
use super::value::ListenAddress;
use engine::port::PathUse;
use engine::port::dpdk;
use engine::port::files::Identity;
use engine::spec::ExchangeMode;
use std::fmt;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// Places where DPDK looks for its libraries, for devices and their drivers, and for memory. Its drivers are libraries, too.
const DPDK_LOOKS: [&str; 7] = ["/usr/lib", "/usr/lib64", "/usr/local/lib", "/lib", "/etc/ld.so.cache", "/sys", "/proc"];

/// Kind of access to a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Create and remove sockets; create, overwrite and read capture files. One purpose, because debugging often adds a capture
    /// beside the sockets.
    Create,
    /// The same, and directories in which to do it.
    Make,
    /// Create and remove sockets.
    Listen,
    /// Read files.
    Read,
    /// Create, read and remove the files of parts. No path of a port may lead there: the switch obeys what is there at its next start.
    Keep,
    /// Use a device.
    Device,
    /// Read files and directories.
    Look,
}

impl fmt::Display for Purpose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Purpose::Create => "create sockets and capture files",
            Purpose::Make => "create directories, sockets and capture files",
            Purpose::Listen => "create and remove sockets",
            Purpose::Read => "read files",
            Purpose::Keep => "keep added parts",
            Purpose::Device => "use the device",
            Purpose::Look => "look around",
        })
    }
}

/// A place: a directory with everything beneath it, or a single file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Its path.
    pub path: PathBuf,
    /// The purpose.
    pub purpose: Purpose,
    identity: Identity,
}

/// All places that a configuration needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    grants: Vec<Grant>,
    controllers: Vec<u16>,
}

/// A directory granted by the configuration does not exist.
#[derive(Debug, thiserror::Error)]
#[error("`directories` of [confinement] names {}: {source}; create it, or remove it from the list", path.display())]
pub struct ReachError {
    path: PathBuf,
    source: io::Error,
}

impl Reach {
    /// Collects the places that `config`, read from `file`, needs now, and those that it grants for later.
    pub fn of(config: &Config, file: &Path) -> Result<Self, ReachError> {
        let mut reach = Self::default();
        // Editors replace a file rather than change it, so its directory must stay readable.
        Origin(file).places().iter().for_each(|place| reach.grant(place, Purpose::Read));
        reach.grant(parent(&config.control), Purpose::Listen);
        config.kept.iter().for_each(|place| reach.grant(place, Purpose::Keep));
        if let Some(ListenAddress::Unix(socket)) = &config.metrics {
            reach.grant(parent(socket), Purpose::Listen);
        }
        for address in config.openflow.iter().flat_map(|openflow| &openflow.listen) {
            if let ListenAddress::Unix(socket) = address {
                reach.grant(parent(socket), Purpose::Listen);
            }
        }
        for address in config.openflow.iter().flat_map(|openflow| &openflow.controllers) {
            if let ListenAddress::Tcp(address) = address {
                reach.controllers.push(address.port());
            }
        }
        for port in &config.spec.ports {
            for (path_use, path) in port.driver.paths() {
                match path_use {
                    PathUse::Listen => reach.grant(parent(path), Purpose::Create),
                    PathUse::Write => reach.file(path, Purpose::Create),
                    PathUse::Read => reach.file(path, Purpose::Read),
                }
            }
            port.record.iter().for_each(|path| reach.file(path, Purpose::Create));
        }
        for exchange in &config.spec.exchanges {
            if let ExchangeMode::Zcopy { device } = &exchange.mode {
                reach.grant(device, Purpose::Device);
            }
        }
        if config.dpdk.is_some() {
            DPDK_LOOKS.iter().for_each(|place| reach.grant(Path::new(place), Purpose::Look));
            dpdk::places().iter().for_each(|place| reach.grant(place, Purpose::Look));
            reach.grant(Path::new("/dev/vfio"), Purpose::Device);
        }
        for path in &config.confinement.directories {
            let is_directory = fs::metadata(path).and_then(|meta| match meta.is_dir() {
                true => Ok(()),
                false => Err(io::ErrorKind::NotADirectory.into()),
            });
            is_directory.map_err(|source| ReachError { path: path.clone(), source })?;
            reach.grant(path, if config.makes_directories { Purpose::Make } else { Purpose::Create });
        }
        Ok(reach)
    }

    /// Returns the places.
    pub fn grants(&self) -> &[Grant] {
        &self.grants
    }

    /// Returns the TCP ports of the controllers that the switch connects to.
    pub fn controllers(&self) -> &[u16] {
        &self.controllers
    }

    /// Reports whether `path` is in a place granted for `purpose`. True also if nothing exists there, or if the place was replaced
    /// by another one of its name: opening the path then reports the error.
    pub fn covers(&self, path: &Path, purpose: Purpose) -> bool {
        let Ok(place) = path.canonicalize().or_else(|_| parent(path).canonicalize()) else { return true };
        let fits = |grant: &Grant| grant.purpose == purpose || matches!(grant.purpose, Purpose::Create | Purpose::Make);
        let granted = |place: &Path, meta: &Metadata| {
            self.grants.iter().any(|grant| fits(grant) && (grant.identity == Identity::of(meta) || grant.path == place))
        };
        let keeps = |meta: &Metadata| {
            let identity = Identity::of(meta);
            self.grants.iter().any(|grant| grant.purpose == Purpose::Keep && grant.identity == identity)
        };
        let within = || place.ancestors().filter_map(|place| Some((place, fs::metadata(place).ok()?)));
        within().any(|(place, meta)| granted(place, &meta)) && !within().any(|(_, meta)| keeps(&meta))
    }

    /// Returns the places that were replaced since they were granted, under the same names.
    pub fn replaced(&self) -> impl Iterator<Item = &Grant> {
        let is_other =
            |grant: &&Grant| fs::metadata(&grant.path).is_ok_and(|meta| Identity::of(&meta) != grant.identity);
        self.grants.iter().filter(is_other)
    }

    /// Grants the directory of a file or a named pipe, which may be replaced while the switch runs, and that of a file's target if
    /// it is a link. Of anything else (a device, a pipe of another process), grants only that: the rest of its directory is no
    /// place for captures.
    fn file(&mut self, path: &Path, purpose: Purpose) {
        let is_pipe = fs::symlink_metadata(path).is_ok_and(|meta| meta.file_type().is_fifo());
        if !is_pipe && fs::metadata(path).is_ok_and(|meta| !meta.is_file()) {
            return self.grant(path, purpose);
        }
        self.grant(parent(path), purpose);
        if let Ok(target) = path.canonicalize() {
            self.grant(parent(&target), purpose);
        }
    }

    /// Grants a place if it exists; if not, opening it reports the error.
    fn grant(&mut self, path: &Path, purpose: Purpose) {
        let Some(identity) = Identity::at(path) else { return };
        if !self.grants.iter().any(|grant| grant.purpose == purpose && grant.identity == identity) {
            // The reader of this list may be in another working directory than the switch.
            let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
            self.grants.push(Grant { path, purpose, identity });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, Mode, mkfifoat};

    fn reach(directory: &Path, text: &str) -> Result<Reach, ReachError> {
        let file = directory.join("m.toml");
        let (config, _) = Config::parse(&file, text).unwrap_or_else(|report| panic!("{report}"));
        Reach::of(&config, &file)
    }

    #[test]
    fn each_path_is_granted_for_its_use_only() {
        let root = tempfile::tempdir().unwrap();
        for name in ["sockets/deep", "captures", "elsewhere", "extra"] {
            fs::create_dir_all(root.path().join(name)).unwrap();
        }
        let text = "port = [{name='a', driver='vhost-user', socket='sockets/a'},
                            {name='b', driver='vhost-user', socket='elsewhere/b', mode='client'},
                            {name='c', driver='sink', record-to='captures/c'}]
                    confinement.directories = ['extra']";
        let reach = reach(root.path(), text).unwrap();
        let covers = |path: &str, purpose| reach.covers(&root.path().join(path), purpose);
        for place in ["sockets/x", "sockets/deep/x", "captures/x", "extra/x"] {
            assert!(covers(place, Purpose::Create) && covers(place, Purpose::Read), "{place}");
        }
        assert!(!covers("elsewhere/x", Purpose::Create), "it only connects to what is there");
        assert!(covers("m.toml", Purpose::Read) && !covers("x", Purpose::Create));
        assert!(covers("nowhere/x", Purpose::Create), "opening it tells more");
    }

    #[test]
    fn no_path_of_a_port_leads_to_kept_parts() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("ports.d")).unwrap();
        let text = "control.ports = 'ports.d'\nconfinement.directories = ['.']";
        let reach = reach(root.path(), text).unwrap();
        for purpose in [Purpose::Create, Purpose::Listen, Purpose::Read] {
            assert!(reach.covers(&root.path().join("a"), purpose));
            assert!(!reach.covers(&root.path().join("ports.d/a"), purpose), "{purpose}");
        }
    }

    #[test]
    fn links_do_not_lead_out_and_names_do_not_matter() {
        let root = tempfile::tempdir().unwrap();
        let [inside, outside] = ["inside", "outside"].map(|name| root.path().join(name));
        for path in [&inside, &outside] {
            fs::create_dir(path).unwrap();
        }
        let reach = reach(&inside, "port = [{name='a', driver='pcap', record='a'}]").unwrap();
        std::os::unix::fs::symlink(&outside, inside.join("out")).unwrap();
        fs::write(outside.join("f"), "").unwrap();
        std::os::unix::fs::symlink(outside.join("f"), inside.join("f")).unwrap();
        std::os::unix::fs::symlink(&inside, outside.join("in")).unwrap();
        assert!(!reach.covers(&inside.join("out/a"), Purpose::Create));
        assert!(!reach.covers(&inside.join("f"), Purpose::Create));
        assert!(reach.covers(&outside.join("in/a"), Purpose::Create));
    }

    #[test]
    fn a_recreated_directory_is_another_one() {
        let root = tempfile::tempdir().unwrap();
        let captures = root.path().canonicalize().unwrap().join("captures");
        fs::create_dir(&captures).unwrap();
        let reach = reach(root.path(), "port = [{name='a', driver='pcap', record='captures/a'}]").unwrap();
        assert_eq!(reach.replaced().count(), 0);
        fs::rename(&captures, root.path().join("old")).unwrap();
        assert_eq!(reach.replaced().count(), 0, "it is gone");
        fs::create_dir(&captures).unwrap();
        let replaced: Vec<_> = reach.replaced().map(|grant| &grant.path).collect();
        assert_eq!(replaced, [&captures]);
        assert!(reach.covers(&captures.join("b"), Purpose::Create), "opening it tells more");
    }

    #[test]
    fn a_pipe_is_granted_with_its_directory() {
        let root = tempfile::tempdir().unwrap();
        let [pipes, other] = ["pipes", "other"].map(|name| root.path().join(name));
        for path in [&pipes, &other] {
            fs::create_dir(path).unwrap();
            mkfifoat(CWD, path.join("a"), Mode::RWXU).unwrap();
        }
        std::os::unix::fs::symlink(other.join("a"), pipes.join("b")).unwrap();
        let ports = "port = [{name='a', driver='pcap', record='pipes/a'}, {name='b', driver='pcap', record='pipes/b'}]";
        let reach = reach(root.path(), ports).unwrap();
        for path in [pipes.join("a"), pipes.join("new"), other.join("a")] {
            assert!(reach.covers(&path, Purpose::Create), "{}", path.display());
        }
        assert!(!reach.covers(&other.join("new"), Purpose::Create));
    }

    #[test]
    fn a_directory_that_is_granted_must_exist() {
        let root = tempfile::tempdir().unwrap();
        let error = reach(root.path(), "confinement.directories = ['nowhere']").unwrap_err().to_string();
        assert!(error.contains("/nowhere: ") && error.contains("create it"), "{error}");
    }
}
