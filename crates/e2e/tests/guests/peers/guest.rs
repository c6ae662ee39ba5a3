//! The other end of a switch's port: sends and receives numbered frames.

use e2e::virtio;
use lab::netns::Namespace;
use lab::{Error, Result};
use netdev::{Link, PacketRx, PacketTx, RxConfig, TxConfig};
use std::path::Path;

/// EtherType of the frames: one for local experiments (IEEE 802).
const ETHERTYPE: [u8; 2] = [0x88, 0xb5];

/// Length of the frames.
const LEN: usize = 100;

/// A frame of these tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Number of the guest that it is for; none if it is for all.
    pub to: Option<u8>,
    /// Number of the guest that sent it.
    pub from: u8,
    /// Number of the round in which it was sent.
    pub round: u32,
}

impl Message {
    fn frame(self) -> Vec<u8> {
        let mut frame = match self.to {
            Some(to) => mac(to).to_vec(),
            None => vec![0xff; 6],
        };
        frame.extend(mac(self.from));
        frame.extend(ETHERTYPE);
        frame.extend(self.round.to_be_bytes());
        frame.resize(LEN, 0xa5);
        frame
    }

    /// Returns the message in a frame, unless the frame is of another kind.
    fn of(frame: &[u8]) -> Option<Message> {
        if frame.get(12..14)? != ETHERTYPE {
            return None;
        }
        assert!(frame.len() == LEN && frame[18..].iter().all(|&byte| byte == 0xa5), "a damaged frame: {frame:02x?}");
        let to = (frame[..6] != [0xff; 6]).then_some(frame[5]);
        let round = u32::from_be_bytes(frame[14..18].try_into().expect("these are four bytes"));
        Some(Message { to, from: frame[11], round })
    }
}

fn mac(number: u8) -> [u8; 6] {
    [2, 0, 0, 0, 0x0e, number]
}

/// The other end of a port.
pub enum Guest {
    Virtio(Box<virtio::Guest>),
    Interface { receive: Box<PacketRx>, send: PacketTx },
}

impl Guest {
    /// Connects to the socket of a vhost-user port.
    pub fn connect(socket: &Path) -> Result<Guest> {
        Ok(Guest::Virtio(Box::new(virtio::Options::new(socket).connect()?)))
    }

    /// Opens an interface in a namespace, on the other side of the switch's cable.
    pub fn open(namespace: &Namespace, interface: &str) -> Result<Guest> {
        let open = || -> netdev::Result<Guest> {
            let link = Link::named(interface)?;
            let receive = Box::new(PacketRx::open(&link, 1, &RxConfig::default())?.remove(0));
            Ok(Guest::Interface { receive, send: PacketTx::open(&link, &TxConfig::default())? })
        };
        namespace.within(open)?.map_err(Error::other("opening an interface"))
    }

    /// Sends a message; it may be lost.
    pub fn send(&mut self, message: Message) -> Result<()> {
        let frame = message.frame();
        match self {
            Guest::Virtio(guest) => {
                guest.reap()?;
                guest.send(&[&frame], 1)?;
                guest.flush();
            }
            Guest::Interface { send, .. } => {
                if send.push(&[&frame]).is_ok() {
                    let _ = send.flush().map_err(Error::io("sending a frame"))?;
                }
            }
        }
        Ok(())
    }

    /// Returns the messages that have arrived.
    pub fn receive(&mut self) -> Result<Vec<Message>> {
        let mut messages = Vec::new();
        match self {
            Guest::Virtio(guest) => {
                guest.receive(usize::MAX, |frame| {
                    messages.extend(Message::of(frame));
                    Ok(())
                })?;
            }
            Guest::Interface { receive, .. } => {
                messages.extend(receive.burst(usize::MAX).filter_map(|frame| Message::of(frame.bytes())));
                receive.release();
            }
        }
        Ok(messages)
    }
}
