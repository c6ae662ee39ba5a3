//! testpmd on the driver, and a switch that aggregates.
//!
//! ```text
//! near ── wan ══════ left ┌─────────┐ right ── out ── far
//!      joins, splits      │ testpmd │
//! ```

use e2e::plugin::plugin;
use e2e::stream::{aggregating, aggregation, behind};
use e2e::virtio::{Guest, Options};
use e2e::{Home, Millrace};
use lab::Result;
use lab::dpdk::{self, Builder, Port, Testpmd};
use lab::millrace::config::*;

/// VLANs: packets of the first two are joined.
pub const VIDS: [u16; 3] = [100, 101, 300];

/// testpmd's numbers of its ports: those below have 0 and 2.
pub const LEFT: u16 = 1;
pub const RIGHT: u16 = 3;

/// MAC addresses of the ports, in the forms of testpmd and of a frame.
pub const MACS: [&str; 2] = ["02:00:00:00:30:00", "02:00:00:00:30:01"];
pub const PORT_MACS: [[u8; 6]; 2] = [[2, 0, 0, 0, 0x30, 0], [2, 0, 0, 0, 0x30, 1]];

pub struct Rig {
    pub home: Home,
    pub millrace: Millrace,
    pub testpmd: Testpmd,
}

impl Rig {
    /// Starts the switch and testpmd with this number of queues; a worker of the switch has one of each port.
    pub fn start(queues: u16) -> Result<Rig> {
        Rig::start_with(queues, &[])
    }

    /// Does the same with further arguments of testpmd.
    pub fn start_with(queues: u16, arguments: &[&str]) -> Result<Rig> {
        let home = Home::new();
        let flows = |to| [(VIDS[0], to), (VIDS[1], to)];
        let port = |name: &str| {
            let count = QueuesKey::Number(queues.into()).into();
            port(name, VhostUser { socket: format!("{name}.sock").into(), queues: count, ..VhostUser::default() })
        };
        let workers = vec![sleeper(); queues.into()];
        let ports = (aggregating(port("wan")), ["near", "out", "far"].map(port));
        let patches = [patch("near", "wan"), patch("out", "far")];
        let millrace = home.start((ports, patches, aggregation(0, &flows(1)), workers));
        std::fs::write(home.path("nf.toml"), behind(aggregation(1, &flows(0)), "left").text()).unwrap();
        let port = |name: &str, on: &str, mac: &str| Port::new(home.socket(on)).mac(mac).aggregating("nf.toml", name);
        let testpmd = Testpmd::builder("function").plugin(plugin()).queues(queues);
        let testpmd = testpmd.port(port("left", "wan", MACS[0])).port(port("right", "out", MACS[1]).packed());
        let mut testpmd = arguments.iter().copied().fold(testpmd, Builder::argument).spawn()?;
        testpmd.wait_ready(dpdk::READY)?;
        millrace.wait_up(&["wan", "out"]);
        Ok(Rig { home, millrace, testpmd })
    }

    /// Connects the two guests.
    pub fn ends(&self) -> Result<[Guest; 2]> {
        let end = |port: &str| Options::new(self.home.socket(port)).connect();
        Ok([end("near")?, end("far")?])
    }

    /// Runs `run` while testpmd forwards in this mode.
    pub fn forwarding(&mut self, mode: &str, run: impl FnOnce(&mut Rig) -> Result<()>) -> Result<()> {
        let said = self.testpmd.command(&format!("set fwd {mode}"))?;
        assert!(said.iter().any(|line| line.contains(&format!("Set {mode} packet forwarding mode"))), "{said:?}");
        self.testpmd.start()?;
        run(self)?;
        self.testpmd.stop().map(drop)
    }

    /// Ends testpmd and the switch, both with success.
    pub fn stop(mut self) -> Result<()> {
        self.testpmd.quit(e2e::SOON)?;
        self.millrace.stop();
        Ok(())
    }
}
