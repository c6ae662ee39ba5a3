//! passt as a vhost-user backend: a guest reaches the sockets of a host without a network.

use e2e::{Home, SOON, wait_for};
use lab::Result;
use lab::millrace::config::*;
use lab::netns::Namespace;
use lab::process::Daemon;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
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

/// Bytes to send there and back: many frames, and many times what a window holds.
const BYTES: usize = 8 << 20;

/// Returns passt of `root`, which may need a newer C library than this machine has, or that of this machine.
fn passt(root: Option<PathBuf>) -> Result<Command, Box<dyn std::error::Error>> {
    let Some(root) = root else { return Ok(Command::new("passt")) };
    let libraries = root.join(format!("usr/lib/{}-linux-gnu", env::consts::ARCH));
    let files = fs::read_dir(&libraries).map_err(|e| format!("{}: {e}", libraries.display()))?;
    let loader = files.flatten().find(|file| file.file_name().to_string_lossy().starts_with("ld-linux"));
    let mut command = Command::new(loader.ok_or_else(|| format!("no loader in {}", libraries.display()))?.path());
    command.arg("--library-path").arg(libraries).arg(root.join("usr/bin/passt"));
    Ok(command)
}

/// Starts passt in the host's namespace, at this socket.
fn start(host: &Namespace, socket: &Path) -> Result<Daemon> {
    let mut command = passt(env::var_os(ROOT).map(PathBuf::from)).unwrap_or_else(|error| panic!("{ROOT}: {error}"));
    command.args(["--foreground", "--vhost-user", "--tcp-ports", &FORWARDED.to_string(), "--socket"]).arg(socket);
    for (guest, gateway) in GUEST.iter().zip(GATEWAY) {
        command.args(["--address", guest, "--gateway", gateway, "--map-host-loopback", gateway]);
    }
    let mut passt = Daemon::spawn("passt", host.wrap(&command))?;
    passt.wait_for_line("its socket", SOON, |line| line.contains("socket bound"))?;
    Ok(passt)
}

/// Connects one namespace to a socket of another, sends bytes, and gets them back.
fn echoed([from, listens, to]: [(&Namespace, &str, u16); 3]) -> Result<()> {
    let address = |(_, address, port): (_, &str, u16)| SocketAddr::new(address.parse().expect("an address"), port);
    let listener = listens.0.within(|| TcpListener::bind(address(listens)))?.expect("a socket that listens");
    listener.set_nonblocking(true).expect("a listener");
    let port = if to.2 == 0 { listener.local_addr().expect("an address").port() } else { to.2 };
    let to = (to.0, to.1, port);
    let near = from.0.within(|| TcpStream::connect(address(to)))?.unwrap_or_else(|e| panic!("{}: {e}", address(to)));
    let (far, _) = wait_for("the connection at the other end", || listener.accept().ok());
    far.set_nonblocking(false).expect("a connection");
    for end in [&near, &far] {
        end.set_read_timeout(Some(SOON)).and_then(|()| end.set_write_timeout(Some(SOON))).expect("a time limit");
    }
    let sent: Vec<u8> = (0..BYTES as u32 / 4).flat_map(|word| word.wrapping_mul(0x9e37_79b9).to_le_bytes()).collect();
    let mut back = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::io::copy(&mut &far, &mut &far).and_then(|_| far.shutdown(Shutdown::Write)).expect("an echo")
        });
        scope.spawn(|| (&near).write_all(&sent).and_then(|()| near.shutdown(Shutdown::Write)).expect("all is sent"));
        (&near).read_to_end(&mut back).expect("all comes back");
    });
    assert!(back == sent, "{} of {BYTES} bytes came back, or others", back.len());
    Ok(())
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
        echoed([(&guest, GUEST[family], 0), (&host, there, 0), (&host, GATEWAY[family], 0)])?;
        echoed([(&host, there, 0), (&guest, GUEST[family], FORWARDED), (&host, there, FORWARDED)])?;
    }
    millrace.stop();
    Ok(())
}
