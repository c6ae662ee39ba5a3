//! Validates and builds `[openflow]`, and checks which bridge uses it.

use super::check::Check;
use super::raw::{At, RawFile};
use super::types::Openflow;
use super::value::ListenAddress;
use packet::MacAddr;
use settings::Problem;
use std::net::SocketAddr;
use std::ops::Range;
use std::path::Path;

pub(super) fn build(check: &mut Check, file: &RawFile, control: &Path) -> Option<Openflow> {
    let Some(section) = file.openflow.as_ref() else {
        for (span, _) in bridges(file) {
            let help = "add [openflow] with `listen` or `controllers`";
            check.error(span, "nobody can set this bridge's flows: there is no section [openflow]", help);
        }
        return None;
    };
    let mut first = None;
    for (span, name) in bridges(file) {
        match &first {
            None => first = Some(span),
            Some(first) => check.problems.push(
                Problem::error(
                    span,
                    format!("bridge `{name}` cannot have `openflow` as well"),
                    "a switch is one datapath to controllers: put all ports into one bridge",
                )
                .and_at(first, "the bridge that has it"),
            ),
        }
    }
    let made_up = MacAddr::from_name(&control.to_string_lossy()).0;
    let made_up = made_up.iter().fold(0, |id, byte| id << 8 | i64::from(*byte));
    let datapath_id = check.number("datapath-id", &section.datapath_id, &(1..i64::MAX), made_up) as u64;
    let listen: Vec<_> =
        section.listen.iter().flat_map(|list| &list.value).filter_map(|at| check.listen(at, 6653)).collect();
    let addresses = section.controllers.iter().flat_map(|list| &list.value);
    let controllers: Vec<_> = addresses.filter_map(|at| controller(check, at)).collect();
    let lists = [("listen", &section.listen), ("controllers", &section.controllers)];
    let unread = lists.iter().any(|(key, _)| check.is_unread(&section.span, key));
    if !unread && lists.iter().all(|(_, list)| list.as_ref().is_none_or(|list| list.is_empty())) {
        let span = lists.iter().find_map(|(_, list)| list.as_ref()).map_or(&section.span, |list| &list.span);
        check.error(span, "controllers have no way to the switch", "add `listen = [\"127.0.0.1:6653\"]`");
    }
    if let Some(at) = section.relay.as_ref().filter(|at| at.value && file.aggregation.is_none()) {
        let help = "remove `relay`, or add [aggregation]";
        check.error(&at.span, "there is no aggregation table to relay flows for", help);
    }
    Some(Openflow { listen, controllers, datapath_id })
}

/// Returns the bridges with `openflow`: the place of that key, and the bridge's name.
fn bridges(file: &RawFile) -> impl Iterator<Item = (&Range<usize>, &str)> {
    file.bridges.iter().filter_map(|bridge| {
        let at = bridge.openflow.as_ref().filter(|at| at.value)?;
        Some((&at.span, bridge.name.as_ref().map_or("", |name| name.value.as_str())))
    })
}

fn controller(check: &mut Check, at: &At<String>) -> Option<ListenAddress> {
    if let Some(path) = at.strip_prefix("unix:") {
        let at = At { value: path.to_owned(), span: at.span.clone() };
        return Some(ListenAddress::Unix(check.unix_socket(&at, false)));
    }
    match at.strip_prefix("tcp:").and_then(|address| address.parse::<SocketAddr>().ok()) {
        Some(address) if address.port() != 0 => Some(ListenAddress::Tcp(address)),
        _ => {
            let message = format!("`{}` is not the address of a controller", at.value);
            check.error(
                &at.span,
                message,
                "give an IP address and a port, as in \"tcp:192.0.2.1:6653\", or \"unix:PATH\"",
            );
            None
        }
    }
}
