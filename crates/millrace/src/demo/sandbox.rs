//! Network functions as separate processes, in separate namespaces where that is permitted.

use super::function::FunctionOptions;
use clap::ValueEnum;
use serde::de::DeserializeOwned;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdout, Command, Stdio};

/// Options of `unshare` (util-linux): separate users, network, processes, mounts, host name and IPC.
const UNSHARE: [&str; 9] =
    ["--user", "--map-root-user", "--net", "--ipc", "--uts", "--mount", "--pid", "--fork", "--kill-child"];

/// Confinement of the network functions.
pub(super) enum Sandbox {
    /// Separate namespaces.
    Namespaces,
    /// None, and the reason.
    None(String),
}

impl Sandbox {
    /// Detects the strongest confinement permitted here.
    pub(super) fn detect() -> Sandbox {
        let tried = Command::new("unshare").args(UNSHARE).arg("true").stdin(Stdio::null()).output();
        match tried {
            Ok(output) if output.status.success() => Sandbox::Namespaces,
            // Its first line is the reason; some print their usage after it.
            Ok(output) => {
                let said = String::from_utf8_lossy(&output.stderr);
                Sandbox::None(said.trim().lines().next().unwrap_or("unshare failed").to_owned())
            }
            Err(error) => Sandbox::None(format!("unshare: {error}")),
        }
    }

    pub(super) fn describe(&self) -> String {
        match self {
            Sandbox::Namespaces => "in namespaces of their own (user, network, process, mount, IPC)".to_owned(),
            Sandbox::None(why) => format!("as plain processes, because namespaces are not permitted here ({why})"),
        }
    }
}

/// A running network function. Dropping it stops it.
pub(super) struct Function {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Function {
    pub(super) fn start(sandbox: &Sandbox, options: &FunctionOptions) -> io::Result<Function> {
        let program = std::env::current_exe()?;
        let mut command = match sandbox {
            Sandbox::Namespaces => {
                let mut command = Command::new("unshare");
                command.args(UNSHARE).arg("--").arg(program);
                command
            }
            Sandbox::None(_) => Command::new(program),
        };
        let role = options.role.to_possible_value().map(|v| v.get_name().to_owned()).unwrap_or_default();
        command.arg("demo-function").args(["--role", &role]);
        command.args(options.socket.iter().flat_map(|socket| ["--socket".as_ref(), socket.as_os_str()]));
        command.args(["--size", &options.size.to_string(), "--seconds", &options.seconds.to_string()]);
        if let Some(cpu) = options.cpu {
            command.args(["--cpu", &cpu.to_string()]);
        }
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let output = BufReader::new(child.stdout.take().ok_or_else(|| io::Error::other("no output"))?);
        Ok(Function { child, output })
    }

    pub(super) fn wait_ready(&mut self) -> Result<(), String> {
        if self.line()? == "ready" { Ok(()) } else { Err("it is not ready".to_owned()) }
    }

    pub(super) fn go(&mut self) -> io::Result<()> {
        self.child.stdin.as_mut().map_or(Ok(()), |stdin| stdin.write_all(b"go\n"))
    }

    /// Stops it and returns its result.
    pub(super) fn finish<T: DeserializeOwned>(&mut self) -> Result<T, String> {
        drop(self.child.stdin.take());
        self.result()
    }

    /// Waits for its result.
    pub(super) fn result<T: DeserializeOwned>(&mut self) -> Result<T, String> {
        serde_json::from_str(&self.line()?).map_err(|error| error.to_string())
    }

    fn line(&mut self) -> Result<String, String> {
        let mut line = String::new();
        match self.output.read_line(&mut line) {
            Ok(0) | Err(_) => {
                let mut errors = String::new();
                if let Some(mut stderr) = self.child.stderr.take() {
                    let _ = stderr.read_to_string(&mut errors);
                }
                Err(if errors.is_empty() { "it ended".to_owned() } else { errors.trim().to_owned() })
            }
            Ok(_) => Ok(line.trim_end().to_owned()),
        }
    }
}

impl Drop for Function {
    fn drop(&mut self) {
        // The end of its input stops it; its result is no longer needed.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}
