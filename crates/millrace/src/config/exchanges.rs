//! Validates and builds `[[exchange]]`: which ports' functions exchange buffers or pages.

use super::check::Check;
use super::ports::BuiltPorts;
use super::raw::{
    BUFFER_SIZES, DEFAULT_BUFFER_SIZE, DEFAULT_DEVICE, DEFAULT_EXCHANGE_BUFFERS, EXCHANGE_BUFFERS,
    ExchangeMode as RawMode, RawExchange, RawFile, THRESHOLDS, Threshold,
};
use engine::spec::{ExchangeMode, ExchangeSpec, Sharing};
use settings::Problem;
use std::collections::HashMap;

pub(super) fn build(check: &mut Check, file: &RawFile, ports: &BuiltPorts) -> Vec<ExchangeSpec> {
    let mut places = HashMap::new();
    let built = file.exchanges.iter().filter_map(|raw| {
        let listed = check.required(&raw.span, "ports", &raw.ports, "ports = [\"fw\", \"nat\"]")?;
        if listed.len() < 2 {
            check.error(&listed.span, "there is no other port to exchange buffers with", "name at least two ports");
        }
        for at in &listed.value {
            let Some(port) = ports.find(check, at, &at.span) else { continue };
            if !port.spec.driver.capabilities().has_guest {
                let message =
                    format!("port `{}` is of driver {}, and has no function", at.value, port.spec.driver.name());
                check.error(&at.span, message, "name ports of driver vhost-user");
            }
            if port.spec.sharing.as_ref().is_some_and(|sharing| sharing.way != Sharing::Rss) {
                let message = format!(
                    "several workers read the frames of port `{}`, so its buffers cannot change hands",
                    at.value
                );
                check.error(&at.span, message, "take the port out of the exchange, or remove its `rx-sharing`");
            }
            if let Some(first) = places.insert(at.as_str(), &at.span) {
                let message = format!("port `{}` is in two exchanges, or twice in one", at.value);
                let problem = Problem::error(&at.span, message, "name it once only").and_at(first, "the first time");
                check.problems.push(problem);
            }
        }
        let threshold = match raw.threshold.as_ref().map(|at| (at.value, &at.span)) {
            Some((Threshold::Bytes(bytes), span)) if check.within("threshold", bytes, span, &THRESHOLDS) => {
                Some(bytes as u32)
            }
            _ => None,
        };
        Some(ExchangeSpec {
            ports: listed.value.iter().map(|at| at.value.clone()).collect(),
            mode: mode(check, raw),
            threshold,
        })
    });
    built.collect()
}

/// Builds the mode of an exchange, and refuses keys of the other mode.
fn mode(check: &mut Check, raw: &RawExchange) -> ExchangeMode {
    match raw.mode.as_ref().map_or(RawMode::Group, |at| at.value) {
        RawMode::Group => {
            if let Some(at) = raw.device.as_ref() {
                let message = "functions of mode group share buffers, and need no device";
                check.error(&at.span, message, "remove it, or set mode = \"zcopy\"");
            }
            let mut number = |key, field, range, default| check.number(key, field, range, default);
            ExchangeMode::Group {
                buffers: number("buffers", &raw.buffers, &EXCHANGE_BUFFERS, DEFAULT_EXCHANGE_BUFFERS) as u16,
                buffer_size: number("buffer-size", &raw.buffer_size, &BUFFER_SIZES, DEFAULT_BUFFER_SIZE) as u32,
            }
        }
        RawMode::Zcopy => {
            for (key, field) in [("buffers", &raw.buffers), ("buffer-size", &raw.buffer_size)] {
                if let Some(at) = field.as_ref() {
                    let message = format!("`{key}` is of mode group: in mode zcopy each function has pages of its own");
                    check.error(&at.span, message, "remove it, or set mode = \"group\"");
                }
            }
            let device = raw.device.as_ref().map_or(DEFAULT_DEVICE, |at| at.value.as_str());
            ExchangeMode::Zcopy { device: device.into() }
        }
    }
}
