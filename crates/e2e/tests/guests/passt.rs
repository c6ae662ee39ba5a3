//! passt as a vhost-user backend: a guest reaches the sockets of a host without a network.

use e2e::{Home, SOON, wait_for};
use lab::Result;
use lab::millrace::config::*;
use lab::netns::Namespace;
use lab::process::Daemon;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// Variable that names a directory with the files of another system: passt and its libraries are taken from there.
const ROOT: &str = "MILLRACE_PASST_ROOT";

/// The guest's addresses, those by which it reaches the host's loopback, and these.
const GUEST: [&str; 2] = ["10.9.9.2", "fd09::2"];
const GATEWAY: [&str; 2] = ["10.9.9.1", "fd09::1"];
const LOOPBACK: [&str; 2] = ["127.0.0.1", "::1"];

/// Port of the host at which passt takes connections for the guest.
const FORWARDED: u16 = 5001;

/// Bytes that go there and back at a time. passt drops what its socket does not take, and what comes after a gap, until its guest sends it
/// again after timeouts that double: with more, an end that is slow would make a test of minutes.
const PIECE: usize = 16 << 10;

/// How often.
const TIMES: usize = 64;

/// Bytes that the host sends at a time, which passt keeps until its guest has them: more than the ring holds.
const BYTES: usize = 2 << 20;

/// Returns passt of the directory that [`ROOT`] names, or else of this machine. That one may need a newer C library than this machine has.
fn passt() -> Command {
    let Some(root) = env::var_os(ROOT).map(PathBuf::from) else { return Command::new("passt") };
    let libraries = root.join(format!("usr/lib/{}-linux-gnu", env::consts::ARCH));
    let files = fs::read_dir(&libraries).unwrap_or_else(|e| panic!("{ROOT}: {}: {e}", libraries.display()));
    let loader = files.flatten().find(|file| file.file_name().to_string_lossy().starts_with("ld-linux"));
    let loader = loader.unwrap_or_else(|| panic!("{ROOT}: {} has no loader", libraries.display()));
    let mut command = Command::new(loader.path());
    command.arg("--library-path").arg(libraries).arg(root.join("usr/bin/passt"));
    command
}

/// Starts passt in the host's namespace, at this socket.
fn start(host: &Namespace, socket: &Path) -> Result<Daemon> {
    let mut command = passt();
    command.args(["--foreground", "--vhost-user", "--tcp-ports", &FORWARDED.to_string(), "--socket"]).arg(socket);
    for (guest, gateway) in GUEST.iter().zip(GATEWAY) {
        command.args(["--address", guest, "--gateway", gateway, "--map-host-loopback", gateway]);
    }
    let mut passt = Daemon::spawn("passt", host.wrap(&command))?;
    passt.wait_for_line("its socket", SOON, |line| line.contains("socket bound"))?;
    Ok(passt)
}

/// A place of a socket: the namespace, an address there, and a port.
type Place<'n> = (&'n Namespace, &'static str, u16);

fn address((_, address, port): Place<'_>) -> SocketAddr {
    SocketAddr::new(address.parse().expect("an address"), port)
}

/// Listens at a place, and connects from a namespace to an address that leads there, if its port is 0, by the listener's own. Returns both
/// ends.
fn connect(listens: Place<'_>, to: Place<'_>) -> Result<[TcpStream; 2]> {
    let listener = listens.0.within(|| TcpListener::bind(address(listens)))?.expect("a socket that listens");
    listener.set_nonblocking(true).expect("a listener");
    let mut to_address = address(to);
    if to.2 == 0 {
        to_address.set_port(listener.local_addr().expect("an address").port());
    }
    let near = to.0.within(|| TcpStream::connect(to_address))?.unwrap_or_else(|e| panic!("{to_address}: {e}"));
    let (far, _) = wait_for("the connection at the other end", || listener.accept().ok());
    far.set_nonblocking(false).expect("a connection");
    for end in [&near, &far] {
        end.set_read_timeout(Some(SOON)).and_then(|()| end.set_write_timeout(Some(SOON))).expect("a time limit");
    }
    Ok([near, far])
}

/// Sends bytes from one end to the other, and compares them.
fn send(mut from: &TcpStream, mut to: &TcpStream, bytes: &[u8]) {
    let mut arrived = vec![0; bytes.len()];
    std::thread::scope(|scope| {
        scope.spawn(move || from.write_all(bytes).expect("all is sent"));
        to.read_exact(&mut arrived).expect("all arrives");
    });
    assert!(arrived == bytes, "other bytes arrived");
}

/// Sends bytes both ways in turn, and then many from the host.
fn exchange(host: &TcpStream, guest: &TcpStream) {
    let bytes: Vec<u8> = (0..BYTES as u32 / 4).flat_map(|word| word.wrapping_mul(0x9e37_79b9).to_le_bytes()).collect();
    for piece in bytes.chunks(PIECE).take(TIMES) {
        send(guest, host, piece);
        send(host, guest, piece);
    }
    send(host, guest, &bytes);
}

/// passt computes no checksums of TCP: it says that frames are valid, and the switch computes them for a guest that checks.
#[test]
#[ignore = "needs a newer passt than that of Debian 12: `cargo xtask verify --only passt-current` runs it"]
fn a_guest_and_a_host_connect_through_passt() -> Result<()> {
    let (host, guest, home) = (Namespace::create()?, Namespace::create()?, Home::new());
    // passt listens as the user nobody.
    let directory = home.path("passt");
    fs::create_dir(&directory).expect("a directory");
    for (path, mode) in [(home.path(""), 0o711), (directory.clone(), 0o777)] {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("its permissions");
    }
    let socket = directory.join("socket");
    let _passt = start(&host, &socket)?;
    let ports = (virtio_user("net", &socket), tap("guest", "tap0"), patch("net", "guest"));
    let millrace = home.start_inside(&guest, (ports, sleeper()));
    let ip = |arguments: &[&str]| guest.run("ip", arguments);
    ip(&["address", "add", &format!("{}/24", GUEST[0]), "dev", "tap0"])?;
    ip(&["address", "add", &format!("{}/64", GUEST[1]), "dev", "tap0", "nodad"])?;
    ip(&["link", "set", "tap0", "up"])?;
    millrace.wait_up(&["net", "guest"]);
    for family in 0..2 {
        let there = LOOPBACK[family];
        let [near, far] = connect((&host, there, 0), (&guest, GATEWAY[family], 0))?;
        exchange(&far, &near);
        let [near, far] = connect((&guest, GUEST[family], FORWARDED), (&host, there, FORWARDED))?;
        exchange(&near, &far);
    }
    millrace.stop();
    Ok(())
}
