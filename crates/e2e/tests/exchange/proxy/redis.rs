//! Debian's Redis: a server on a unix socket or in a namespace, and clients.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;

use lab::Result;
use lab::process::Daemon;

use e2e::{SOON, wait_for};

/// Lengths of values: from one frame to dozens.
pub const LENGTHS: [usize; 5] = [64, 1024, 4096, 16_384, 65_536];

/// Starts a server which keeps nothing on disk, by `command` with these options.
pub fn serve(mut command: Command, options: &[&str]) -> Result<Daemon> {
    command.args(["--save", "", "--appendonly", "no", "--protected-mode", "no"]).args(options);
    let mut server = Daemon::spawn("redis-server", command)?;
    server.wait_for_line("Redis", SOON, |line| line.contains("eady to accept connections"))?;
    Ok(server)
}

/// Starts a server on a unix socket.
pub fn serve_unix(socket: &Path) -> Result<Daemon> {
    serve(Command::new("redis-server"), &["--port", "0", "--unixsocket", socket.to_str().expect("a path in UTF-8")])
}

/// Returns bytes of any kind, which differ by `seed`.
pub fn value(seed: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8 ^ seed as u8).collect()
}

/// A connection to a server.
pub struct Client(BufReader<UnixStream>);

impl Client {
    pub fn connect(socket: &Path) -> io::Result<Client> {
        let stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(SOON))?;
        stream.set_write_timeout(Some(SOON))?;
        Ok(Client(BufReader::new(stream)))
    }

    /// Connects until the server answers.
    pub fn wait(socket: &Path) -> Client {
        wait_for("an answer of Redis", || {
            let mut client = Client::connect(socket).ok()?;
            client.set("first", b"1").ok()?;
            Some(client)
        })
    }

    pub fn set(&mut self, key: &str, value: &[u8]) -> io::Result<()> {
        self.send(&[b"SET", key.as_bytes(), value])?;
        let line = self.line()?;
        if line == "+OK" { Ok(()) } else { Err(io::Error::other(line)) }
    }

    pub fn get(&mut self, key: &str) -> io::Result<Vec<u8>> {
        self.send(&[b"GET", key.as_bytes()])?;
        let line = self.line()?;
        let len: usize = line.strip_prefix('$').and_then(|len| len.parse().ok()).ok_or(ErrorKind::InvalidData)?;
        let mut value = vec![0; len + 2];
        self.0.read_exact(&mut value)?;
        value.truncate(len);
        Ok(value)
    }

    /// Stores a value, and checks that the same comes back.
    pub fn exchange(&mut self, seed: usize, len: usize) -> io::Result<()> {
        let (key, value) = (format!("{seed}:{len}"), value(seed, len));
        self.set(&key, &value)?;
        assert!(self.get(&key)? == value, "a value of {len} bytes changed");
        Ok(())
    }

    fn send(&mut self, words: &[&[u8]]) -> io::Result<()> {
        let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            bytes.extend(format!("${}\r\n", word.len()).bytes());
            bytes.extend_from_slice(word);
            bytes.extend(b"\r\n");
        }
        self.0.get_mut().write_all(&bytes)
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        if self.0.read_line(&mut line)? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        Ok(line.trim_end().to_owned())
    }
}

/// Runs redis-benchmark to its end with 50 connections, each of which sets and gets values.
pub fn benchmark(mut command: Command, server: &[&str], len: usize) {
    let options = ["-c", "50", "-n", "500", "-t", "set,get", "--csv", "-d", &len.to_string()];
    let output = command.args(server).args(options).output().expect("redis-benchmark, of Debian's redis-tools, runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("\"SET\"") && said.contains("\"GET\""), "{output:?}");
}
