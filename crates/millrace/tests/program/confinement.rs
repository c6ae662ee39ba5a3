//! Confinement of a running switch, as reported by the kernel. These tests need root, a kernel with seccomp and landlock,
//! `unshare` (util-linux) and `ip` (iproute2).

use super::{ctl, end, files, start, start_by, text};
use api::confinement::Confined;
use lab::millrace::{Millrace, Start};
use rustix::fs::{Uid, chown};
use rustix::process::Signal;
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;

/// CAP_DAC_OVERRIDE, CAP_NET_ADMIN, CAP_NET_RAW, CAP_IPC_LOCK and CAP_BPF (linux/capability.h).
const KEPT: u64 = 1 << 1 | 1 << 12 | 1 << 13 | 1 << 14 | 1 << 39;
/// CAP_DAC_OVERRIDE.
const ROOTS: u64 = 1 << 1;

const ONE: &str = "port = [{name='a', driver='vhost-user', socket='a.sock'}, {name='s', driver='sink'}]
patch = [{ports=['a', 's']}]
metrics.listen = 'unix:m.sock'";

pub(super) fn require_root() {
    assert!(rustix::process::geteuid().is_root(), "this test needs root: privileges are what it looks at");
}

/// Reads one line of /proc/PID/task/TID/status of all threads, of which there must be at least `least`.
fn of_threads(switch: &Millrace, key: &str, least: usize) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{}/task", switch.daemon.pid())).unwrap();
    // A thread that served a connection may end in between.
    let statuses = tasks.filter_map(|task| fs::read_to_string(task.unwrap().path().join("status")).ok());
    let values: Vec<String> = statuses
        .map(|status| {
            let line = status.lines().find_map(|line| line.strip_prefix(&format!("{key}:")));
            line.unwrap_or_else(|| panic!("no {key} in {status}")).trim().to_owned()
        })
        .collect();
    assert!(values.len() >= least, "{} threads", values.len());
    values
}

fn capabilities(switch: &Millrace, set: &str) -> Vec<u64> {
    of_threads(switch, set, 4).iter().map(|value| u64::from_str_radix(value, 16).unwrap()).collect()
}

/// Checks that all threads are confined, and have no capabilities but `kept`.
fn assert_confined(switch: &Millrace, kept: u64) {
    for (key, expected) in [("NoNewPrivs", "1"), ("Seccomp", "2"), ("CapInh", "0000000000000000")] {
        assert!(of_threads(switch, key, 4).iter().all(|value| value == expected), "{key}");
    }
    let own = fs::read_to_string("/proc/self/status").unwrap();
    let own = own.lines().find_map(|line| line.strip_prefix("CapPrm:")).unwrap().trim();
    let own = u64::from_str_radix(own, 16).unwrap();
    for set in ["CapEff", "CapPrm", "CapBnd"] {
        let values = capabilities(switch, set);
        assert!(values.iter().all(|&value| value == own & kept), "{set}: {values:x?} is not {:x}", own & kept);
    }
}

