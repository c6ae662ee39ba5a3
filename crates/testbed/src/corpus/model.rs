//! A model of each path: it predicts the fate of every frame from the frames alone, without asking the switch.

use super::fate::{Fate, Side};
use super::headers::vid;
use super::stations::Stations;
use packet::{MAX_FRAME, MIN_FRAME, ethertype, header_len};
use std::borrow::Cow;

/// A model of a path.
#[derive(Debug)]
pub struct PathModel {
    /// Length in bytes of the longest frame that it carries.
    longest: usize,
    /// The addresses behind each guest, if it is a bridge.
    stations: Option<Stations>,
    /// VLAN that untagged frames travel in, if it has to be one.
    vlan: Option<u16>,
}

impl PathModel {
    /// Returns the model of a path that carries frames of all lengths from one guest to the other.
    pub fn wire() -> PathModel {
        PathModel { longest: MAX_FRAME as usize, stations: None, vlan: None }
    }

    /// Returns the model of a bridge.
    pub fn bridge() -> PathModel {
        PathModel { stations: Some(Stations::default()), ..PathModel::wire() }
    }

    /// Returns the model of a path that carries frames of at most `longest` bytes.
    pub fn up_to(longest: usize) -> PathModel {
        PathModel { longest, ..PathModel::wire() }
    }

    /// Returns the model of a path that untagged frames travel along in this VLAN.
    pub fn tagged(vlan: u16) -> PathModel {
        PathModel { vlan: Some(vlan), ..PathModel::wire() }
    }

    /// Returns the guest that has to send a frame.
    pub fn side(&self, frame: &[u8]) -> Side {
        self.stations.as_ref().map_or(0, |stations| stations.side(frame))
    }

    /// Returns the fate of a frame that this guest sends next.
    pub fn send(&mut self, from: Side, frame: &[u8]) -> Fate {
        let len = self.put(frame).len();
        if len < MIN_FRAME as usize {
            return Fate::Dropped("runt");
        }
        if len > self.longest {
            return Fate::Dropped("too-long");
        }
        self.stations.as_mut().map_or(Fate::Carried, |stations| stations.send(from, frame))
    }

    /// Returns a frame as it is sent.
    pub fn put<'f>(&self, frame: &'f [u8]) -> Cow<'f, [u8]> {
        match self.vlan {
            Some(vlan) if frame.len() >= MIN_FRAME as usize && vid(frame).is_none() => {
                let (addresses, rest) = frame.split_at(header_len::MAC_ADDRESSES);
                [addresses, &ethertype::VLAN.to_be_bytes(), &vlan.to_be_bytes(), rest].concat().into()
            }
            _ => frame.into(),
        }
    }

    /// Returns the frame that was sent so.
    pub fn take<'f>(&self, sent: &'f [u8]) -> Cow<'f, [u8]> {
        match self.vlan {
            Some(vlan) if vid(sent) == Some(vlan) => {
                let (addresses, rest) = sent.split_at(header_len::MAC_ADDRESSES);
                [addresses, &rest[header_len::VLAN_TAG..]].concat().into()
            }
            _ => sent.into(),
        }
    }

    /// Returns the lane of a frame: frames of one lane stay in order. Where frames travel in VLANs, each is a lane, since packets of a
    /// service chain are sent together, and may overtake others.
    pub fn lane(&self, frame: &[u8]) -> u16 {
        self.vlan.map_or(0, |vlan| vid(frame).unwrap_or(vlan))
    }
}
