//! Operations on a guest's network.

use std::time::{Duration, Instant};

use super::{PATIENCE, Vm};
use crate::SOON;
use lab::{Error, Result};

/// Port that a file is received on.
const PORT: u16 = 5001;

/// Counts of `ping`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PingReport {
    /// Requests sent.
    pub sent: u32,
    /// Answers received.
    pub received: u32,
}

impl Vm {
    /// Brings `device` up with an IPv4 address such as `192.0.2.1/24`.
    pub fn set_address(&self, device: &str, address: &str) -> Result<()> {
        self.check(&format!("ip address add {address} dev {device} && ip link set {device} up")).map(drop)
    }

    /// Reads a file of `/sys/class/net/DEVICE`, such as `carrier` or `statistics/rx_packets`.
    pub fn device_attribute(&self, device: &str, attribute: &str) -> Result<String> {
        self.check(&format!("cat /sys/class/net/{device}/{attribute}"))
    }

    /// Sends `count` echo requests, five per second, and counts the answers. Lost ones are no error here.
    pub fn ping(&self, address: &str, count: u32) -> Result<PingReport> {
        let job = self.start(&format!("ping -c {count} -i 0.2 -W 5 {address}"))?;
        let outcome = self.finish(job, PATIENCE + Duration::from_secs(count.into()))?;
        PingReport::parse(&outcome.output)
    }

    /// Sends echo requests until `answers` have come: for a network that may lose some, as its switch starts again or is flooded.
    pub fn ping_until(&self, address: &str, answers: u32) -> Result<()> {
        let (began, mut received) = (Instant::now(), 0);
        while received < answers {
            if began.elapsed() > SOON {
                return Err(Error::malformed("answers to ping", format!("{received} of {answers} within {SOON:?}")));
            }
            received += self.ping(address, answers - received)?.received;
        }
        Ok(())
    }
}

impl PingReport {
    fn parse(output: &str) -> Result<Self> {
        let number_before = |mark: &str| {
            let (before, _) = output.split_once(mark)?;
            before.rsplit([' ', '\n']).next()?.parse().ok()
        };
        match (number_before(" packets transmitted"), number_before(" packets received")) {
            (Some(sent), Some(received)) => Ok(Self { sent, received }),
            _ => Err(Error::malformed("the output of ping", output)),
        }
    }
}

/// Makes a file of `size` random bytes in one guest, sends it over TCP to the other one at `address`, and compares the
/// checksums.
pub fn move_file(from: &Vm, to: &Vm, address: &str, size: usize, timeout: Duration) -> Result<()> {
    // busybox's nc closes its side as soon as its input ends, and then the sender stops: so its input is a FIFO that never
    // ends.
    let listen = format!(
        "[ -p /tmp/silence ] || mkfifo /tmp/silence; nc -l -p {PORT} <>/tmp/silence >/tmp/received && sha256sum </tmp/received"
    );
    let listener = to.start(&listen)?;
    let made = from.check(&format!("head -c {size} /dev/urandom >/tmp/sent && sha256sum </tmp/sent"))?;
    // The listener may not be ready yet; a refused connection sent nothing, so it can be retried.
    let send = format!("for try in $(seq 300); do nc {address} {PORT} </tmp/sent && exit 0; sleep 0.2; done; exit 1");
    let sent = from.start(&send).and_then(|job| from.checked(job, timeout));
    if let Err(error) = sent {
        // Free the port for another attempt.
        to.kill(&listener)?;
        return Err(error);
    }
    let received = to.checked(listener, timeout)?;
    from.check("rm /tmp/sent")?;
    to.check("rm /tmp/received")?;
    if made == received {
        return Ok(());
    }
    let problem = format!("its SHA-256 was {made} in {} and is {received} in {}", from.name(), to.name());
    Err(Error::malformed(format!("the file of {size} bytes"), problem))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_of_ping_is_read() {
        let output = "PING 192.0.2.2\n\n--- 192.0.2.2 ping statistics ---\n\
                      5 packets transmitted, 3 packets received, 40% packet loss\n";
        assert_eq!(PingReport::parse(output).unwrap(), PingReport { sent: 5, received: 3 });
        assert!(PingReport::parse("ping: bad address").is_err());
    }
}
