//! Collects the problems of a configuration while its parts are built.

use super::files::Files;
use super::origin::Origin;
use super::raw::At;
use super::reach::{Purpose, Reach};
use super::value::{ListenAddress, device_name, is_interface_name};
use engine::port::files;
use engine::port::keys::Checks;
use settings::{Checker, Problem};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::ops::{Deref, DerefMut, Range};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// `sun_path` holds 108 bytes, the last of which is the terminating NUL (unix(7)).
const SOCKET_PATH_LIMIT: usize = 107;

/// Collector of problems. A part with a problem is still built, with a placeholder value, so that the parts that refer to it
/// can be checked as well.
pub(super) struct Check<'r> {
    pub(super) directory: PathBuf,
    reach: Option<&'r Reach>,
    checker: Checker,
    /// Unix sockets that this configuration creates.
    listeners: HashMap<PathBuf, Range<usize>>,
    /// Capture files of ports.
    files: Files,
    /// Interfaces of ports.
    interfaces: HashMap<String, Range<usize>>,
    /// DPDK devices that `[dpdk]` lists, if there is that section, and those of ports.
    pub(super) listed: Option<Vec<String>>,
    devices: HashMap<String, Range<usize>>,
}

impl Deref for Check<'_> {
    type Target = Checker;

    fn deref(&self) -> &Checker {
        &self.checker
    }
}

impl DerefMut for Check<'_> {
    fn deref_mut(&mut self) -> &mut Checker {
        &mut self.checker
    }
}

/// Longest time allowed. A delayed frame keeps a guest's buffer: more than this is a mistake.
const LONGEST: Duration = Duration::from_secs(10);

impl<'r> Check<'r> {
    /// Creates a check of `file`, to whose directory paths are relative; `reach` is that of the running switch, if there is one
    /// and it is confined. It `examines` what is in the files of ports, if asked.
    pub(super) fn new(file: &Path, reach: Option<&'r Reach>, examines: bool, checker: Checker) -> Check<'r> {
        Check {
            directory: Origin(file).directory().to_owned(),
            reach,
            checker,
            listeners: HashMap::new(),
            files: Files::new(file, examines),
            interfaces: HashMap::new(),
            listed: None,
            devices: HashMap::new(),
        }
    }

    pub(super) fn into_problems(self) -> Vec<Problem> {
        self.checker.problems
    }

    pub(super) fn time(&mut self, key: &str, at: &At<String>) -> Option<Duration> {
        match humantime::parse_duration(at) {
            Ok(time) if time <= LONGEST => return Some(time),
            Ok(_) => self.error(&at.span, format!("`{key}` cannot be {}", at.value), "give at most \"10s\""),
            Err(_) => self.error(
                &at.span,
                format!("`{}` is not a time", at.value),
                "give a number and a unit: \"5ms\", \"250us\" or \"1s\"",
            ),
        }
        None
    }

    /// Parses the address of a service without authentication; `usual` is its usual port.
    pub fn listen(&mut self, listen: &At<String>, usual: u16) -> Option<ListenAddress> {
        if let Some(path) = listen.strip_prefix("unix:") {
            let at = At { value: path.to_owned(), span: listen.span.clone() };
            return Some(ListenAddress::Unix(self.unix_socket(&at, true)));
        }
        match listen.parse::<SocketAddr>() {
            Ok(address) if address.ip().is_loopback() => Some(ListenAddress::Tcp(address)),
            Ok(address) => {
                self.error(
                    &listen.span,
                    format!("{} is not a loopback address", address.ip()),
                    format!(
                        "the endpoint has no authentication: listen on \"127.0.0.1:{}\" and let a proxy or a local \
                         agent carry it further",
                        address.port()
                    ),
                );
                None
            }
            Err(_) => {
                self.error(
                    &listen.span,
                    format!("`{}` is not an address to listen on", listen.value),
                    format!("give a loopback address with a port, as in \"127.0.0.1:{usual}\", or \"unix:PATH\""),
                );
                None
            }
        }
    }

    /// Returns a path, relative to the directory of the configuration file.
    pub fn path(&mut self, at: &At<String>) -> PathBuf {
        if at.is_empty() {
            self.error(&at.span, "the path is empty", "give the path of a file");
        } else if at.contains('\0') {
            self.error(&at.span, "the path contains a NUL character", "remove it");
        }
        self.directory.join(&at.value)
    }

    /// Returns the path of a unix socket; `listens` if the switch creates it.
    pub fn unix_socket(&mut self, at: &At<String>, listens: bool) -> PathBuf {
        let path = self.path(at);
        let length = path.as_os_str().len();
        if length > SOCKET_PATH_LIMIT {
            self.error(
                &at.span,
                format!("the socket path is {length} bytes long, and the kernel takes {SOCKET_PATH_LIMIT}"),
                format!("use a shorter path than {}", path.display()),
            );
        }
        if listens && let Some(first) = self.listeners.insert(path.clone(), at.span.clone()) {
            self.problems.push(
                Problem::error(&at.span, "two sockets cannot have the same path", "give each its own")
                    .and_at(&first, "already used here"),
            );
        }
        path
    }

    /// Warns of capture files that a process records to, but for the switch that has this control socket.
    pub fn recorded_elsewhere(&mut self, control: &Path) {
        self.files.recorded_elsewhere(&mut self.checker, control);
    }

    /// Reports a path that a confined running switch cannot open.
    pub fn reachable(&mut self, at: &At<String>, path: &Path, purpose: Purpose) {
        if self.reach.is_none_or(|reach| reach.covers(path, purpose)) {
            return;
        }
        let directory = path.parent().unwrap_or(Path::new("")).display();
        self.error(
            &at.span,
            format!("the confinement of the running switch forbids it to {purpose} in {directory}"),
            format!(
                "start the switch again; if such paths are to come while it runs, add \"{directory}\" to \
                 `directories` of [confinement] first"
            ),
        );
    }
}

impl Checks for Check<'_> {
    fn socket(&mut self, at: &At<String>, listens: bool) -> PathBuf {
        let path = self.unix_socket(at, listens);
        // Connecting needs no landlock permission.
        if listens {
            self.reachable(at, &path, Purpose::Listen);
        }
        path
    }

