//! A function's membership in a group whose functions exchange buffers (docs/exchange.md).

use super::error::{FrontendError, refused};
use crate::shared_object::SharedObject;
use rustix::fs::fstat;
use std::fs::File;
use std::io::{self, Read};
use std::sync::{Arc, Mutex, PoisonError};
use vhost::vhost_user::message::VhostUserSharedMsg;
use vhost::vhost_user::{Frontend, VhostUserFrontend};
use virtqueue::exchange::Grant;
use virtqueue::memory::{Memory, Region};

/// Longest file of a grant: all numbers of buffers, and the header before them.
const LONGEST: u64 = 256 << 10;

/// The membership of a function, whose links all join the same group.
#[derive(Debug)]
pub struct Membership {
    token: u64,
    wanted: u16,
    member: Mutex<Option<Arc<Member>>>,
}

/// The memory and the buffers of a function in its group.
#[derive(Debug)]
pub struct Member {
    /// The buffers, and those of them that are the function's own.
    pub grant: Grant,
    /// The group's memory, at [`Member::ADDRESS`].
    pub memory: Arc<Memory>,
}

impl Member {
    /// Guest address of the group's memory: after all arenas.
    pub const ADDRESS: u64 = 1 << 40;
}

impl Membership {
    /// Returns the membership of a function that wants this number of buffers.
    pub fn new(wanted: u16) -> io::Result<Membership> {
        let mut token = [0; 8];
        rustix::rand::getrandom(&mut token, rustix::rand::GetRandomFlags::empty())?;
        Ok(Membership { token: u64::from_ne_bytes(token), wanted, member: Mutex::default() })
    }

    /// Returns the memory and the grant that it shares with its group, once a link has joined.
    pub fn member(&self) -> Option<Arc<Member>> {
        self.member.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Joins the group of `device`, which must be that of the links before; returns its memory.
    pub(super) fn join(&self, device: &mut Frontend) -> Result<Region, FrontendError> {
        let mut get = |object: SharedObject| {
            let asked = VhostUserSharedMsg { uuid: object.name() };
            device.get_shared_object(&asked).map_err(refused("GET_SHARED_OBJECT (its log says why)"))
        };
        let mut description = Vec::new();
        let file = get(SharedObject::Grant { token: self.token, wanted: self.wanted })?;
        let read = |source| FrontendError::System { action: "read what the group grants", source };
        file.take(LONGEST).read_to_end(&mut description).map_err(read)?;
        let memory = get(SharedObject::Memory)?;
        let mut member = self.member.lock().unwrap_or_else(PoisonError::into_inner);
        let known = match &*member {
            Some(known) => known,
            None => {
                let grant = Grant::decode(&description).ok_or(FrontendError::Grant)?;
                member.insert(Arc::new(Member { memory: Arc::new(map(&memory)?), grant }))
            }
        };
        let region = &known.memory.regions()[0];
        let identity = |stat: rustix::fs::Stat| (stat.st_dev, stat.st_ino);
        if fstat(&memory).map(identity).ok() != fstat(&*region.file).map(identity).ok() {
            return Err(FrontendError::OtherGroup);
        }
        Ok(region.clone())
    }
}

/// Maps the group's memory.
fn map(file: &File) -> Result<Memory, FrontendError> {
    let failed = |source| FrontendError::System { action: "use the group's memory", source };
    let len = file.metadata().map_err(failed)?.len();
    let file = Arc::new(file.try_clone().map_err(failed)?.into());
    let region = Region { guest_addr: Member::ADDRESS, user_addr: Member::ADDRESS, len, offset: 0, file };
    Memory::map(vec![region]).map_err(|error| failed(io::Error::other(error)))
}
