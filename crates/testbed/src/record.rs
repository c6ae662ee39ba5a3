//! Stored results: the figures of a table, and the data that a reader needs to judge and to repeat them (bench/README.md).

use crate::latency::Latency;
use crate::machine::Machine;
use crate::statistics::Spread;
use crate::transfer::Transfer;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::{Path, PathBuf};

/// Name of the file in its directory.
const FILE: &str = "results.json";

/// Results of one command, with a figure for each row of its table.
#[derive(Debug, Deserialize)]
pub struct Record<F> {
    /// The machine.
    pub rig: Rig,
    /// Date and time, UTC.
    pub date: String,
    /// Version of the sources that were measured.
    #[serde(default)]
    pub commit: Option<String>,
    /// The command that measures it.
    pub command: String,
    /// Remarks for the reader.
    #[serde(default)]
    pub note: Option<String>,
    /// The rows.
    pub figures: Vec<F>,
}

/// Machine and software of a measurement.
#[derive(Debug, Serialize, Deserialize)]
pub struct Rig {
    cpu: String,
    cores: usize,
    kernel: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tsc_ghz: Option<f64>,
    /// Version of DPDK and of the program that used it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dpdk: Option<String>,
    /// Time that a cache line takes between the two processors: least and greatest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cores_ns: Option<[u64; 2]>,
    /// Cycles to move one of many lines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    line_cycles: Option<LineCycles>,
}

#[derive(Debug, Serialize, Deserialize)]
struct LineCycles {
    read: u64,
    write: u64,
}

impl<F> Record<F> {
    /// Returns the record of figures that this process measured on this machine.
    pub fn new(machine: &Machine, notes: &[String], figures: Vec<F>) -> Record<F> {
        let rig = Rig {
            cpu: machine.cpu.clone(),
            cores: machine.cores,
            kernel: machine.kernel.clone(),
            tsc_ghz: Some(rounded(machine.tsc_ghz, 2)),
            dpdk: machine.dpdk.clone(),
            cores_ns: None,
            line_cycles: None,
        };
        Record {
            rig,
            date: machine.date.clone(),
            commit: machine.commit.clone(),
            command: command(std::env::args().skip(1)),
            note: (!notes.is_empty()).then(|| notes.join("; ")),
            figures,
        }
    }

    /// Adds how far apart the two processors were, as measured several times.
    pub fn with_cores(mut self, latencies: impl IntoIterator<Item = Latency>) -> Record<F> {
        let nanoseconds = latencies.into_iter().map(|latency| latency.nanoseconds.round() as u64);
        self.rig.cores_ns = nanoseconds.fold(None, |range, ns| {
            let [least, greatest] = range.unwrap_or([ns, ns]);
            Some([least.min(ns), greatest.max(ns)])
        });
        self
    }

    /// Adds the cost of moving cache lines between the two processors.
    pub fn with_transfer(mut self, transfer: Option<Transfer>) -> Record<F> {
        let lines = |Transfer { read, write }| LineCycles { read: read.round() as u64, write: write.round() as u64 };
        self.rig.line_cycles = transfer.map(lines);
        self
    }

    /// Describes the machine in a line, and the programs in another.
    pub fn foot(&self) -> [String; 2] {
        let commit = self.commit.as_ref().map(|commit| format!("Millrace {commit}"));
        let software = [commit, self.rig.dpdk.clone(), Some(self.date.clone())];
        [self.rig.to_string(), software.into_iter().flatten().collect::<Vec<_>>().join(", ")]
    }
}

impl fmt::Display for Rig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Rig { cpu, cores, kernel, tsc_ghz, cores_ns, .. } = self;
        write!(f, "{cpu}, {cores} cores, Linux {kernel}")?;
        if let Some(ghz) = tsc_ghz {
            write!(f, ", TSC {ghz:.2} GHz")?;
        }
        match cores_ns {
            Some([least, greatest]) => write!(f, ", {least}..{greatest} ns from core to core"),
            None => Ok(()),
        }
    }
}

impl<F: Serialize> Record<F> {
    /// Returns the text of the file: a line for each key and each row, so that a difference of two files can be read.
    pub fn text(&self) -> String {
        let Record { rig, date, commit, command, note, figures } = self;
        let heads = [
            ("rig", Some(json(rig))),
            ("date", Some(json(date))),
            ("commit", commit.as_ref().map(json)),
            ("command", Some(json(command))),
            ("note", note.as_ref().map(json)),
        ];
        let line = |(key, value): (&str, Option<String>)| value.map(|value| format!("  \"{key}\": {value},\n"));
        let heads: String = heads.into_iter().filter_map(line).collect();
        let rows: Vec<String> = figures.iter().map(|figure| format!("    {}", json(figure))).collect();
        format!("{{\n{heads}  \"figures\": [\n{}\n  ]\n}}\n", rows.join(",\n"))
    }

