//! A model of the caches for each part of the data path: the paper's tables IV to VI. Valgrind's model replaces a processor's
//! counters, which virtual machines seldom have.

mod profile;
mod rounds;

use super::files::write;
use super::pattern::Pattern;
use super::rig::RigError;
use super::setup::{Setup, sizes};
use crate::machine::Machine;
use crate::record::free_directory;
use crate::ring_format::RingFormat;
use clap::Args;
use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};
use loadgen::load::{MAX_SIZE, MIN_SIZE, TouchLevel};
use loadgen::wire::queue_sizes;
use profile::Events;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::Command;
use vhost_user::frontend::QueueSizes;

/// Caches of the paper's processor, as size, ways and bytes per line; 16 MiB replace its 19.25, which the model does not
/// support.
const D1: &str = "32768,8,64";
const L2: &str = "1048576,16,64";
const L3: &str = "16777216,16,64";

/// Cases to model.
#[derive(Clone, Debug, Args)]
pub struct Cache {
    /// Copy patterns
    #[arg(long, value_enum, value_delimiter = ',', default_value = "a,e,g")]
    pub pattern: Vec<Pattern>,
    /// Ring formats
    #[arg(long, value_enum, value_delimiter = ',', default_value = "split,packed")]
    pub ring: Vec<RingFormat>,
    /// Bytes of a frame, without its checksum
    #[arg(long, value_delimiter = ',', default_value = "64,1514",
          value_parser = clap::value_parser!(u16).range(i64::from(MIN_SIZE)..=i64::from(MAX_SIZE)))]
    pub size: Vec<u16>,
    /// Descriptors of the rings between NIC and switch
    #[arg(long, value_name = "RX[:TX]", default_value = "512:1024", value_parser = queue_sizes)]
    pub physical: QueueSizes,
    /// Descriptors of the rings between switch and network function
    #[arg(long, value_name = "RX[:TX]", value_delimiter = ',', default_value = "1024:256,8192:256,1024:1024",
          value_parser = queue_sizes)]
    pub r#virtual: Vec<QueueSizes>,
    /// Part of every frame that the network function touches, and the NIC reads
    #[arg(long, value_enum, default_value_t = TouchLevel::Header)]
    pub touch: TouchLevel,
    /// Frames to count, and to send before
    #[arg(long, default_value_t = 40_000, value_parser = clap::value_parser!(u64).range(1000..))]
    pub frames: u64,
    /// Print JSON instead of tables
    #[arg(long)]
    pub json: bool,
    /// Directory for the results [default: bench/results/DATE-cache]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Act as the profiled process, with the first of each of the above
    #[arg(long, hide = true)]
    pub itself: bool,
}

/// Error of the analysis.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum CacheError {
    #[error(transparent)]
    Rig(#[from] RigError),
    #[error("valgrind can't be run: {0}; is it installed?")]
    Valgrind(std::io::Error),
    #[error("valgrind failed: {0}")]
    Failed(String),
    #[error("there is nothing in valgrind's profile {0}")]
    Profile(PathBuf),
    #[error("the results can't be written to {}: {source}", path.display())]
    Write { path: PathBuf, source: std::io::Error },
}

