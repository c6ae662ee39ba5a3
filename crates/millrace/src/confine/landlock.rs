//! File access (landlock(7)), restricted to the places that the configuration needs.

use crate::config::{Purpose, Reach};
use api::confinement::Layer;
use landlock::{
    ABI, Access, AccessFs, AccessNet, AddRuleError, AddRulesError, BitFlags, LandlockStatus, NetPort,
    RestrictionStatus, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
    path_beneath_rules,
};
use rustix::io::Errno;

/// Landlock version requested; the kernel enforces the restrictions that it knows. All of them apply unless a rule allows the
/// access, so check what a newer version takes away before raising this.
const VERSION: ABI = ABI::V6;

/// Places that any switch may need besides those of its configuration, each with its use.
pub(super) const SYSTEM: [(&str, &str); 6] = [
    ("/dev/net/tun", "create taps"),
    ("/sys/class/net", "look at interfaces"),
    // The links of /sys/class/net point here.
    ("/sys/devices", "look at interfaces"),
    // For programs of XDP, which an interface that comes later also needs.
    ("/sys/kernel/btf", "look up functions of the kernel"),
    ("/proc/self", "look at itself"),
    ("/proc/locks", "see who has a capture file open"),
];

/// Restricts this thread to the places in `reach`.
pub(super) fn restrict(reach: &Reach) -> Layer {
    match try_restrict(reach) {
        Ok(RestrictionStatus { ruleset: RulesetStatus::FullyEnforced, .. }) => {
            Layer::active("files, devices, programs, TCP and signals")
        }
        Ok(RestrictionStatus {
            ruleset: RulesetStatus::PartiallyEnforced,
            landlock: LandlockStatus::Available { effective_abi, .. },
            ..
        }) => Layer::active(format!(
            "in part: the kernel's version of landlock is {effective_abi}, and version {VERSION} knows all of it"
        )),
        Ok(RestrictionStatus { landlock: LandlockStatus::NotEnabled, .. }) => {
            Layer::absent("it was not enabled when the kernel was booted (parameter `lsm=`)")
        }
        Ok(_) => Layer::absent("the kernel does not offer it"),
        Err(error) => Layer::absent(error),
    }
}

fn try_restrict(reach: &Reach) -> Result<RestrictionStatus, RulesetError> {
    // Execution, device nodes, directories, links and renames between directories are denied without exception.
    let mut rules = Ruleset::default()
        .handle_access(AccessFs::from_all(VERSION))?
        // The permitted TCP sockets, for metrics and OpenFlow, listen already or connect to controllers.
        .handle_access(AccessNet::from_all(VERSION))?
        .scope(Scope::from_all(VERSION))?
        .create()?;
    for grant in reach.grants() {
        match (&mut rules).add_rules(path_beneath_rules([&grant.path], rights(grant.purpose))) {
            // Pipes and similar objects are in no mounted file system: no rule can name them, and none is needed.
            Err(RulesetError::AddRules(AddRulesError::Fs(AddRuleError::AddRuleCall { source, .. })))
                if source.raw_os_error() == Some(Errno::BADFD.raw_os_error()) => {}
            added => drop(added?),
        }
    }
    for port in reach.controllers() {
        rules = rules.add_rule(NetPort::new(*port, AccessNet::ConnectTcp))?;
    }
    for (path, _) in SYSTEM {
        let device = rights(Purpose::Device);
        let rights = if path.starts_with("/dev/") { device } else { rights(Purpose::Look) };
        rules = rules.add_rules(path_beneath_rules([path], rights))?;
    }
    rules.restrict_self()
}

