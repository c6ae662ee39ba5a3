//! A stream of iperf3, and the processor time that passes meanwhile.

use super::error::TcpError;
use super::figures::Figures;
use super::options::Tcp;
use crate::hosts::{ADDRESSES, Hosts};
use lab::process::{Interrupt, Launch};
use serde_json::Value;
use std::fs;
use std::time::Duration;

/// Time limit for the start of the receiver.
const LIMIT: Duration = Duration::from_secs(30);

/// Sends a stream from the first host to the second.
pub fn stream(hosts: &Hosts, options: &Tcp, interrupt: &Interrupt) -> Result<Figures, TcpError> {
    let [sender, receiver] = &hosts.ends;
    let mut command = receiver.command("iperf3");
    command.args(["--server", "--one-off", "--forceflush"]);
    let mut server = Launch::measured("iperf3", interrupt).pin(&[options.receiver_cpu]).spawn(command)?;
    server.wait_for_line("iperf3", LIMIT, |line| line.contains("Server listening"))?;

    let mut command = sender.command("iperf3");
    let numbers = [("--time", options.seconds), ("--parallel", options.streams.into())];
    command.args(["--client", ADDRESSES[1], "--json"]);
    command.args(numbers.into_iter().flat_map(|(name, value)| [name.to_owned(), value.to_string()]));
    let before = busy()?;
    let client = Launch::measured("iperf3", interrupt).pin(&[options.sender_cpu]).spawn(command)?;
    let report = client.finish(Duration::from_secs(options.seconds.into()) + LIMIT)?;
    let busy = busy()? - before;
    server.succeed(LIMIT)?;
    read(&report, busy)
}

/// Reads the report of a stream during which processors were busy for so long, in seconds.
fn read(report: &str, busy: f64) -> Result<Figures, TcpError> {
    let json: Value = serde_json::from_str(report).unwrap_or_default();
    let number = |path: &str| json.pointer(path)?.as_f64();
    let received = || Some((number("/end/sum_received/bits_per_second")?, number("/end/sum_received/bytes")?));
    let (bits, bytes) = received().ok_or_else(|| TcpError::Report(report.to_owned()))?;
    Ok(Figures { gbit_per_s: bits / 1e9, gbytes_per_cpu_s: bytes / 1e9 / busy })
}

/// Returns the seconds that all processors together have been busy.
fn busy() -> Result<f64, TcpError> {
    let text = fs::read_to_string("/proc/stat").map_err(TcpError::Processors)?;
    Ok(ticks(&text) as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// Sums up the first line: user, nice, system, then idle and waiting, which do not count, interrupts of both kinds (proc_stat(5)).
/// Time that the host of a virtual machine took away does not count either.
fn ticks(stat: &str) -> u64 {
    let numbers = stat.lines().next().unwrap_or_default().split_ascii_whitespace().skip(1);
    let numbers = numbers.map(|number| number.parse().unwrap_or(0)).enumerate();
    numbers.filter(|(place, _)| matches!(place, 0..=2 | 5..=6)).map(|(_, ticks): (_, u64)| ticks).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read() {
        let report =
            r#"{ "end": { "sum_sent": { "bytes": 1 }, "sum_received": { "bytes": 5e9, "bits_per_second": 8e9 } } }"#;
        assert_eq!(read(report, 4.0).unwrap(), Figures { gbit_per_s: 8.0, gbytes_per_cpu_s: 1.25 });
        let refused = read(r#"{ "error": "unable to connect to server" }"#, 1.0).unwrap_err().to_string();
        assert!(refused.contains("unable to connect"), "{refused}");
        assert!(read("", 1.0).is_err());
    }

    #[test]
    fn idle_time_does_not_count() {
        assert_eq!(ticks("cpu  100 20 3 9000 9000 400 5000 9000 9000 9000\ncpu0 1 1 1 1\n"), 5523);
        assert!(busy().unwrap() > 0.0);
    }
}
