//! The cost of changes of flows: the time of each, the memory of a flow, and the frames that are lost meanwhile.

mod client;
mod found;

use super::RunError;
use super::apps::Traffic;
use super::loss::Totals;
use super::plan::Plan;
use super::point::{HostRole, Rig};
use super::trial::Bench;
use crate::latency;
use crate::machine::Machine;
use crate::record::{Record, free_directory};
use crate::scenario::{Scenario, Timing};
use clap::Args;
use client::{Client, Flows};
use found::{Figure, chart, table};
use lab::process::{Interrupt, Usage};
use lab::{Error, Result};
use loadgen::app::Rate;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// Which switches, and how many flows they have.
#[derive(Clone, Debug, Args)]
pub struct FlowChanges {
    /// Names of the switches, as `testbed list` has them
    #[arg(long, value_delimiter = ',', default_value = "millrace-openflow,ovs-dpdk")]
    switches: Vec<String>,
    /// Flows in the table
    #[arg(long, value_delimiter = ',', default_value = "1000,20000,60000")]
    flows: Vec<u32>,
    /// Flows that are added, and deleted again, while frames pass
    #[arg(long, default_value_t = 500)]
    changes: u32,
    /// Packets per second that pass meanwhile
    #[arg(long, default_value_t = 100_000.0)]
    rate: f64,
    /// Seconds in which they are counted
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Rounds, in which every switch has its turn; medians over rounds are shown
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Millrace's program [default: the one next to this program]
    #[arg(long, value_name = "FILE")]
    millrace: Option<PathBuf>,
    /// Print JSON instead of the table
    #[arg(long)]
    json: bool,
    /// Directory for the results [default: bench/results/DATE-flows]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Measures, and writes the results.
pub fn run(options: &FlowChanges) -> std::result::Result<(), RunError> {
    let millrace = crate::millrace::program(options.millrace.as_deref())?;
    let timing = Timing { seconds: options.seconds, rounds: options.rounds, ..Timing::default() };
    let text = format!(
        "title = \"Changes of flows\"\nswitches = {:?}\n[[test]]\ndimension = \"throughput\"\ntechniques = [\"virtio-user\"]\n\
         rates = [\"{}\"]\nbursts = [1]\nrounds = 1\n",
        options.switches, options.rate
    );
    let scenario = Scenario::parse(&text, Path::new("(changes of flows)"))?;
    let plan = Plan::new(&scenario, &[], &millrace).map_err(RunError::Plan)?;
    plan.missing().iter().for_each(|missing| eprintln!("left out: {missing}"));
    let interrupt = Interrupt::install()?;
    let mut rig = Rig::new(&scenario, &plan, HostRole::Only, &interrupt)?;
    let mut figures: Vec<Figure> = Vec::new();
    let distance = || latency::between(0, 1).map_err(Error::other("measuring the distance of processors"));
    let mut latencies = vec![distance()?];
    for round in 1..=options.rounds {
        for &flows in &options.flows {
            for turn in plan.turns() {
                eprintln!("[{round}/{}] {} with {flows} flows", options.rounds, turn.point.switch);
                let processors = rig.processors(&turn.point);
                let traffic = Traffic { rate: Rate::PerSecond(options.rate), packets: None, timing };
                let mut found = Figure::new(&turn.point.switch, flows);
                rig.with_bench(&turn.point, &processors, |bench| {
                    measure(bench, &mut found, traffic, options.changes, |bench| bench.run(&turn.point, traffic))
                })?;
                match figures.iter_mut().find(|figure| figure.is_of(&found)) {
                    Some(figure) => figure.merge(&found),
                    None => figures.push(found),
                }
            }
        }
        latencies.push(distance()?);
    }
    let machine = Machine::detect(&millrace);
    let rows = figures.iter().map(Figure::row).collect();
    let record = Record::new(&machine, &[], rows).with_cores(latencies);
    let text = table(&figures);
    print!("{}", if options.json { record.text() } else { text.clone() });
    let directory = options.out.clone().unwrap_or_else(|| free_directory(&machine, "flows"));
    let [rig, software] = record.foot();
    let chart = chart(&figures, &format!("{rig}; {software}"));
    record.write(&directory, &[("table.txt", &text), ("chart.svg", &chart)])?;
    eprintln!("results in {}", directory.display());
    Ok(())
}

/// Fills the table, and changes it while frames pass.
fn measure(
    bench: &mut Bench<'_>,
    found: &mut Figure,
    traffic: Traffic,
    changes: u32,
    mut pass: impl FnMut(&mut Bench<'_>) -> Result<super::trial::Found>,
) -> Result<()> {
    let switch = &bench.switches[0];
    let address = switch.openflow().ok_or_else(|| {
        Error::malformed(&found.switch, "it has no OpenFlow datapath; millrace-openflow and ovs-dpdk have one")
    })?;
    let process = switch.processes()[0];
    let client = Client::new(&address, &bench.network.directory);
    client.change(&Flows::normal())?;
    let before = Usage::of(process)?.rss;
    found.adding.push(client.change(&Flows::added(0..found.flows))?.as_secs_f64() / f64::from(found.flows));
    let after = Usage::of(process)?.rss;
    found.memory.push(after.saturating_sub(before) as f64 / f64::from(found.flows));
    found.lost_at_rest.push(Totals::of(&pass(bench)?.reports).loss());
    let ends = AtomicBool::new(false);
    let interrupt = bench.interrupt;
    let changed = std::thread::scope(|scope| {
        let changer = scope.spawn(|| -> Result<Vec<f64>> {
            interrupt.sleep(std::time::Duration::from_secs_f64(traffic.timing.warm_up))?;
            let mut times = Vec::new();
            while !ends.load(Ordering::Relaxed) {
                let range = found.flows..found.flows + changes;
                let took = client.change(&Flows::added(range.clone()))? + client.change(&Flows::deleted(range))?;
                times.push(took.as_secs_f64() / f64::from(2 * changes));
            }
            Ok(times)
        });
        let passed = pass(bench);
        ends.store(true, Ordering::Relaxed);
        let times = changer.join().expect("the thread does not panic");
        passed.and_then(|passed| Ok((Totals::of(&passed.reports).loss(), times?)))
    })?;
    let (lost, times) = changed;
    found.lost_while_changed.push(lost);
    found.changing.extend(times);
    Ok(())
}