fn reload(switch: &Millrace, directory: &Path, configuration: &str) -> Result<String, String> {
    files(directory).configure(configuration).unwrap();
    let output = ctl(switch, &["reload"]);
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

fn confined(switch: &Millrace) -> Confined {
    serde_json::from_slice(&ctl(switch, &["confinement", "--json"]).stdout).unwrap()
}

#[test]
fn all_threads_are_confined_and_so_are_those_of_a_reload() {
    require_root();
    let directory = tempfile::tempdir().unwrap();
    let mut switch = start(directory.path(), ONE);
    assert_confined(&switch, KEPT);
    let state = confined(&switch);
    assert!(state.landlock.active && state.seccomp.active && state.enabled && state.no_new_privs, "{state:?}");
    let shown = text(&ctl(&switch, &["confinement"]).stdout);
    assert!(shown.contains("CAP_NET_RAW") && shown.contains("create sockets"), "{shown}");

    let more =
        ONE.replace("{name='s'", "{name='b', driver='vhost-user', socket='b.sock', record-to='b.pcap'}, {name='s'");
    let report = reload(&switch, directory.path(), &more).unwrap();
    assert!(report.starts_with("added port b\n") && !report.contains("cannot"), "{report}");
    let _guest = UnixStream::connect(directory.path().join("b.sock")).unwrap();
    assert!(directory.path().join("b.pcap").exists());
    assert_confined(&switch, KEPT);

    switch.wait_said(0, "confined: user root, CAP_").unwrap();
    assert_eq!(end(&mut switch, Signal::TERM), 0);
    for socket in ["a.sock", "b.sock", "c.sock", "m.sock"] {
        assert!(!directory.path().join(socket).exists(), "{socket} is left behind");
    }
}

#[test]
fn names_of_owners_are_known_at_a_reload() {
    require_root();
    let directory = tempfile::tempdir().unwrap();
    let owned = ONE.replace("socket='a.sock'", "socket='a.sock', socket-owner='root', socket-group='daemon'");
    let switch = start(directory.path(), &owned);
    let more = owned.replace("{name='s'", "{name='t', driver='sink'}, {name='s'");
    let report = reload(&switch, directory.path(), &more).unwrap();
    assert!(report.starts_with("added port t\n"), "{report}");
    // The port is reopened with the same socket.
    let report = reload(&switch, directory.path(), &owned.replace("'a.sock'", "'a.sock', queues=2")).unwrap();
    assert!(report.contains("reopened port a "), "{report}");
    // The socket of an added port cannot be given away any more: the port stays closed, and everything else goes on.
    let new = "{name='n', driver='vhost-user', socket='n.sock', socket-group='daemon'}, {name='s'";
    for _ in 0..2 {
        reload(&switch, directory.path(), &owned.replace("{name='s'", new)).unwrap_err();
        let ports = text(&ctl(&switch, &["ports"]).stdout);
        assert!(ports.contains("cannot give") && ports.contains("n.sock"), "{ports}");
        assert!(!directory.path().join("n.sock").exists(), "it would belong to the wrong group");
    }
    reload(&switch, directory.path(), &owned).unwrap();
    // The files needed to look up other names are no longer accessible.
    let error = reload(&switch, directory.path(), &owned.replace("'daemon'", "'games'")).unwrap_err();
    assert!(error.contains("`games`") && error.contains("number"), "{error}");
    let owner = fs::metadata(directory.path().join("a.sock")).unwrap();
    assert_eq!((owner.uid(), owner.gid()), (0, 1), "root and daemon");
}

#[test]
fn a_path_elsewhere_is_refused_by_name_and_granted_by_the_configuration() {
    require_root();
    let [here, elsewhere] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let away = elsewhere.path().display();
    let cases = [
        (format!("driver='vhost-user', socket='{away}/b.sock'"), "create and remove sockets"),
        (format!("driver='pcap', record='{away}/b.pcap'"), "create sockets and capture files"),
        (format!("driver='pcap', replay='{away}/b.pcap'"), "read files"),
    ];
    let with = |options: &str| ONE.replace("{name='s'", &format!("{{name='b', {options}}}, {{name='s'"));
    let switch = start(here.path(), ONE);
    for (options, what) in &cases {
        let error = reload(&switch, here.path(), &with(options)).unwrap_err();
        let expected = format!("the confinement of the running switch forbids it to {what} in {away}");
        assert!(error.contains(&expected) && error.contains("m.toml:1:"), "{error}");
        assert!(error.contains("`directories` of [confinement]"), "{error}");
    }
    assert!(!text(&ctl(&switch, &["ports"]).stdout).contains("\nb "), "a refused reload changes nothing");
    let report = reload(&switch, here.path(), &format!("{ONE}\nconfinement.enabled = false")).unwrap();
    assert!(report.contains("[confinement] changed, which takes effect when the switch is started again"), "{report}");
    drop(switch);

    fs::remove_file(here.path().join("c.sock")).unwrap();
    let granted = format!("\nconfinement.directories = ['{away}']");
    let switch = start(here.path(), &format!("{ONE}{granted}"));
    for (options, _) in &cases[..2] {
        let report = reload(&switch, here.path(), &format!("{}{granted}", with(options))).unwrap();
        assert!(!report.contains("FAILED"), "{report}");
    }
    assert!(elsewhere.path().join("b.pcap").exists());
}

#[test]
fn a_recreated_directory_is_distinguished_from_the_old_one() {
    require_root();
    let [root, elsewhere] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let guests = elsewhere.path().canonicalize().unwrap().join("guests");
    let sockets = guests.display();
    fs::create_dir(&guests).unwrap();
    // Keep the old directory open, so that its inode number is not reused.
    let _kept = fs::File::open(&guests).unwrap();
    let switch = start(root.path(), &ONE.replace("a.sock", &format!("{sockets}/a.sock")));
    fs::remove_dir_all(&guests).unwrap();
    fs::create_dir(&guests).unwrap();
    // Everything else is done: the port that lost its socket and a new one can't be reached until the switch is started again.
    let more = format!(
        "{{name='b', driver='vhost-user', socket='{sockets}/b.sock'}}, {{name='t', driver='sink'}}, {{name='s'"
    );
    let more = ONE.replace("a.sock", &format!("{sockets}/a.sock")).replace("{name='s'", &more);
    files(root.path()).configure(&more).unwrap();
    let output = ctl(&switch, &["reload"]);
    let report = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{report}");
    for (port, step) in [("a", "changed port a (socket), which FAILED"), ("b", "added port b, which FAILED")] {
        let line = report.lines().find(|line| line.starts_with(step)).unwrap_or_else(|| panic!("{report}"));
        assert!(line.contains(&format!("{sockets}/{port}.sock: Permission denied")), "{line}");
    }
    assert!(report.contains("added port t\n"), "{report}");
    let warning = format!("warning: {sockets} was removed and recreated");
    assert!(report.contains(&warning) && report.contains("when it is started again"), "{report}");
}

#[test]
fn a_configuration_behind_links_can_be_exchanged() {
    require_root();
    let [root, elsewhere] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let control = root.path().join("c.sock");
    // The sockets' directory grants nothing beside it.
    let text_of =
        |name: &str| format!("port = [{{name='{name}', driver='sink'}}]\ncontrol.socket = '{}'", control.display());
    let deploy = |release: &Path, name: &str| {
        fs::create_dir_all(release).unwrap();
        fs::write(release.join("m.toml"), text_of(name)).unwrap();
        let new = root.path().join("new");
        symlink(release, &new).unwrap();
        fs::rename(new, root.path().join("current")).unwrap();
    };
    // Beside the directory that is named, so that only the link grants it.
    let releases = elsewhere.path().join("releases");
    deploy(&releases.join("1"), "one");
    let files = lab::millrace::Files { configuration: root.path().join("current/m.toml"), control: control.clone() };
    let mut switch = Start::new(Path::new(env!("CARGO_BIN_EXE_millrace"))).start(files).unwrap();
    assert!(confined(&switch).landlock.active);
    deploy(&releases.join("2"), "two");
    let report = text(&ctl(&switch, &["reload"]).stdout);
    assert!(report.starts_with("added port two\nremoved port one\n"), "{report}");

    let away = elsewhere.path().canonicalize().unwrap().join("away/3");
    deploy(&away, "three");
    let refused = ctl(&switch, &["reload"]);
    let said = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{said}");
    for word in [&away.display().to_string(), "confined to read in", &releases.display().to_string(), "`directories`"] {
        assert!(said.contains(word), "{word} in {said}");
    }
    assert_eq!(end(&mut switch, Signal::TERM), 0);
}

#[test]
fn a_configuration_from_a_pipe_is_confined_and_read_once() {
    require_root();
    let directory = tempfile::tempdir().unwrap();
    let program = env!("CARGO_BIN_EXE_millrace");
    let mut piped = Command::new("bash");
    piped.args(["-c", "exec \"$0\" run --config <(cat \"$3\")", program]);
    // A capture that leaves by a pipe needs no place either.
    let capture = "{name='r', driver='pcap', record='/dev/stdout'}, {name='s'";
    let absolute = |name: &str| directory.path().join(name).display().to_string();
    let one = ONE.replace("a.sock", &absolute("a.sock")).replace("m.sock", &absolute("m.sock"));
    let mut switch =
        start_by(Start::new(program.as_ref()).by(piped), directory.path(), &one.replace("{name='s'", capture));
    let state = confined(&switch);
    assert!(state.landlock.active, "{state:?}");
    assert!(state.places.iter().all(|place| !place.path.starts_with("/dev/fd")), "{state:?}");
    let ports = text(&ctl(&switch, &["ports"]).stdout);
    assert!(ports.lines().any(|line| line.starts_with(" r ") && line.contains(" up ")), "{ports}");
    fs::remove_file(directory.path().join("c.sock")).unwrap();
    let mark = switch.daemon.log().mark();
    switch.daemon.signal(Signal::HUP).unwrap();
    switch.wait_said(mark, "which is not a file and cannot be read again: start the switch with a file").unwrap();
    assert_eq!(text(&ctl(&switch, &["ports"]).stdout), ports);
    assert_eq!(ctl(&switch, &["reload"]).status.code(), Some(1));
    assert_eq!(end(&mut switch, Signal::TERM), 0);
}

#[test]
fn sockets_come_back_under_confinement() {
    require_root();
    let directory = tempfile::tempdir().unwrap();
    let mut switch = start(directory.path(), &format!("{ONE}\nopenflow.listen = ['unix:o.sock']"));
    let sockets = ["a.sock", "c.sock", "m.sock", "o.sock"].map(|name| directory.path().join(name));
    let modes = || sockets.each_ref().map(|path| fs::metadata(path).map(|meta| meta.mode() & 0o777).ok());
    let before = modes();
    assert_eq!(before[1..], [Some(0o600); 3]);
    sockets.iter().for_each(|path| fs::remove_file(path).unwrap());
    // Its configuration cannot be read at the moment, so that nothing else changes.
    let configuration = fs::read(directory.path().join("m.toml")).unwrap();
    fs::write(directory.path().join("m.toml"), "port = 1").unwrap();
    let mark = switch.daemon.log().mark();
    switch.daemon.signal(Signal::HUP).unwrap();
    switch.wait_said(mark, "not reloaded, nothing changed").unwrap();
    assert_eq!(modes()[1..], before[1..]);
    fs::write(directory.path().join("m.toml"), configuration).unwrap();
    let report = text(&ctl(&switch, &["reload"]).stdout);
    assert!(report.starts_with("changed port a (socket made again)\n"), "{report}");
    assert_eq!(modes(), before);
    for path in &sockets {
        UnixStream::connect(path).unwrap();
    }
    let log = switch.daemon.log().since(mark);
    for path in &sockets[1..] {
        let line = format!("recreated socket {}, which was gone", path.display());
        assert_eq!(log.iter().filter(|said| said.contains(&line)).count(), 1, "{log:?}");
    }
    let again = text(&ctl(&switch, &["reload"]).stdout);
    assert!(again.starts_with("nothing changed\n"), "{again}");
    assert_eq!(end(&mut switch, Signal::TERM), 0);
    assert!(sockets.iter().all(|path| !path.exists()));
}

#[test]
fn taps_and_packet_sockets_come_with_a_reload() {
    require_root();
    let directory = tempfile::tempdir().unwrap();
    // A separate network namespace, which ends with the process.
    let mut unshare = Command::new("unshare");
    // The loopback interface's default MTU exceeds what the rings of a packet socket take.
    let script = "ip link set lo mtu 1500 && exec \"$0\" \"$@\"";
    let program = env!("CARGO_BIN_EXE_millrace");
    unshare.args(["--net", "--", "sh", "-c", script, program]);
    let switch = start_by(Start::new(program.as_ref()).by(unshare), directory.path(), ONE);
    let more = "{name='t', driver='tap', queues=2}, {name='p', driver='af_packet', interface='lo'}, {name='s'";
    let report = reload(&switch, directory.path(), &ONE.replace("{name='s'", more)).unwrap();
    assert!(report.starts_with("added port t\nadded port p\n"), "{report}");
    let ports: serde_json::Value = serde_json::from_slice(&ctl(&switch, &["ports", "--json"]).stdout).unwrap();
    let up = |name: &str| ports.as_array().unwrap().iter().any(|port| port["name"] == name && port["up"] == true);
    assert!(up("t") && up("p"), "{ports}");
    assert_confined(&switch, KEPT);
}

#[test]
fn another_user_has_less() {
    require_root();
    let directory = tempfile::tempdir().unwrap();
    let nobody = fs::read_to_string("/etc/passwd").unwrap();
    let nobody = nobody.lines().find_map(|line| line.strip_prefix("nobody:")).expect("there is a user nobody");
    let uid: u32 = nobody.split(':').nth(1).unwrap().parse().unwrap();
    chown(directory.path(), Some(Uid::from_raw(uid)), None).unwrap();
    let mut switch = start(directory.path(), &format!("{ONE}\nconfinement.user = 'nobody'"));
    assert_confined(&switch, KEPT & !ROOTS);
    let expected = [uid; 4].map(|uid| uid.to_string()).join("\t");
    assert!(of_threads(&switch, "Uid", 4).iter().all(|value| *value == expected));
    assert_eq!(confined(&switch).user, "nobody");
    assert_eq!(fs::metadata(directory.path().join("a.sock")).unwrap().uid(), uid);
    assert_eq!(end(&mut switch, Signal::TERM), 0);
    assert!(!directory.path().join("a.sock").exists() && !directory.path().join("c.sock").exists());

    let files = files(directory.path());
    files.configure("confinement.user = 'no-such-user'").unwrap();
    let refused = super::millrace(&["run", "--config", files.configuration.to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("there is no such user"), "{refused:?}");
}

#[test]
fn without_confinement_nothing_is_restricted() {
    require_root();
    let [here, elsewhere] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let away = elsewhere.path().display();
    let off = format!("{ONE}\nconfinement.enabled = false");
    let switch = start(here.path(), &off);
    assert!(of_threads(&switch, "Seccomp", 4).iter().all(|value| value == "0"));
    let own = fs::read_to_string("/proc/self/status").unwrap();
    let own = own.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap().trim();
    assert!(of_threads(&switch, "CapEff", 4).iter().all(|value| value == own));
    let state = confined(&switch);
    assert!(!state.enabled && !state.landlock.active && !state.seccomp.active, "{state:?}");
    let more = format!("{{name='b', driver='vhost-user', socket='{away}/b.sock'}}, {{name='s'");
    let report = reload(&switch, here.path(), &off.replace("{name='s'", &more)).unwrap();
    assert!(report.starts_with("added port b\n"), "{report}");
    UnixStream::connect(elsewhere.path().join("b.sock")).unwrap();
}
