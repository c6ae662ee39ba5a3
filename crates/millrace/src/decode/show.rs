//! Text output of aggregates.

use super::decoded::{Decoded, Sum};
use std::io::{self, Write};

pub(super) fn aggregate(decoded: &Decoded, out: &mut dyn Write) -> io::Result<()> {
    write!(out, "#{} at {:.6}, {} bytes", decoded.frame, decoded.time, decoded.length)?;
    if let (Some(source), Some(destination)) = (&decoded.source, &decoded.destination) {
        write!(out, ", {source} > {destination}")?;
    }
    if let Some(carrier) = decoded.carrier {
        write!(out, ", {carrier}")?;
    }
    if let Some(vni) = decoded.vni {
        write!(out, " {vni}")?;
    }
    if let Some(rejected) = &decoded.rejected {
        return writeln!(out, ": {}: {}", rejected.reason, rejected.message);
    }
    writeln!(out, ": {} packets", decoded.packets.len())?;
    for packet in &decoded.packets {
        let vlan = packet.vlan.map_or(String::new(), |vid| format!(", VLAN {vid}"));
        let (source, destination, ethertype) = (&packet.source, &packet.destination, &packet.ethertype);
        writeln!(
            out,
            "  {:>6} {:>6} bytes, {source} > {destination}{vlan}, {ethertype}",
            format!("+{}", packet.offset),
            packet.length
        )?;
    }
    Ok(())
}

pub(super) fn sum(sum: &Sum, out: &mut dyn Write) -> io::Result<()> {
    let good = sum.aggregates - sum.rejected;
    let each = if good == 0 { 0.0 } else { sum.packets as f64 / good as f64 };
    writeln!(
        out,
        "{} frames: {good} aggregates of {} packets ({each:.2} each), {} that are wrong, {} others",
        sum.frames,
        sum.packets,
        sum.rejected,
        sum.frames - sum.aggregates
    )
}