    fn interface(&mut self, at: &At<String>) -> String {
        if !is_interface_name(at) {
            self.error(
                &at.span,
                format!("`{}` cannot name a network interface", at.value),
                "use 1 to 15 characters, without spaces, `/`, `:` and `%`",
            );
        }
        if let Some(first) = self.interfaces.insert(at.value.clone(), at.span.clone()) {
            self.problems.push(
                Problem::error(
                    &at.span,
                    format!("interface `{}` already has a port", at.value),
                    "attach a single port to it",
                )
                .and_at(&first, "already used here"),
            );
        }
        at.value.clone()
    }

    fn device(&mut self, at: &At<String>) -> String {
        if let Some(first) = self.devices.insert(at.value.clone(), at.span.clone()) {
            self.problems.push(
                Problem::error(
                    &at.span,
                    format!("device `{}` already has a port", at.value),
                    "give each port a device of its own",
                )
                .and_at(&first, "already used here"),
            );
        }
        let listed = self.listed.iter().flatten().find(|device| device_name(device) == at.value).cloned();
        if listed.is_none() {
            let (message, help) = match &self.listed {
                None => {
                    ("there is no section [dpdk]".to_owned(), format!("add [dpdk] with devices = [\"{}\"]", at.value))
                }
                Some(_) => (
                    format!("`devices` of [dpdk] does not list device `{}`", at.value),
                    format!("add \"{}\" there, with its arguments if it is a virtual device", at.value),
                ),
            };
            if !self.is_unread(&(0..0), "dpdk") {
                self.error(&at.span, message, help);
            }
        }
        listed.unwrap_or_default()
    }

    fn read_file(&mut self, at: &At<String>) -> PathBuf {
        let path = self.path(at);
        self.reachable(at, &path, Purpose::Read);
        self.files.add(&mut self.checker, at, &path, files::Purpose::Replay);
        path
    }

    fn written_file(&mut self, at: &At<String>) -> PathBuf {
        let path = self.path(at);
        self.reachable(at, &path, Purpose::Create);
        self.files.add(&mut self.checker, at, &path, files::Purpose::Record);
        path
    }
}