fn rights(purpose: Purpose) -> BitFlags<AccessFs> {
    match purpose {
        Purpose::Create => {
            let sockets = AccessFs::MakeSock | AccessFs::RemoveFile;
            sockets | AccessFs::MakeReg | AccessFs::WriteFile | AccessFs::Truncate | AccessFs::ReadFile
        }
        Purpose::Make => rights(Purpose::Create) | AccessFs::MakeDir,
        // Sockets of the services, which a reload recreates when other processes have removed them.
        Purpose::Listen => AccessFs::MakeSock | AccessFs::RemoveFile,
        Purpose::Keep => AccessFs::MakeReg | AccessFs::WriteFile | AccessFs::ReadFile | AccessFs::RemoveFile,
        Purpose::Read => AccessFs::ReadFile.into(),
        Purpose::Device => AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::IoctlDev,
        Purpose::Look => AccessFs::ReadFile | AccessFs::ReadDir,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use std::fs::{self, File};
    use std::io::ErrorKind::PermissionDenied;
    use std::net::TcpListener;
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::path::Path;

    const PORTS: &str = "port = [{name='a', driver='vhost-user', socket='sockets/a'},
                                 {name='b', driver='pcap', record='captures/b', replay='replays/b'}]";

    /// Runs `check` on a thread confined to the places that a configuration in `root` needs. (A landlock domain is per thread.)
    fn confined(root: &Path, check: impl FnOnce(&Path) + Send) {
        for name in ["sockets", "captures", "replays", "elsewhere"] {
            fs::create_dir(root.join(name)).unwrap();
            fs::write(root.join(name).join("old"), "").unwrap();
        }
        let file = root.join("m.toml");
        let (config, _) = Config::parse(&file, PORTS).unwrap_or_else(|report| panic!("{report}"));
        let reach = Reach::of(&config, &file).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let layer = restrict(&reach);
                assert!(layer.active, "this test needs a kernel with landlock: {}", layer.detail);
                check(root);
            });
        });
    }

    #[test]
    fn paths_serve_their_purpose_and_no_other() {
        let root = tempfile::tempdir().unwrap();
        confined(root.path(), |root| {
            let denied = |error: std::io::Error| error.kind() == PermissionDenied;
            let socket = root.join("sockets/a");
            drop(UnixListener::bind(&socket).unwrap());
            fs::remove_file(&socket).unwrap();
            File::create(root.join("captures/new")).unwrap();
            File::create(root.join("captures/old")).unwrap();
            assert!(fs::create_dir(root.join("captures/d")).is_err_and(denied));
            for place in ["replays", "elsewhere"] {
                assert!(UnixListener::bind(root.join(place).join("s")).is_err_and(denied));
                assert!(File::create(root.join(place).join("new")).is_err_and(denied));
                assert!(File::create(root.join(place).join("old")).is_err_and(denied));
                assert!(fs::remove_file(root.join(place).join("old")).is_err_and(denied));
            }

            File::open(root.join("replays/old")).unwrap();
            assert!(File::open("/etc/passwd").is_err_and(denied));
            assert!(fs::read_dir("/").is_err_and(denied));
        });
    }

    #[test]
    fn a_kernel_without_landlock_differs_from_one_with_landlock_off() {
        use seccompiler::{SeccompAction, SeccompFilter, apply_filter};
        for (errno, expected) in [(libc::ENOSYS, "does not offer it"), (libc::EOPNOTSUPP, "was not enabled")] {
            let without = move || {
                let calls = [(libc::SYS_landlock_create_ruleset, Vec::new())].into();
                let (allow, refuse) = (SeccompAction::Allow, SeccompAction::Errno(errno as u32));
                let architecture = std::env::consts::ARCH.try_into().unwrap();
                let filter = SeccompFilter::new(calls, allow, refuse, architecture).unwrap();
                apply_filter(&seccompiler::BpfProgram::try_from(filter).unwrap()).unwrap();
                restrict(&Reach::default())
            };
            let layer = std::thread::spawn(without).join().unwrap();
            assert!(!layer.active && layer.detail.contains(expected), "{layer:?}");
        }
    }

    #[test]
    fn system_files_that_ports_need_stay_accessible() {
        let root = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(root.path().join("guest")).unwrap();
        confined(root.path(), |root| {
            UnixStream::connect(root.join("guest")).expect("connecting needs no directory");
            drop(listener);
            fs::read_to_string("/sys/class/net/lo/mtu").unwrap();
            fs::read_to_string("/proc/self/status").unwrap();
            assert!(TcpListener::bind("127.0.0.1:0").is_err_and(|error| error.kind() == PermissionDenied));
            let run = std::process::Command::new("/bin/true").status();
            assert!(run.is_err_and(|error| error.kind() == PermissionDenied));
        });
    }
}
