//! Options from text.

use super::{Endpoint, Prefix, Reach, Serve};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::str::FromStr;

/// The reason why an option can't be read.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // The messages say what the fields are.
pub enum ParseError {
    #[error("there is no `=` in `{0}`: write {1}")]
    NoTarget(String, &'static str),
    #[error("`{0}` is not a port: write a number from 1 to 65535")]
    Port(String),
    #[error("`{0}` is not a local socket: write unix:PATH or 127.0.0.1:PORT")]
    Endpoint(String),
    #[error("{0} is not a loopback address: the service must be on this machine, such as at 127.0.0.1")]
    NotLocal(SocketAddr),
    #[error("the path of a unix socket has 1 to 107 bytes, and `{0}` has {len}", len = .0.len())]
    Path(String),
    #[error("`{0}` is not the address of a service: write one such as 10.0.0.3:6379")]
    Service(String),
    #[error("`{0}` is not an address with a prefix: write one such as 10.0.0.2/24")]
    Prefix(String),
    #[error("{0} can't be the address of a host")]
    Host(Ipv4Addr),
}

/// Longest path of a unix socket (unix(7)).
const PATH: usize = 107;

impl FromStr for Endpoint {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Endpoint, ParseError> {
        if let Some(path) = text.strip_prefix("unix:") {
            let fits = (1..=PATH).contains(&path.len());
            return if fits { Ok(Endpoint::Unix(path.into())) } else { Err(ParseError::Path(path.into())) };
        }
        let address: SocketAddr = text.parse().map_err(|_| ParseError::Endpoint(text.into()))?;
        if !address.ip().is_loopback() {
            return Err(ParseError::NotLocal(address));
        }
        if address.port() == 0 { Err(ParseError::Port("0".into())) } else { Ok(Endpoint::Tcp(address)) }
    }
}

impl FromStr for Serve {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Serve, ParseError> {
        let (port, to) =
            text.split_once('=').ok_or_else(|| ParseError::NoTarget(text.into(), "6379=unix:/run/redis.sock"))?;
        let port = port.parse().ok().filter(|&port| port != 0).ok_or_else(|| ParseError::Port(port.into()))?;
        Ok(Serve { port, to: to.parse()? })
    }
}

impl FromStr for Reach {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Reach, ParseError> {
        // A path may have an equals sign, an address has none.
        let (at, to) =
            text.rsplit_once('=').ok_or_else(|| ParseError::NoTarget(text.into(), "unix:/run/r.sock=10.0.0.3:6379"))?;
        let to: SocketAddrV4 = to.parse().map_err(|_| ParseError::Service(to.into()))?;
        if to.port() == 0 {
            return Err(ParseError::Port("0".into()));
        }
        host(*to.ip())?;
        Ok(Reach { at: at.parse()?, to })
    }
}

impl FromStr for Prefix {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Prefix, ParseError> {
        let parts = text.split_once('/').and_then(|(address, len)| Some((address.parse().ok()?, len.parse().ok()?)));
        let (address, len) = parts.filter(|&(_, len)| len <= 32).ok_or_else(|| ParseError::Prefix(text.into()))?;
        Ok(Prefix { address: host(address)?, len })
    }
}

/// Returns the address if a host can have it.
fn host(address: Ipv4Addr) -> Result<Ipv4Addr, ParseError> {
    let none = address.is_unspecified() || address.is_multicast() || address.is_broadcast() || address.is_loopback();
    if none { Err(ParseError::Host(address)) } else { Ok(address) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error<T: FromStr<Err = ParseError> + std::fmt::Debug>(text: &str) -> String {
        text.parse::<T>().unwrap_err().to_string()
    }

    #[test]
    fn services_are_read() {
        let unix = Serve { port: 6379, to: Endpoint::Unix("/run/redis.sock".into()) };
        assert_eq!("6379=unix:/run/redis.sock".parse(), Ok(unix));
        let tcp = Serve { port: 80, to: Endpoint::Tcp("127.0.0.1:8080".parse().unwrap()) };
        assert_eq!("80=127.0.0.1:8080".parse(), Ok(tcp));
        let six = Serve { port: 80, to: Endpoint::Tcp("[::1]:8080".parse().unwrap()) };
        assert_eq!("80=[::1]:8080".parse(), Ok(six));
        assert!(error::<Serve>("6379").contains("no `=`"));
        assert!(error::<Serve>("0=unix:/a").contains("1 to 65535"));
        assert!(error::<Serve>("70000=unix:/a").contains("1 to 65535"));
        assert!(error::<Serve>("1=/run/redis.sock").contains("unix:PATH"));
        assert!(error::<Serve>("1=unix:").contains("has 0"));
        assert!(error::<Serve>(&format!("1=unix:/{}", "a".repeat(107))).contains("has 108"));
        assert!(error::<Serve>("1=10.0.0.1:80").contains("not a loopback address"));
        assert!(error::<Serve>("1=127.0.0.1:0").contains("1 to 65535"));
    }

    #[test]
    fn services_to_reach_are_read() {
        let to = "10.0.0.3:6379".parse().unwrap();
        let odd = Reach { at: Endpoint::Unix("/run/a=b".into()), to };
        assert_eq!("unix:/run/a=b=10.0.0.3:6379".parse(), Ok(odd));
        let tcp = Reach { at: Endpoint::Tcp("127.0.0.1:7000".parse().unwrap()), to };
        assert_eq!("127.0.0.1:7000=10.0.0.3:6379".parse(), Ok(tcp));
        assert!(error::<Reach>("unix:/a=redis").contains("10.0.0.3:6379"));
        assert!(error::<Reach>("unix:/a=10.0.0.3:0").contains("1 to 65535"));
        assert!(error::<Reach>("unix:/a=224.0.0.1:1").contains("can't be the address"));
    }

    #[test]
    fn prefixes_are_read() {
        assert_eq!("10.0.0.2/24".parse(), Ok(Prefix { address: Ipv4Addr::new(10, 0, 0, 2), len: 24 }));
        for wrong in ["10.0.0.2", "10.0.0.2/33", "10.0.0/8", "/8", "::1/64"] {
            assert!(error::<Prefix>(wrong).contains("10.0.0.2/24"), "{wrong}");
        }
        assert!(error::<Prefix>("0.0.0.0/0").contains("can't be the address"));
    }
}