/// All results.
#[derive(Debug, Serialize)]
struct Found {
    rig: Machine,
    valgrind: String,
    /// The modelled caches: L2 in the first run, L3 in the second.
    caches: [&'static str; 3],
    frames: u64,
    points: Vec<Point>,
}

/// Results of one setup.
#[derive(Debug, Serialize)]
struct Point {
    setup: Setup,
    parts: Vec<Part>,
}

/// Results of one part of the data path. Figures are per frame.
#[derive(Debug, Serialize)]
struct Part {
    part: &'static str,
    instructions: f64,
    /// Data accesses that missed the first-level cache; the second; the third.
    d1_misses: f64,
    l2_misses: f64,
    l3_misses: f64,
}

/// Runs the analysis.
pub fn run(cache: &Cache) -> Result<(), CacheError> {
    if cache.itself {
        let setup = setups(cache).next().expect("every option has a value");
        return Ok(rounds::run(&setup, cache.frames)?);
    }
    let all: Vec<Setup> = setups(cache).collect();
    let mut points = Vec::new();
    for (number, setup) in all.iter().enumerate() {
        let Setup { pattern, ring, size, guest, .. } = *setup;
        eprintln!("[{}/{}] {pattern}, {ring}, {size} B, {}", number + 1, all.len(), sizes(guest));
        points.push(point(cache, setup)?);
    }
    let rig = Machine::detect(&std::env::current_exe().unwrap_or_default());
    let found = Found { rig, valgrind: version(), caches: [D1, L2, L3], frames: cache.frames, points };
    let text = text(cache, &found);
    let json = serde_json::to_string_pretty(&found).expect("numbers and strings") + "\n";
    print!("{}", if cache.json { &json } else { &text });
    let directory = cache.out.clone().unwrap_or_else(|| free_directory(&found.rig, "cache"));
    write(&directory, [("results.json", &json), ("table.txt", &text)].into_iter())
        .map_err(|source| CacheError::Write { path: directory.clone(), source })?;
    eprintln!("results in {}", directory.display());
    Ok(())
}

fn setups(cache: &Cache) -> impl Iterator<Item = Setup> {
    let Cache { touch, physical, .. } = *cache;
    let rows = cache.pattern.iter().flat_map(|&pattern| cache.ring.iter().map(move |&ring| (pattern, ring)));
    rows.flat_map(move |(pattern, ring)| {
        let columns = cache.size.iter().flat_map(|&size| cache.r#virtual.iter().map(move |&guest| (size, guest)));
        columns.map(move |(size, guest)| Setup { pattern, ring, size, touch, physical, guest })
    })
}

/// Profiles one setup twice: with either cache behind the first one.
fn point(cache: &Cache, setup: &Setup) -> Result<Point, CacheError> {
    let (second, third) = (profile(cache, setup, L2)?, profile(cache, setup, L3)?);
    let per_frame = |events: &Events, names: &[&str]| {
        names.iter().map(|name| events.get(*name).copied().unwrap_or_default()).sum::<u64>() as f64
            / cache.frames as f64
    };
    let parts = rounds::PARTS.iter().zip(second.iter().zip(&third)).map(|(&(part, _), (second, third))| Part {
        part,
        instructions: per_frame(second, &["Ir"]),
        d1_misses: per_frame(second, &["D1mr", "D1mw"]),
        l2_misses: per_frame(second, &["DLmr", "DLmw"]),
        l3_misses: per_frame(third, &["DLmr", "DLmw"]),
    });
    Ok(Point { setup: *setup, parts: parts.collect() })
}

/// Runs this program again, as the profiled process, under Valgrind.
fn profile(cache: &Cache, setup: &Setup, last: &str) -> Result<Vec<Events>, CacheError> {
    let file = tempfile::Builder::new().prefix("testbed-").tempfile().map_err(CacheError::Valgrind)?;
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--cache-sim=yes", "--compress-strings=no", "--compress-pos=no"]);
    command.arg(format!("--D1={D1}")).arg(format!("--LL={last}"));
    command.arg(format!("--callgrind-out-file={}", file.path().display()));
    command.arg(std::env::current_exe().map_err(CacheError::Valgrind)?);
    command.args(["analyse", "cache", "--itself", "--pattern", &setup.pattern.letter().to_string()]);
    command.args(["--ring", &setup.ring.to_string(), "--size", &setup.size.to_string()]);
    command.args(["--physical", &sizes(setup.physical), "--virtual", &sizes(setup.guest)]);
    command.args(["--touch", &setup.touch.to_string(), "--frames", &cache.frames.to_string()]);
    let output = command.output().map_err(CacheError::Valgrind)?;
    if !output.status.success() {
        return Err(CacheError::Failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
    }
    read(file.path())
}

fn read(path: &Path) -> Result<Vec<Events>, CacheError> {
    let text = std::fs::read_to_string(path).map_err(CacheError::Valgrind)?;
    let found = profile::inside(&text, rounds::MEASURED, &rounds::PARTS.map(|(_, name)| name));
    // A part without instructions was not found.
    let found = found.filter(|parts| parts.iter().all(|events| events.get("Ir").is_some_and(|&count| count > 0)));
    found.ok_or_else(|| CacheError::Profile(path.to_owned()))
}

fn version() -> String {
    let output = Command::new("valgrind").arg("--version").output();
    output.map_or_else(|_| "unknown".into(), |output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

type Figure = fn(&Part) -> String;

/// Formats the paper's tables.
fn text(cache: &Cache, found: &Found) -> String {
    let figures: [(&str, Figure); 4] = [
        ("First-level misses per frame (for table IV, which has nanoseconds)", |part| format!("{:.1}", part.d1_misses)),
        ("Second-level misses per frame (table V)", |part| format!("{:.2}", part.l2_misses)),
        ("Third-level hit ratio (table VI)", |part| {
            if part.l2_misses < 0.005 { "-".into() } else { format!("{:.2}", 1.0 - part.l3_misses / part.l2_misses) }
        }),
        ("Instructions per frame", |part| format!("{:.0}", part.instructions)),
    ];
    let tables = figures.map(|(title, figure)| format!("{title}\n\n{}\n\n", table(cache, found, figure)));
    tables.concat()
        + &format!(
            "{}, {}; first level {D1}, second {L2}, third {L3} (bytes, ways, bytes of a line).\n\
             One processor runs NIC, switch and network function by turns of up to 256 frames: they share all caches, lines \
             never come from another processor's, and prefetches do nothing. Rings to the NIC: {}.\n",
            found.valgrind,
            found.rig,
            sizes(cache.physical)
        )
}

fn table(cache: &Cache, found: &Found, figure: Figure) -> String {
    let mut table = Table::new();
    let columns =
        cache.size.iter().flat_map(|size| cache.r#virtual.iter().map(move |v| format!("{size} B {}", sizes(*v))));
    let header: Vec<String> = ["PATTERN", "RING", "THREAD"].map(String::from).into_iter().chain(columns).collect();
    let count = header.len();
    table.load_style(NOTHING).set_header(header);
    for index in 3..count {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for row in found.points.chunks(cache.size.len() * cache.r#virtual.len()) {
        for (index, (part, _)) in rounds::PARTS.iter().enumerate() {
            let Setup { pattern, ring, .. } = row[0].setup;
            let words = [pattern.to_string(), ring.to_string(), (*part).to_owned()];
            table.add_row(words.into_iter().chain(row.iter().map(|point| figure(&point.parts[index]))));
        }
    }
    table.trim_fmt()
}
