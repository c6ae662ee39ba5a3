//! Lists the switches, techniques and containers of this machine, and the reasons why others are missing.

use crate::switches;
use clap::{Args, ValueEnum};
use comfy_table::presets::NOTHING;
use comfy_table::{ContentArrangement, Table};
use lab::lxc;
use loadgen::endpoint::Technique;
use serde::Serialize;
use std::path::PathBuf;

/// How to list them.
#[derive(Clone, Debug, Args)]
pub struct List {
    /// Millrace's program [default: the one next to this program]
    #[arg(long, value_name = "FILE")]
    millrace: Option<PathBuf>,
    /// Print them as JSON
    #[arg(long)]
    json: bool,
}

/// A switch, a technique or a kind of container.
#[derive(Serialize)]
struct Entry {
    name: String,
    about: String,
    available: bool,
    /// Its version, or why it is not available.
    state: String,
}

/// Prints all switches, techniques and containers.
pub fn run(list: &List) {
    let millrace = list
        .millrace
        .clone()
        .unwrap_or_else(|| std::env::current_exe().map(|own| own.with_file_name("millrace")).unwrap_or_default());
    let switches: Vec<Entry> = switches::all(&millrace)
        .iter()
        .map(|switch| entry(switch.name().to_owned(), switch.about().to_owned(), switch.available().map_err(|e| e.0)))
        .collect();
    let techniques: Vec<Entry> = Technique::value_variants()
        .iter()
        .map(|technique| {
            let value = technique.to_possible_value().expect("none is skipped");
            let about = value.get_help().map(|help| help.to_string().replace('`', "")).unwrap_or_default();
            entry(technique.to_string(), about, available(*technique))
        })
        .collect();
    let containers = [
        entry(
            "namespaces".to_owned(),
            "each application in a network namespace of its own".to_owned(),
            Ok(String::new()),
        ),
        entry(
            "lxc".to_owned(),
            "each application in an LXC container of its own".to_owned(),
            lxc::available().map_err(|e| e.0),
        ),
    ];
    if list.json {
        let all = serde_json::json!({ "switches": switches, "techniques": techniques, "containers": containers });
        println!("{}", serde_json::to_string_pretty(&all).expect("strings"));
        return;
    }
    for (title, entries) in [("SWITCH", &switches[..]), ("TECHNIQUE", &techniques), ("CONTAINERS", &containers)] {
        println!("{}\n", table(title, entries));
    }
}

/// Returns the version of a technique, empty if it has none; an error says why it can't be used here.
pub fn available(technique: Technique) -> Result<String, String> {
    match technique {
        Technique::VirtioUserDpdk => {
            lab::dpdk::app::available().map(|version| format!("DPDK {version}")).map_err(|error| error.to_string())
        }
        _ => loadgen::endpoint::available(technique).map(|()| String::new()),
    }
}

fn entry(name: String, about: String, state: Result<String, String>) -> Entry {
    let available = state.is_ok();
    Entry { name, about, available, state: state.unwrap_or_else(|reason| reason) }
}

fn table(title: &str, entries: &[Entry]) -> Table {
    let mut table = Table::new();
    table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header([title, "HERE", "", "VERSION, OR WHY NOT"]);
    for Entry { name, about, available, state } in entries {
        table.add_row([name.as_str(), if *available { "yes" } else { "no" }, about, state]);
    }
    table
}
