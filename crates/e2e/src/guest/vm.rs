//! A virtual machine.

use std::fs;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tempfile::TempDir;

use super::agent::{Agent, Job, Outcome};
use super::initramfs::{self, Contents};
use super::nic::{escaped, pci_address};
use super::{Accel, Kernel, Nic, Qemu};
use lab::process::{Daemon, Launch, Usage};
use lab::{Error, Result, cpu};

/// Time limit for booting a guest, even emulated on a busy machine.
pub const READY: Duration = Duration::from_secs(240);

/// Default time limit of a command in a guest.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// A virtual machine to start.
#[derive(Debug, Clone)]
pub struct Builder {
    name: String,
    nics: Vec<Nic>,
    memory_mib: usize,
    processors: Option<usize>,
    cores: Vec<usize>,
    accel: Option<Accel>,
    contents: Contents,
    iommu: bool,
    reboots: bool,
    qemu: Qemu,
}

impl Builder {
    /// Adds a network device; the first one is `eth0`.
    pub fn nic(mut self, nic: Nic) -> Self {
        self.nics.push(nic);
        self
    }

    /// Sets the guest's memory; the default is 256 MiB. The host allocates only what the guest touches.
    pub fn memory_mib(mut self, mib: usize) -> Self {
        self.memory_mib = mib;
        self
    }

    /// Sets the number of processors; the default is the largest number of queue pairs of a device.
    pub fn processors(mut self, count: usize) -> Self {
        self.processors = Some(count);
        self
    }

    /// Confines QEMU to these cores of the host; the default is the guests' cores in [`cpu::Plan`].
    pub fn pin(mut self, cores: &[usize]) -> Self {
        self.cores = cores.to_vec();
        self
    }

    /// Sets how instructions are run; the default is the fastest way that works.
    pub fn accel(mut self, accel: Accel) -> Self {
        self.accel = Some(accel);
        self
    }

    /// Adds a program of the host, with the libraries that it loads.
    pub fn program(mut self, path: impl Into<PathBuf>) -> Self {
        self.contents.programs.push(path.into());
        self
    }

    /// Adds a library of the host that a program opens by itself, with those that it loads.
    pub fn library(mut self, path: impl Into<PathBuf>) -> Self {
        self.contents.libraries.push(path.into());
        self
    }

    /// Adds an IOMMU: programs can drive devices then ([`Vm::bind`]).
    pub fn iommu(mut self) -> Self {
        self.iommu = true;
        self
    }

    /// Lets it boot again ([`Vm::reboot`]). Otherwise QEMU ends then, as it does after a panic.
    pub fn reboots(mut self) -> Self {
        self.reboots = true;
        self
    }

    /// Sets the QEMU that runs it; the default is the installed one.
    pub fn qemu(mut self, qemu: Qemu) -> Self {
        self.qemu = qemu;
        self
    }

    /// Adds a file of the host, as `/files/NAME`.
    pub fn file(mut self, path: impl Into<PathBuf>) -> Self {
        self.contents.files.push(path.into());
        self
    }

    /// Starts QEMU and returns at once, so that guests can boot side by side; see [`Vm::wait_ready`].
    ///
    /// A socket created by the backend must already exist, unless the device reconnects.
    pub fn spawn(self, kernel: &Kernel) -> Result<Vm> {
        let accel = match self.accel {
            Some(accel) => accel,
            None => Accel::detect(kernel)?,
        };
        let directory = tempfile::Builder::new().prefix("e2e-vm-").tempdir();
        let directory = directory.map_err(Error::io("creating a temporary directory"))?;
        let initrd = directory.path().join("initrd");
        fs::write(&initrd, initramfs::build(kernel, &self.contents)?).map_err(Error::io("writing the initramfs"))?;
        let agent_path = directory.path().join("agent");
        // The harness listens and QEMU connects, so that no output of the guest is lost.
        let listener = UnixListener::bind(&agent_path).map_err(Error::io("creating the agent's socket"))?;
        let command = self.command(kernel, accel, &initrd, &agent_path);
        let mut daemon = Launch::new(format!("guest {}", self.name)).pin(&self.cores).spawn(command)?;
        let agent = Agent::new(accept(&listener, &mut daemon)?)?;
        Ok(Vm { name: self.name, daemon: Mutex::new(daemon), agent, accel, _directory: directory })
    }

