//! A minimal switch behind real sockets, in place of the program's threads and sockets.

use openflow::{Identity, Millis, Port, PortStats, Switch};
use packet::MacAddr;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A switch with two ports, on a TCP and a unix socket, both closed on drop.
pub struct Server {
    pub switch: Arc<Mutex<Switch>>,
    pub tcp: String,
    pub unix: String,
    socket: PathBuf,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    start: Instant,
}

trait Stream: Read + Write + Send {
    fn prepare(&self);
}

impl Stream for std::net::TcpStream {
    fn prepare(&self) {
        self.set_nonblocking(false).unwrap();
        self.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
    }
}

impl Stream for std::os::unix::net::UnixStream {
    fn prepare(&self) {
        self.set_nonblocking(false).unwrap();
        self.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
    }
}

fn serve(mut stream: impl Stream, switch: &Mutex<Switch>, stop: &AtomicBool, start: Instant) {
    stream.prepare();
    let id = switch.lock().unwrap().connect();
    let mut buffer = [0; 4096];
    let mut open = true;
    while open && !stop.load(Ordering::Relaxed) {
        match stream.read(&mut buffer) {
            Ok(0) => open = false,
            Ok(len) => {
                let now = start.elapsed().as_millis() as Millis;
                open = switch.lock().unwrap().receive(id, &buffer[..len], now).is_ok();
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(_) => open = false,
        }
        loop {
            let output = std::mem::take(switch.lock().unwrap().output(id).unwrap());
            open &= stream.write_all(&output).is_ok();
            let mut switch = switch.lock().unwrap();
            if !open || !switch.is_busy(id) {
                break;
            }
            open = switch.receive(id, &[], start.elapsed().as_millis() as Millis).is_ok();
        }
    }
    switch.lock().unwrap().disconnect(id);
}

impl Server {
    pub fn start() -> Server {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let identity = Identity {
            datapath_id: 0x1122,
            manufacturer: "Millrace".into(),
            hardware: "software".into(),
            software: "test".into(),
            serial: "1".into(),
            datapath: "under test".into(),
        };
        let mut switch = Switch::new(identity, 5000, 4096);
        for number in 1..=2 {
            let port = Port {
                number,
                mac: MacAddr([2, 0, 0, 0, 0, number as u8]),
                name: format!("p{number}"),
                up: true,
                speed: 10_000_000,
                configurable: true,
            };
            switch.set_port(port, 0);
        }
        switch.set_port_stats(1, PortStats { rx_packets: 11, rx_bytes: 1100, tx_packets: 12, ..PortStats::default() });
        let switch = Arc::new(Mutex::new(switch));
        let stop = Arc::new(AtomicBool::new(false));
        let start = Instant::now();
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let socket = std::env::temp_dir().join(format!("openflow-{}-{number}.sock", std::process::id()));
        let _ = std::fs::remove_file(&socket);
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let unix = UnixListener::bind(&socket).unwrap();
        tcp.set_nonblocking(true).unwrap();
        unix.set_nonblocking(true).unwrap();
        let address = tcp.local_addr().unwrap();
        let acceptor = {
            let (switch, stop) = (switch.clone(), stop.clone());
            std::thread::spawn(move || {
                std::thread::scope(|scope| {
                    while !stop.load(Ordering::Relaxed) {
                        if let Ok((stream, _)) = tcp.accept() {
                            scope.spawn(|| serve(stream, &switch, &stop, start));
                        }
                        if let Ok((stream, _)) = unix.accept() {
                            scope.spawn(|| serve(stream, &switch, &stop, start));
                        }
                        std::thread::sleep(Duration::from_millis(1));
                    }
                })
            })
        };
        Server {
            switch,
            tcp: format!("tcp:{address}"),
            unix: format!("unix:{}", socket.display()),
            socket,
            stop,
            threads: vec![acceptor],
            start,
        }
    }

    pub fn switch(&self) -> MutexGuard<'_, Switch> {
        self.switch.lock().unwrap()
    }

    pub fn now(&self) -> Millis {
        self.start.elapsed().as_millis() as Millis
    }

    /// Runs `ovs-ofctl -O OpenFlow13 COMMAND THIS-SWITCH ARGUMENTS`.
    pub fn ofctl_raw(&self, command: &str, arguments: &[&str]) -> Output {
        let mut ofctl = Command::new("ovs-ofctl");
        let (command, options) = command.split_once(' ').unwrap_or((command, ""));
        ofctl.args(["-O", "OpenFlow13", "-t", "120"]).args(options.split_whitespace());
        ofctl.arg(command).arg(&self.tcp).args(arguments);
        run(ofctl)
    }

    /// Same as [`Self::ofctl_raw`], but must succeed.
    pub fn ofctl(&self, command: &str, arguments: &[&str]) -> String {
        let output = self.ofctl_raw(command, arguments);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "ovs-ofctl {command} {arguments:?}: {error}{text}");
        assert!(!text.contains("decode error") && !error.contains("decode error"), "{text}{error}");
        text
    }

    /// Same as [`Self::ofctl_raw`], but must fail; returns the output.
    pub fn ofctl_fails(&self, command: &str, arguments: &[&str]) -> String {
        let output = self.ofctl_raw(command, arguments);
        let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(!output.status.success() || text.contains("OFPT_ERROR"), "{command} {arguments:?} succeeded: {text}");
        text
    }
}

/// Runs a client; panics if it is not installed.
pub fn run(mut command: Command) -> Output {
    command.output().unwrap_or_else(|error| {
        panic!("ovs-ofctl can't be run ({error}); install it: apt-get install -y openvswitch-common")
    })
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        let _ = std::fs::remove_file(&self.socket);
    }
}
