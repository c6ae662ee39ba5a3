//! Whether packaged plugins load: DPDK starts with them, in an emulator if they are for another processor.

use super::libraries::Libraries;
use super::maker::{Maker, word};
use crate::debian::make;
use crate::failure::Failure;
use std::fs;
use std::path::PathBuf;

/// What is compiled, and what it reads.
const PROGRAM: &str = include_str!("loading/loading.c");
const SWITCH: &str = include_str!("loading/switch.toml");
const AGGREGATION: &str = include_str!("loading/aggregation.toml");

/// A device of DPDK's that needs nothing, and our driver above it, which reads its configuration.
const DEVICES: [&str; 2] = ["net_null0", "net_paflow0,dev=net_null0,config=aggregation.toml"];

/// Unpacks the packages, and fails if the switch does not find the plugin, or DPDK does not start with it and with our driver.
pub fn check(maker: &Maker<'_>, libraries: &Libraries, packages: &[PathBuf]) -> Result<(), Failure> {
    let place = maker.place("loading");
    if place.exists() {
        fs::remove_dir_all(&place).map_err(|e| format!("cannot empty {}: {e}", place.display()))?;
    }
    make(&place)?;
    for package in packages {
        maker.context.command("dpkg").args(&["-x", &word(package), &word(&place)]).output()?;
    }
    for (name, text) in [("loading.c", PROGRAM), ("switch.toml", SWITCH), ("aggregation.toml", AGGREGATION)] {
        fs::write(place.join(name), text).map_err(|e| format!("cannot write {name}: {e}"))?;
    }
    let arch = libraries.arch().debian();
    // What is missing is a warning to the switch, as a configuration may be for another machine.
    let (switch, said) = (word(&place.join("usr/bin/millrace")), place.join("said"));
    let script = format!("exec 2>'{}'; exec \"$@\"", said.display());
    let shell = maker.context.command("sh").args(&["-c", &script, "sh"]).inside(&place);
    libraries.emulate(shell, "/dev/null", &switch).args(&["check", "switch.toml"]).output()?;
    let said = fs::read_to_string(&said).map_err(|e| format!("cannot read {}: {e}", said.display()))?;
    if !said.is_empty() {
        return Err(format!("millrace for {arch} does not load its plugin: {said}").into());
    }
    let sources = maker.context.root.join("dpdk/port");
    let compile = format!("${{CC:-cc}} -Wall -Wextra -Werror -I'{}' -o loading loading.c -ldl", sources.display());
    libraries.build(maker.context.command("sh").args(&["-c", &compile]).inside(&place)).output()?;
    let plugins = place.join("usr/lib/millrace");
    let (program, plugin) = (word(&place.join("loading")), word(&plugins.join("libmillrace_dpdk.so")));
    // DPDK refuses the path of a driver beneath a directory that all may write to, and takes one that the loader finds.
    let emulator = maker.context.command("env").inside(&place);
    let run = libraries.emulate(emulator, &word(&plugins), &program);
    run.args(&[&plugin, "librte_net_paflow.so"]).args(&DEVICES).named(format!("DPDK for {arch}")).run()
}
