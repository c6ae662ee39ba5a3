//! Failures.

use super::options::Endpoint;
use crate::wire::MacAddr;

/// Failure to start a proxy.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // The messages say it.
pub enum ProxyError {
    #[error("can't listen on {endpoint}: {source}")]
    Listen { endpoint: Endpoint, source: std::io::Error },
    #[error("can't watch local sockets: {0}")]
    Watch(std::io::Error),
    #[error("there are no random numbers: {0}")]
    Random(std::io::Error),
    #[error("{0} can't be the address of one host: give a unicast address such as 02:00:00:00:00:01")]
    Mac(MacAddr),
    #[error("port {0} is served twice: name it once only")]
    ServedTwice(u16),
    #[error("neither --serve nor --reach is given: name a service to offer or to reach")]
    Nothing,
}
