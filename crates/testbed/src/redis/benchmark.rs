//! redis-benchmark, and its report.

use super::error::RedisError;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// The load of one measurement.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Bytes of a value.
    pub bytes: u32,
    /// Requests of each test.
    pub requests: u32,
    /// Clients.
    pub clients: u16,
}

impl Load {
    /// Returns the options of redis-benchmark.
    pub fn options(self) -> Vec<String> {
        let Load { bytes, requests, clients } = self;
        let numbers = [("-d", bytes.to_string()), ("-n", requests.to_string()), ("-c", clients.to_string())];
        let fixed = ["-t", "set,get", "--csv"].map(str::to_owned);
        fixed.into_iter().chain(numbers.into_iter().flat_map(|(name, value)| [name.to_owned(), value])).collect()
    }
}

/// A test of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Command {
    /// Reads a value.
    Get,
    /// Stores a value.
    Set,
}

/// Results of a test: requests per second, and milliseconds of latency.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    /// Requests per second.
    pub rate: f64,
    /// Average latency.
    pub average: f64,
    /// Median latency.
    pub p50: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
}

/// Results of one command.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// The command.
    pub command: Command,
    /// Its results.
    pub figures: Figures,
}

/// Reads the report of both tests.
pub fn read(report: &str) -> Result<Vec<Sample>, RedisError> {
    let wrong = || RedisError::Report(report.to_owned());
    let cells = |line: &str| -> Vec<String> { line.split(',').map(|cell| cell.trim_matches('"').to_owned()).collect() };
    let mut lines = report.lines().skip_while(|line| !line.starts_with("\"test\""));
    let names = lines.next().map(cells).ok_or_else(wrong)?;
    let sample = |line: &str| {
        let cells = cells(line);
        let row: HashMap<&str, &str> = names.iter().map(String::as_str).zip(cells.iter().map(String::as_str)).collect();
        let number = |name| row.get(name)?.parse::<f64>().ok();
        let command = match *row.get("test")? {
            "SET" => Command::Set,
            "GET" => Command::Get,
            _ => return None,
        };
        let figures = Figures {
            rate: number("rps")?,
            average: number("avg_latency_ms")?,
            p50: number("p50_latency_ms")?,
            p95: number("p95_latency_ms")?,
            p99: number("p99_latency_ms")?,
        };
        Some(Sample { command, figures })
    };
    let samples: Vec<Sample> = lines.filter_map(sample).collect();
    if samples.len() == 2 { Ok(samples) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = "WARNING: Could not fetch server CONFIG\n\
        \"test\",\"rps\",\"avg_latency_ms\",\"min_latency_ms\",\"p50_latency_ms\",\"p95_latency_ms\",\"p99_latency_ms\",\"max_latency_ms\"\n\
        \"SET\",\"40000.00\",\"0.125\",\"0.080\",\"0.119\",\"0.175\",\"0.207\",\"0.303\"\n\
        \"GET\",\"50000.00\",\"0.1\",\"0.072\",\"0.111\",\"0.127\",\"0.191\",\"0.207\"\n";

    #[test]
    fn both_tests_are_read() {
        let samples = read(REPORT).unwrap();
        assert_eq!(samples.iter().map(|s| s.command).collect::<Vec<_>>(), [Command::Set, Command::Get]);
        let expected = Figures { rate: 40000.0, average: 0.125, p50: 0.119, p95: 0.175, p99: 0.207 };
        assert_eq!(samples[0].figures, expected);
        let error = read(&REPORT[..200]).unwrap_err().to_string();
        assert!(error.contains("did not report"), "{error}");
        assert!(read("").is_err());
    }

    #[test]
    fn the_load_is_passed_on() {
        let options = Load { bytes: 64, requests: 1000, clients: 4 }.options().join(" ");
        assert_eq!(options, "-t set,get --csv -d 64 -n 1000 -c 4");
    }
}
