//! Opening ports, and opening them again.

use super::fabric::Fabric;
use super::shared::PortShared;
use super::site::PortSite;
use crate::port::{Opened, PortControl};
use crate::spec::PortSpec;
use std::sync::Arc;
use std::time::{Duration, Instant};
use vhost_user::Listener;
use vhost_user::descriptors::{Exhausted, spare_for_port};

/// First pause before another attempt to open a port.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// Longest pause: each is twice as long as the one before.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// A port, open or not. Dropping it closes the port.
pub(super) enum Connection {
    /// The port is open.
    Open(Box<dyn PortControl>),
    /// The port could not be opened: time of the next attempt, and the pause before it.
    Failed { again: Instant, pause: Duration },
}

/// Reason why a port cannot be opened, recorded, or given its mappings.
#[derive(Clone, Debug, thiserror::Error)]
#[error("port \"{port}\" ({driver}): {problem}")]
pub struct OpenError {
    port: String,
    driver: &'static str,
    problem: Problem,
}

/// Reason why something fails.
#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum Problem {
    /// Too few descriptors are left, which concerns many ports at once.
    #[error(transparent)]
    Descriptors(#[from] Exhausted),
    #[error("{0}")]
    Other(String),
}

impl From<String> for Problem {
    fn from(why: String) -> Problem {
        Problem::Other(why)
    }
}

impl Connection {
    /// Has the port opened again, because a worker keeps queues of it, unless these come back with the peer's next session.
    pub(super) fn lose(&mut self, port: &PortShared) {
        if !matches!(self, Connection::Open(control) if control.outlives_sessions()) {
            // Drops the old connection first, as that sets a state too.
            *self = Connection::Failed { again: Instant::now(), pause: FIRST_PAUSE };
            port.set_closed("a worker that does not respond has queues of it");
        }
    }

    /// Returns the socket that the port listens on, if it does so at present.
    pub(super) fn listener(&self) -> Option<Arc<Listener>> {
        match self {
            Connection::Open(control) => control.listener(),
            Connection::Failed { .. } => None,
        }
    }

    /// Reports whether the port was opened, or something sees to it that it will be.
    pub(super) fn is_settled(&self) -> bool {
        !matches!(self, Connection::Failed { .. })
    }
}

/// Opens the port of `spec` and attaches its halves to `fabric`, now or when a peer connects. A port that cannot be
/// opened is down, for the returned reason, and is tried again.
pub(super) fn open(spec: &PortSpec, shared: &Arc<PortShared>, fabric: &Arc<Fabric>) -> (Connection, Option<OpenError>) {
    match attempt(spec, shared, fabric) {
        Ok(Opened { control, trouble }) => {
            (Connection::Open(control), trouble.map(|problem| OpenError::of(spec, problem)))
        }
        Err(problem) => {
            shared.set_closed(problem.to_string());
            let failed = Connection::Failed { again: Instant::now() + FIRST_PAUSE, pause: FIRST_PAUSE };
            (failed, Some(OpenError::of(spec, problem)))
        }
    }
}

/// Tries again to open a port, if its pause is over.
pub(super) fn retry(connection: &mut Connection, spec: &PortSpec, shared: &Arc<PortShared>, fabric: &Arc<Fabric>) {
    let Connection::Failed { again, pause } = connection else { return };
    if Instant::now() < *again {
        return;
    }
    match attempt(spec, shared, fabric) {
        Ok(opened) => {
            tracing::info!("port \"{}\" could be opened", spec.name);
            *connection = Connection::Open(opened.control);
        }
        Err(problem) => {
            shared.set_closed(problem.to_string());
            *pause = (*pause * 2).min(LONGEST_PAUSE);
            *again = Instant::now() + *pause;
        }
    }
}

/// Opens the port, and closes it again if too few descriptors are left then.
fn attempt(spec: &PortSpec, shared: &Arc<PortShared>, fabric: &Arc<Fabric>) -> Result<Opened, Problem> {
    spare_for_port()?;
    let site = PortSite::of(shared, fabric);
    let opened = spec.driver.open(&site)?;
    if let Err(exhausted) = spare_for_port() {
        drop(opened);
        site.clear(site.queues());
        return Err(exhausted.into());
    }
    Ok(opened)
}

impl OpenError {
    pub(super) fn of(spec: &PortSpec, problem: impl Into<Problem>) -> OpenError {
        OpenError { port: spec.name.clone(), driver: spec.driver.name(), problem: problem.into() }
    }
}

/// Returns a line for each of these errors, and a single one for all ports that lack descriptors.
pub(super) fn lines<'e>(errors: impl IntoIterator<Item = &'e OpenError>) -> Vec<String> {
    let (mut lines, mut lacking, mut why) = (Vec::new(), Vec::new(), None);
    for error in errors {
        match &error.problem {
            Problem::Descriptors(exhausted) => {
                lacking.push(error.port.as_str());
                why = Some(exhausted);
            }
            Problem::Other(_) => lines.push(error.to_string()),
        }
    }
    lines.extend(why.map(|why| format!("{} could not be opened: {why}", settings::few("port", &lacking))));
    lines
}
