//! DPDK's testpmd, which passes frames between paired ports without looking at them.

use super::contract::{PortKind, Running, Setup, SwitchKind, Unavailable};
use super::sockets::Sockets;
use crate::Result;
use crate::dpdk::{self, Lcores, VhostPort};

/// DPDK's testpmd in its mode `io`.
pub struct Testpmd;

impl SwitchKind for Testpmd {
    fn name(&self) -> &'static str {
        "testpmd"
    }

    fn about(&self) -> &'static str {
        "DPDK's test program: passes frames between paired ports, and looks at none"
    }

    fn ports(&self) -> &'static [PortKind] {
        &[PortKind::VhostUser]
    }

    fn learns(&self) -> bool {
        false
    }

    fn processors(&self) -> usize {
        1
    }

    fn megabytes(&self) -> u64 {
        dpdk::MEGABYTES
    }

    fn available(&self) -> std::result::Result<String, Unavailable> {
        dpdk::version().map_err(|error| Unavailable(format!("{error} (Debian's package dpdk has dpdk-testpmd)")))
    }

    /// Sets it up as DPDK's guide does (PVP reference benchmark setup using testpmd): a processor for forwarding and another one
    /// for commands, and vhost ports in mode `io`.
    fn start(&self, setup: &Setup<'_>) -> Result<Box<dyn Running>> {
        let sockets = Sockets::only(setup, self.name())?;
        let lcores = Lcores { forwarding: setup.processors[0], others: Some(setup.others) };
        let switch = sockets.paths().map(VhostPort::new).fold(dpdk::Testpmd::switch(), dpdk::Builder::port);
        let switch = switch.lcores(lcores).memory(setup.pages, self.megabytes()).measured(setup.interrupt);
        // Guests connect later: it would wait for their links.
        let switch = switch.argument("--disable-link-check").argument("--record-core-cycles");
        let mut testpmd = switch.spawn_ready()?;
        testpmd.start()?;
        let pid = testpmd.inner_pid()?;
        Ok(Box::new(Forwarding { testpmd, pid, _sockets: sockets }))
    }
}

struct Forwarding {
    testpmd: dpdk::Testpmd,
    pid: u32,
    _sockets: Sockets,
}

impl Running for Forwarding {
    fn check(&mut self) -> Result<()> {
        self.testpmd.daemon().check("the end of a measurement")
    }

    fn is_up(&mut self) -> Result<bool> {
        self.testpmd.is_up()
    }

    fn processes(&self) -> Vec<u32> {
        vec![self.pid]
    }

    fn commands(&self) -> Vec<String> {
        vec![self.testpmd.line().to_owned(), "testpmd> start".to_owned()]
    }

    fn take_cycles(&mut self) -> Result<Option<f64>> {
        self.testpmd.take_cycles()
    }
}
