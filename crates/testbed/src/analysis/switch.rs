//! Millrace's data path with settings that no configuration offers: the copies that it makes, omits, or pretends to make. It
//! answers each line of its standard input by a line of JSON with all its counters, and ends with its input.

use super::pattern::{Pattern, Way};
use clap::Args;
use engine::Switch;
use engine::port::{vhost_user, virtio_user};
use engine::spec::{
    Acceleration, Analysis, Driver, Idle, MappingSpec, Mode, PortQueues, PortSpec, QueueSizes, Spec, Tenancy,
    WorkerSpec,
};
use loadgen::wire::queue_sizes;
use std::io::{self, BufRead, Write};
use std::path::PathBuf;

/// One such switch, with one worker.
#[derive(Clone, Debug, Args)]
pub struct AnalysisSwitch {
    /// Socket of the NIC, which is there
    pub device: PathBuf,
    /// Socket for the network function, which is created
    pub function: PathBuf,
    /// Which copies are made
    #[arg(long, value_enum, default_value_t = Pattern::A)]
    pub pattern: Pattern,
    /// Ask for packed rings to the NIC
    #[arg(long)]
    pub packed: bool,
    /// Descriptors of the queues to the NIC, powers of two: of the one that is received from and of the one that is sent
    /// to, or of both
    #[arg(long, value_name = "RX[:TX]", default_value = "256", value_parser = queue_sizes)]
    pub queue_size: QueueSizes,
    /// Processor to run on
    #[arg(long)]
    pub cpu: Option<usize>,
}

/// Error of the switch.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum SwitchError {
    #[error(transparent)]
    Start(#[from] engine::Error),
    #[error("standard input and output: {0}")]
    Lines(#[from] io::Error),
}

/// Runs until its input ends.
pub fn run(switch: &AnalysisSwitch) -> Result<(), SwitchError> {
    let running = Switch::start(spec(switch))?;
    for line in io::stdin().lock().lines() {
        line?;
        let mut out = io::stdout().lock();
        writeln!(out, "{}", serde_json::to_string(&running.snapshot()).expect("numbers and strings"))?;
        out.flush()?;
    }
    Ok(())
}

fn spec(switch: &AnalysisSwitch) -> Spec {
    let AnalysisSwitch { pattern, queue_size, packed, .. } = *switch;
    let (receive, transmit) = (pattern.receive(), pattern.transmit());
    let port = |name: &str, driver, here: Way, back: Way| PortSpec {
        analysis: Analysis { copied: here != Way::Zero, omit_copies: back == Way::Fake },
        ..PortSpec::new(name, driver)
    };
    let nic = Driver::VirtioUser(virtio_user::Settings {
        socket: switch.device.clone(),
        mode: Mode::Client,
        queues: 1,
        queue_sizes: queue_size,
        packed,
        offloads: None,
    });
    let guest = Driver::VhostUser(vhost_user::Settings::at(switch.function.clone()));
    let mapped = receive == Way::Zero || transmit == Way::Zero;
    let mapping = MappingSpec {
        from: PortQueues::all("nic"),
        to: PortQueues::all("nf"),
        pass_through: true,
        tenancy: Tenancy::Trust(Vec::new()),
        copy_break: Some(0),
    };
    Spec {
        ports: vec![port("nic", nic, receive, transmit), port("nf", guest, transmit, receive)],
        patches: vec![["nic".into(), "nf".into()]],
        mappings: mapped.then_some(mapping).into_iter().collect(),
        workers: vec![WorkerSpec { cpu: switch.cpu, idle: Idle::Poll, ..WorkerSpec::default() }],
        acceleration: Acceleration::Off,
        ..Spec::default()
    }
}
