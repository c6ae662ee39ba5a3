//! A host that answers ARP and ping.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use nf::function::Responder;
use nf::{Idle, Packet, PortOptions, Ports};

/// A host behind a port of the switch, which answers ARP and ping, until it is dropped.
pub struct Host {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Host {
    /// Starts the host at this socket, with this address.
    pub fn start(socket: PathBuf, address: &str) -> Host {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let responder = Responder::new("02:00:00:00:0a:01".parse().unwrap(), vec![address.parse().unwrap()]);
        let thread = std::thread::spawn(move || {
            let mut ports = Ports::open(nf::Options::new(vec![PortOptions::new(socket)]), &stopped).unwrap();
            let mut burst: Vec<Packet> = Vec::new();
            nf::run(&mut ports, Idle::Sleep, &stopped, |ports| {
                let received = ports[0].receive(&mut burst);
                burst.retain_mut(|packet| {
                    let len = packet.total_len();
                    responder.answer(packet, len)
                });
                ports[0].transmit_all(&mut burst);
                received
            })
            .unwrap();
        });
        Host { stop, thread: Some(thread) }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(Err(panic)) = self.thread.take().map(JoinHandle::join)
            && !std::thread::panicking()
        {
            std::panic::resume_unwind(panic);
        }
    }
}
