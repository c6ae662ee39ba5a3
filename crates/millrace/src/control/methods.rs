//! All methods: the parameters and results are types of the API, and a function answers each.

use super::Handler;
use super::failure::{Failure, to_value};
use crate::config::Part;
use api::code::{self, Code};
use api::part::PartKind;
use api::port::PortSummary;
use api::request::{self as ask, Following, Request};
use api::{Aggregation, Drops, Version};
use engine::events::Follower;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::sync::LazyLock;
use toml::Table;

/// One who calls: the switch as the methods see it, and the state of the connection.
pub(super) struct Caller<'h> {
    pub(super) handler: &'h dyn Handler,
    /// Where the connection gets events from, if it follows them.
    pub(super) follower: Option<Follower>,
}

/// A method.
pub(super) struct Method {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(super) errors: &'static [Code],
    pub(super) params: fn(&mut SchemaGenerator) -> Schema,
    pub(super) result: fn(&mut SchemaGenerator) -> Schema,
    answer: Box<Answer>,
}

type Answer = dyn Fn(Value, &mut Caller<'_>) -> Result<Value, Failure> + Send + Sync;

impl Method {
    /// Returns the method of this name.
    pub(super) fn find(name: &str) -> Option<&'static Method> {
        METHODS.iter().find(|method| method.name == name)
    }

    /// Answers a call.
    pub(super) fn answer(&self, params: Option<&Value>, caller: &mut Caller<'_>) -> Result<Value, Failure> {
        let params = params.cloned().unwrap_or_else(|| Map::new().into());
        (self.answer)(params, caller)
    }
}

/// Returns the method of a type of calls.
fn on<R>(answer: fn(R, &mut Caller<'_>) -> Result<R::Answer, Failure>) -> Method
where
    R: Request + JsonSchema + 'static,
    R::Answer: JsonSchema,
{
    let read = |params| {
        let wrong = |error| Failure::new(code::INVALID_PARAMS, format!("parameters of `{}`: {error}", R::METHOD));
        serde_json::from_value::<R>(params).map_err(wrong)
    };
    Method {
        name: R::METHOD,
        about: R::ABOUT.trim(),
        errors: R::ERRORS,
        params: SchemaGenerator::root_schema_for::<R>,
        result: SchemaGenerator::subschema_for::<R::Answer>,
        answer: Box::new(move |params, caller| to_value(answer(read(params)?, caller)?)),
    }
}

/// All methods.
pub(super) static METHODS: LazyLock<Vec<Method>> = LazyLock::new(|| {
    use PartKind::{Bridge, Patch, Port};
    vec![
        on(|ask::Ports {}, caller| Ok(caller.handler.ports())),
        on(|ask::Stats {}, caller| Ok(caller.handler.snapshot())),
        on(|ask::Workers {}, caller| Ok(caller.handler.snapshot().workers)),
        on(|ask::Mac {}, caller| Ok(caller.handler.macs())),
        on(|ask::Drops {}, caller| Ok(drops(caller.handler))),
        on(|ask::Mappings {}, caller| Ok(caller.handler.snapshot().mappings)),
        on(|ask::Exchange {}, caller| Ok(caller.handler.snapshot().exchanges)),
        on(|ask::Why { port }, caller| {
            caller.handler.why(&port).ok_or_else(|| {
                let ports: Vec<_> = caller.handler.ports().into_iter().map(|port| port.name).collect();
                let message = format!("there is no port `{port}`; known are {}", ports.join(", "));
                Failure::new(code::INVALID_PARAMS, message)
            })
        }),
        on(|ask::Aggregation {}, caller| {
            let table = caller.handler.aggregation_flows();
            Ok(Aggregation { stats: caller.handler.snapshot().aggregation, table })
        }),
        on(|ask::Flows {}, caller| {
            let flows = caller.handler.flows();
            Ok(api::flow::Flows { datapath: caller.handler.snapshot().datapath, flows })
        }),
        on(|ask::Confinement {}, caller| Ok(caller.handler.confinement())),
        on(|ask::Reload {}, caller| caller.handler.reload().map_err(|why| Failure::new(Code::Refused as i64, why))),
        on(|ask::Shutdown {}, caller| {
            caller.handler.shutdown();
            Ok(())
        }),
        on(|ask::Version {}, _| {
            Ok(Version { name: env!("CARGO_PKG_NAME").to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() })
        }),
        on(|ask::PortAdd { keys }, caller| Ok(caller.handler.add(Port, table(keys)?)?)),
        on(|ask::PortSet { name, keys, unset, reopen }, caller| {
            Ok(caller.handler.set(Port, &name, (table(keys)?, &unset, reopen))?)
        }),
        on(|ask::PortDel { name }, caller| Ok(caller.handler.remove(Port, &name)?)),
        on(|ask::PortList { labels }, caller| {
            let mut ports = caller.handler.ports();
            ports.retain(|port| has(port, &labels));
            Ok(ports)
        }),
        on(|ask::PortGet { name }, caller| Ok(caller.handler.port_state(&name))),
        on(|ask::BridgeAdd { keys }, caller| Ok(caller.handler.add(Bridge, table(keys)?)?)),
        on(|ask::BridgeSet { name, keys, unset, reopen }, caller| {
            Ok(caller.handler.set(Bridge, &name, (table(keys)?, &unset, reopen))?)
        }),
        on(|ask::BridgeDel { name }, caller| Ok(caller.handler.remove(Bridge, &name)?)),
        on(|ask::PatchAdd { keys }, caller| Ok(caller.handler.add(Patch, table(keys)?)?)),
        on(|ask::PatchDel { name }, caller| Ok(caller.handler.remove(Patch, &Part::canonical(Patch, &name))?)),
        on(|ask::EventsList { since, last }, caller| Ok(caller.handler.events(since, last))),
        on(|ask::EventsFollow { since, learned }, caller| {
            let following = caller.handler.follow(since, learned);
            let (follower, seq) = following.map_err(|why| Failure::new(Code::Refused as i64, why.to_string()))?;
            caller.follower = Some(follower);
            Ok(Following { seq })
        }),
    ]
});

fn drops(handler: &dyn Handler) -> Drops {
    let ports = handler.snapshot().ports.into_iter().filter(|port| !port.stage_drops.is_empty());
    ports.map(|port| (port.name, port.stage_drops)).collect()
}

/// Reports whether a port has all of these labels, of these values or of any.
fn has(port: &PortSummary, labels: &BTreeMap<String, Option<String>>) -> bool {
    labels
        .iter()
        .all(|(name, value)| port.labels.get(name).is_some_and(|own| value.as_ref().is_none_or(|value| value == own)))
}

/// Returns keys as the configuration file has them.
fn table(keys: Map<String, Value>) -> Result<Table, Failure> {
    Table::try_from(keys).map_err(|error| Failure::new(code::INVALID_PARAMS, format!("`keys`: {error}")))
}
