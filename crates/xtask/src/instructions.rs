//! Instructions per packet: measured, compared with the baseline, stored.

use crate::command::Context;
use crate::failure::Failure;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Path of the baseline.
const BASELINE: &str = "bench/baseline/instructions.json";

/// Largest increase allowed, in percent.
const TOLERANCE: f64 = 2.0;

/// Packets in the measured burst; of `millrace-roles`, batches and claims.
const PACKETS: f64 = 32.0;

/// Instructions per packet, by benchmark.
type Counts = BTreeMap<String, f64>;

/// Fails if a benchmark exceeds the baseline by more than the tolerance.
pub fn compare(context: &Context) -> Result<(), Failure> {
    let now = measure(context)?;
    let text =
        std::fs::read_to_string(context.root.join(BASELINE)).map_err(|e| format!("{BASELINE}: {e}; {UPDATE}"))?;
    let (compiler, before) = parse(&text)?;
    println!("{:24}{:>10}{:>10}{:>9}   instructions a packet", "", "baseline", "now", "change");
    let mut worse = Vec::new();
    for (name, &now) in &now {
        let Some(&before) = before.get(name) else { return Err(format!("{BASELINE} has no {name}; {UPDATE}").into()) };
        let change = (now / before - 1.0) * 100.0;
        println!("{name:24}{before:10.1}{now:10.1}{change:+8.1}%");
        if change > TOLERANCE {
            worse.push(format!("{name} {change:+.1} %"));
        }
    }
    if worse.is_empty() {
        return Ok(());
    }
    let ours = rustc(context)?;
    let other = if compiler == ours { String::new() } else { format!(" (which {compiler} made; this is {ours})") };
    Err(format!("more instructions than the baseline{other}: {}; {UPDATE}", worse.join(", ")).into())
}

const UPDATE: &str = "if that is as it should be, say why and run `cargo xtask baseline instructions`";

/// Stores this tree's counts as the baseline.
pub fn store(context: &Context) -> Result<(), Failure> {
    let counts = measure(context)?;
    let counts: Map<String, Value> = counts.into_iter().map(|(name, count)| (name, count.into())).collect();
    let file = serde_json::json!({ "compiler": rustc(context)?, "instructions_per_packet": counts });
    context.write(BASELINE, &format!("{file:#}\n"))
}

/// Returns the compiler's version; counts of others do not compare.
fn rustc(context: &Context) -> Result<String, Failure> {
    Ok(context.command("rustc").args(&["--version"]).output()?.trim().to_owned())
}

fn parse(text: &str) -> Result<(String, Counts), Failure> {
    let bad = || Failure::from(format!("{BASELINE} is not what `cargo xtask baseline instructions` writes"));
    let file: Value = serde_json::from_str(text).map_err(|_| bad())?;
    let compiler = file["compiler"].as_str().ok_or_else(bad)?.to_owned();
    let counts = file["instructions_per_packet"].as_object().ok_or_else(bad)?;
    let counts = counts.iter().map(|(name, count)| Some((name.clone(), count.as_f64()?)));
    Ok((compiler, counts.collect::<Option<_>>().ok_or_else(bad)?))
}

/// Runs the benchmarks, which print one JSON object per line.
fn measure(context: &Context) -> Result<Counts, Failure> {
    let mut counts = Counts::new();
    // One build of all but the engine: alone, each would have dependencies with other features, built again. The engine's benchmarks
    // need features of the rings that change their code.
    for names in [&["virtqueue", "openflow", "roles"][..], &["engine"]] {
        let packages: Vec<String> = names.iter().map(|name| format!("--package=millrace-{name}")).collect();
        let packages: Vec<&str> = packages.iter().map(String::as_str).collect();
        let bench = ["bench", "--quiet", "--bench", "instructions", "--features", "instructions"];
        let output = context.cargo(&bench).args(&packages).args(&["--", "--output-format=json"]).output()?;
        for line in output.lines().filter(|line| line.starts_with('{')) {
            let (name, count) = count(line).ok_or_else(|| format!("unexpected output of the benchmarks: {line}"))?;
            counts.insert(name, (count / PACKETS * 10.0).round() / 10.0);
        }
    }
    if counts.is_empty() { Err("the benchmarks printed no counts".into()) } else { Ok(counts) }
}

/// Parses the name of a benchmark and its instruction count.
fn count(line: &str) -> Option<(String, f64)> {
    let summary: Value = serde_json::from_str(line).ok()?;
    let name = format!("{} {}", summary["function_name"].as_str()?, summary["id"].as_str()?);
    let counted = &summary["profiles"][0]["data"]["total"]["metrics"]["Ir"]["values"]["new"];
    Some((name, counted.as_f64()?))
}
