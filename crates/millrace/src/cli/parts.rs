//! Requests that add, change and remove parts.

use super::keys::{BridgeKeys, PortKeys};
use super::time;
use clap::{Args, Subcommand};
use std::time::Duration;

/// A request about ports.
#[derive(Clone, Debug, Subcommand)]
pub enum PortRequest {
    /// Add a port; done twice with the same settings is not an error
    Add(AddPort),
    /// Ports: state, forwarding, owner and labels
    List(ListPorts),
    /// Change settings of a port
    Set(SetPort),
    /// Remove a port; done twice is not an error
    Del(Name),
}

/// Options of `ctl port add`.
#[derive(Clone, Debug, Args)]
pub struct AddPort {
    /// Name of the port
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Its settings.
    #[command(flatten)]
    pub port: PortOptions,
}

/// Options of `ctl port add` and `ctl port set`.
#[derive(Clone, Debug, Args)]
pub struct PortOptions {
    /// A label, stored with the port; of a port that is changed, labels that are not named here go
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = label)]
    pub labels: Vec<(String, String)>,
    /// Wait until peers can connect to the port's socket, or it is connected itself; fail with the reason after this time
    #[arg(long, value_name = "TIME", value_parser = time::wait)]
    pub wait: Option<Duration>,
    /// Its keys.
    #[command(flatten)]
    pub keys: PortKeys,
}

/// Options of `ctl port list`.
#[derive(Clone, Debug, Args)]
pub struct ListPorts {
    /// Only ports with this label, of any value or of this one
    #[arg(long = "label", value_name = "NAME[=VALUE]", value_parser = wanted_label)]
    pub labels: Vec<(String, Option<String>)>,
}

/// Options of `ctl port set`.
#[derive(Clone, Debug, Args)]
pub struct SetPort {
    /// Name of the port
    #[arg(value_name = "NAME")]
    pub name: String,
    /// How to change it.
    #[command(flatten)]
    pub change: ChangeOptions,
    /// Its settings.
    #[command(flatten)]
    pub port: PortOptions,
}

/// Options of changes.
#[derive(Clone, Debug, Args)]
pub struct ChangeOptions {
    /// A key that gets its default
    #[arg(long, value_name = "KEY")]
    pub unset: Vec<String>,
    /// Open ports again if the change needs it: their peers have to connect again
    #[arg(long)]
    pub reopen: bool,
}

/// A request about bridges.
#[derive(Clone, Debug, Subcommand)]
pub enum BridgeRequest {
    /// Add a bridge, to which ports are added by their option --bridge; done twice is not an error
    Add(AddBridge),
    /// Change settings of a bridge
    Set(SetBridge),
    /// Remove a bridge that has no ports; done twice is not an error
    Del(Name),
}

/// Options of `ctl bridge add`.
#[derive(Clone, Debug, Args)]
pub struct AddBridge {
    /// Name of the bridge
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Its keys.
    #[command(flatten)]
    pub keys: BridgeKeys,
}

/// Options of `ctl bridge set`.
#[derive(Clone, Debug, Args)]
pub struct SetBridge {
    /// Name of the bridge
    #[arg(value_name = "NAME")]
    pub name: String,
    /// How to change it.
    #[command(flatten)]
    pub change: ChangeOptions,
    /// Its keys.
    #[command(flatten)]
    pub keys: BridgeKeys,
}

/// A request about patches.
#[derive(Clone, Debug, Subcommand)]
pub enum PatchRequest {
    /// Join two ports; done twice is not an error
    Add(Pair),
    /// Part two ports; done twice is not an error
    Del(Pair),
}

/// Two ports.
#[derive(Clone, Debug, Args)]
pub struct Pair {
    /// The one port
    #[arg(value_name = "PORT")]
    pub a: String,
    /// The other one
    #[arg(value_name = "PORT")]
    pub b: String,
}

/// The name of a part.
#[derive(Clone, Debug, Args)]
pub struct Name {
    /// Its name
    #[arg(value_name = "NAME")]
    pub name: String,
}

fn label(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("give a name and a value, as in pod=ns/web-0")?;
    Ok((name.to_owned(), value.to_owned()))
}

#[expect(clippy::unnecessary_wraps, reason = "clap wants a result")]
fn wanted_label(text: &str) -> Result<(String, Option<String>), String> {
    let (name, value) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value.to_owned())));
    Ok((name.to_owned(), value))
}
