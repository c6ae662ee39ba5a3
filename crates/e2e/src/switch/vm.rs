//! Millrace in a virtual machine.

use crate::guest::{Job, PATIENCE, Vm};
use engine::stats::MappingStats;
use lab::Result;
use lab::millrace::config::{Configuration, Part, RawControl};

/// A running Millrace in a machine, which has the program; its sockets are in `/tmp/m`.
pub struct VmSwitch<'v> {
    vm: &'v Vm,
    job: Option<Job>,
}

impl<'v> VmSwitch<'v> {
    /// Starts it with this configuration and waits until it answers.
    pub fn start(vm: &'v Vm, configuration: impl Part) -> Result<Self> {
        vm.check("mkdir -p /tmp/m && rm -f /tmp/m/pid")?;
        configure(vm, configuration)?;
        let job = vm.start("cd /tmp/m && echo $$ >pid && exec millrace run --config m.toml >log 2>&1")?;
        let switch = Self { vm, job: Some(job) };
        vm.check(
            "cd /tmp/m; until [ -S control ] && millrace ctl --socket control ports; do \
             sleep 0.1; [ ! -s pid ] || kill -0 $(cat pid) || { cat log; exit 1; }; done",
        )?;
        Ok(switch)
    }

    /// Returns the output of `millrace ctl` with these arguments.
    pub fn ctl(&self, arguments: &str) -> Result<String> {
        self.vm.check(&format!("millrace ctl --socket /tmp/m/control {arguments}"))
    }

    /// Returns its mappings.
    pub fn mappings(&self) -> Result<Vec<MappingStats>> {
        Ok(serde_json::from_str(&self.ctl("--json mappings")?).expect("JSON"))
    }

    /// Makes it take another configuration.
    pub fn reload(&self, configuration: impl Part) -> Result<String> {
        configure(self.vm, configuration)?;
        self.ctl("reload")
    }

    /// Terminates it as an operator does, and checks its exit status.
    pub fn stop(mut self) -> Result<()> {
        self.vm.check("kill $(cat /tmp/m/pid)")?;
        self.vm.checked(self.job.take().expect("it runs"), PATIENCE).map(drop)
    }
}

/// If it still runs, the test has failed before its end.
impl Drop for VmSwitch<'_> {
    fn drop(&mut self) {
        if self.job.is_some() {
            for shows in ["mappings", "ports", "drops"] {
                eprintln!("{}", self.ctl(shows).unwrap_or_else(|error| error.to_string()));
            }
            let log = self.vm.check("tail -n 40 /tmp/m/log");
            eprintln!("Millrace said:\n{}", log.unwrap_or_else(|error| error.to_string()));
        }
    }
}

fn configure(vm: &Vm, configuration: impl Part) -> Result<()> {
    let control = RawControl { socket: "control".into(), ..RawControl::default() };
    vm.check(&format!("cat >/tmp/m/m.toml <<'end'\n{}\nend", (configuration, control).text())).map(drop)
}