    /// Writes the record and these further files into a directory, which is created if it is missing.
    pub fn write(&self, directory: &Path, others: &[(&str, &str)]) -> Result<(), RecordError> {
        let write = || {
            std::fs::create_dir_all(directory)?;
            std::fs::write(directory.join(FILE), self.text())?;
            others.iter().try_for_each(|(name, content)| std::fs::write(directory.join(name), content))
        };
        write().map_err(|source| RecordError::Write { path: directory.to_owned(), source })
    }
}

impl<F: DeserializeOwned> Record<F> {
    /// Reads the record in this directory.
    pub fn read(directory: &Path) -> Result<Record<F>, RecordError> {
        let path = directory.join(FILE);
        let text = std::fs::read_to_string(&path).map_err(|source| RecordError::Read { path: path.clone(), source })?;
        serde_json::from_str(&text).map_err(|source| RecordError::Form { path, source })
    }
}

/// Error of reading or writing a record.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum RecordError {
    #[error("the results can't be written to {}: {source}", path.display())]
    Write { path: PathBuf, source: std::io::Error },
    #[error("{} can't be read: {source}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{} does not have the requested form: {source}", path.display())]
    Form { path: PathBuf, source: serde_json::Error },
}

/// Returns the default directory for results of this name, which does not exist yet.
pub fn free_directory(rig: &Machine, label: &str) -> PathBuf {
    let name = format!("bench/results/{}-{label}", rig.day());
    let numbered = (2..).map(|number| format!("{name}-{number}"));
    let free = std::iter::once(name.clone()).chain(numbered).map(PathBuf::from).find(|path| !path.exists());
    free.expect("numbers do not end")
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("numbers and strings")
}

/// Returns median, least and greatest of samples, of which there are some, with so many decimal places.
pub fn spread(samples: impl Iterator<Item = f64>, places: i32) -> [f64; 3] {
    let Spread { median, min, max } = Spread::of(samples).expect("a case has samples");
    [median, min, max].map(|value| rounded(value, places))
}

/// Returns a number with this many decimal places.
pub fn rounded(value: f64, places: i32) -> f64 {
    let power = 10f64.powi(places);
    (value * power).round() / power
}

/// Returns the command line with these words, for a shell.
pub fn command(words: impl Iterator<Item = String>) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:,=+@%".contains(c);
    let quoted = |word: String| {
        let plain = !word.is_empty() && word.chars().all(is_plain);
        if plain { word } else { format!("'{}'", word.replace('\'', r"'\''")) }
    };
    std::iter::once("testbed".to_owned()).chain(words.map(quoted)).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latency::Distance;

    fn record() -> Record<[u8; 2]> {
        let mut machine = Machine::detect(Path::new("/"));
        machine.tsc_ghz = 2.5994;
        let notes = ["one".to_owned(), "two".to_owned()];
        let latency = |nanoseconds| Latency { nanoseconds, distance: Distance::Near };
        let record = Record::new(&machine, &notes, vec![[1, 2], [3, 4]]);
        record.with_cores([60.4, 52.0, 94.6].map(latency)).with_transfer(Some(Transfer { read: 20.4, write: 16.5 }))
    }

    #[test]
    fn what_is_written_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let out = directory.path().join("made");
        record().write(&out, &[("table.txt", "a table")]).unwrap();
        assert_eq!(std::fs::read_to_string(out.join("table.txt")).unwrap(), "a table");
        let read: Record<[u8; 2]> = Record::read(&out).unwrap();
        assert_eq!(read.text(), record().text().replace(&record().date, &read.date));
        assert_eq!(read.figures, [[1, 2], [3, 4]]);
        let [machine, _] = read.foot();
        assert!(machine.ends_with("TSC 2.60 GHz, 52..95 ns from core to core"), "{machine}");
        let wrong = Record::<String>::read(&out).unwrap_err().to_string();
        assert!(wrong.contains("made/results.json") && wrong.contains("string"), "{wrong}");
    }

    #[test]
    fn a_row_is_a_line() {
        let text = record().text();
        assert!(text.contains("\"line_cycles\":{\"read\":20,\"write\":17}"), "{text}");
        assert!(
            text.contains("\n  \"note\": \"one; two\",\n  \"figures\": [\n    [1,2],\n    [3,4]\n  ]\n}\n"),
            "{text}"
        );
    }

    #[test]
    fn a_command_can_be_repeated_by_a_shell() {
        let words = ["compare", "--size", "64,512", "--out", "a b", "it's", ""].map(String::from);
        assert_eq!(command(words.into_iter()), r"testbed compare --size 64,512 --out 'a b' 'it'\''s' ''");
    }
}