    fn command(&self, kernel: &Kernel, accel: Accel, initrd: &Path, agent: &Path) -> Command {
        let memory = self.memory_mib;
        let widest = self.nics.iter().map(Nic::pairs).max().unwrap_or(1);
        let processors = self.processors.unwrap_or(widest);
        let mut arguments = "console=ttyS0 quiet panic=-1 mitigations=off cryptomgr.notests random.trust_cpu=on \
                             ipv6.disable=1"
            .to_owned();
        arguments.push_str(accel.kernel_arguments());
        let mut command = self.qemu.command();
        command
            .args(["-nodefaults", "-no-user-config", "-display", "none", "-monitor", "none"])
            .args(accel.arguments())
            .args(["-machine", "q35,memory-backend=mem"])
            .args(["-m", &format!("{memory}M"), "-smp", &processors.to_string()])
            // The backend maps the guest's memory, so it must be a shared file.
            .args(["-object", &format!("memory-backend-memfd,id=mem,size={memory}M,share=on")])
            .args(["-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console"])
            .args(["-chardev", &format!("socket,id=agent,path={}", escaped(agent)), "-serial", "chardev:agent"])
            .arg("-kernel")
            .arg(kernel.vmlinux())
            .arg("-initrd")
            .arg(initrd);
        if !self.reboots {
            command.arg("-no-reboot");
        }
        if self.iommu {
            // Before all devices, which are behind it. Programs map memory at its virtual addresses, which have 48 bits.
            command.args(["-device", "intel-iommu,aw-bits=48,caching-mode=on"]);
            arguments.push_str(" intel_iommu=on iommu=nopt");
        }
        command.args(["-append", &arguments]);
        for (number, nic) in self.nics.iter().enumerate() {
            command.args(nic.arguments(number));
        }
        command
    }
}

fn accept(listener: &UnixListener, daemon: &mut Daemon) -> Result<UnixStream> {
    listener.set_nonblocking(true).map_err(Error::io("preparing the agent's socket"))?;
    let line = daemon.wait_until("waiting for QEMU to open the serial line", READY, |patience| {
        let line = listener.accept().ok();
        if line.is_none() {
            std::thread::sleep(patience);
        }
        line
    });
    let (line, _) = line?;
    line.set_nonblocking(false).map_err(Error::io("preparing the agent's line"))?;
    Ok(line)
}

/// A running virtual machine; dropping it stops it and removes its files.
///
/// Its methods take a shared reference: two threads, or two jobs of one test, may use a guest at once.
#[derive(Debug)]
pub struct Vm {
    name: String,
    daemon: Mutex<Daemon>,
    agent: Agent,
    accel: Accel,
    _directory: TempDir,
}

impl Vm {
    /// Creates a builder of a virtual machine called `name` in messages.
    pub fn builder(name: impl Into<String>) -> Builder {
        Builder {
            name: name.into(),
            nics: Vec::new(),
            memory_mib: 256,
            processors: None,
            cores: cpu::Plan::detect().guests,
            accel: None,
            contents: Contents::default(),
            iommu: false,
            reboots: false,
            qemu: Qemu::default(),
        }
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns QEMU's process id.
    pub fn pid(&self) -> u32 {
        self.daemon().pid()
    }

    /// Returns how it runs the guest's instructions.
    pub fn accel(&self) -> Accel {
        self.accel
    }

    /// Returns the resource usage of the QEMU process.
    pub fn usage(&self) -> Result<Usage> {
        self.daemon().usage()
    }

    /// Returns the end of the console's output, including QEMU's messages.
    pub fn console(&self, lines: usize) -> String {
        self.daemon().log().tail(lines)
    }

    /// Returns the QEMU process, for operations without a method here: signals, its output.
    pub fn daemon(&self) -> MutexGuard<'_, Daemon> {
        self.daemon.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the guest accepts commands.
    pub fn wait_ready(&self, timeout: Duration) -> Result<()> {
        self.wait("booting", timeout, |patience| self.agent.ready(patience))
    }

    /// Starts a shell script in the guest and returns at once.
    pub fn start(&self, script: &str) -> Result<Job> {
        self.agent.start(script)
    }

    /// Waits for a script to end. If it takes too long it is killed, and the error holds the end of the console output.
    pub fn finish(&self, job: Job, timeout: Duration) -> Result<Outcome> {
        let waiting_for = format!("running `{}`", job.command);
        let outcome = self.wait(&waiting_for, timeout, |patience| self.agent.outcome(&job, patience));
        if outcome.is_err() {
            // The guest may be gone altogether; report the original error.
            let _ = self.agent.kill(&job);
        }
        outcome
    }

    /// Kills a script; [`Vm::finish`] then returns its outcome, with status 137.
    pub fn kill(&self, job: &Job) -> Result<()> {
        self.agent.kill(job)
    }

    /// Runs a shell script to its end, within [`PATIENCE`].
    pub fn run(&self, script: &str) -> Result<Outcome> {
        self.finish(self.start(script)?, PATIENCE)
    }

    /// Runs a shell script that must succeed; returns its output without the last newline.
    pub fn check(&self, script: &str) -> Result<String> {
        self.checked(self.start(script)?, PATIENCE)
    }

    /// Does the same as [`Vm::finish`] for a script that must succeed.
    pub fn checked(&self, job: Job, timeout: Duration) -> Result<String> {
        let command = format!("{}: {}", self.name, job.command);
        let outcome = self.finish(job, timeout)?;
        if outcome.status != 0 {
            let status = format!("exit status {}", outcome.status);
            return Err(Error::Failed { command, status, output: outcome.output });
        }
        Ok(outcome.output.trim_end_matches('\n').to_owned())
    }

    /// Leaves the emulated device with this number to the machine's programs, by a driver of a kernel for that; returns its PCI address.
    pub fn bind(&self, driver: &str, number: usize) -> Result<String> {
        let address = pci_address(number);
        self.check(&format!(
            "echo {driver} >/sys/bus/pci/devices/{address}/driver_override && \
             echo {address} >/sys/bus/pci/drivers_probe && test -d /sys/bus/pci/drivers/{driver}/{address}"
        ))?;
        Ok(address)
    }

    /// Has the guest boot again, in the same QEMU; see [`Vm::wait_ready`].
    pub fn reboot(&self) -> Result<()> {
        self.agent.forget();
        self.agent.start("reboot -f").map(drop)
    }

    /// Powers off the guest and waits for QEMU to end.
    pub fn power_off(self, timeout: Duration) -> Result<()> {
        self.agent.start("poweroff -f")?;
        self.daemon().wait(timeout).map(drop)
    }

    fn wait<T>(&self, what: &str, timeout: Duration, probe: impl Fn(Duration) -> Option<T>) -> Result<T> {
        let stopped = || self.daemon().log().find(0, |line| line.contains("KVM internal error")).is_some();
        let deadline = std::time::Instant::now() + timeout;
        loop {
            // Wait in short turns without holding the lock in between, so that other threads can use the guest.
            let ended = self.daemon().exit_status()?;
            if let Some(result) = probe(Duration::from_millis(20)) {
                return Ok(result);
            }
            if let Some(status) = ended {
                return Err(self.daemon().exited(what, status));
            }
            // After such an error QEMU stays, stopped: waiting is useless.
            if std::time::Instant::now() >= deadline || stopped() {
                return Err(self.daemon().timed_out(what, timeout));
            }
        }
    }
}
