//! SET_MEM_TABLE, which the library refuses if the message has room for more regions than it names: user-mode Linux always sends
//! room for two.

use super::device::{Device, Refused};
use super::inbox::{HEADER, Header};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use std::fs::File;
use std::io::{IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::os::unix::net::UnixStream;
use vhost::vhost_user::message::{
    MAX_ATTACHED_FD_ENTRIES, MAX_MSG_SIZE, VhostUserHeaderFlag, VhostUserMemoryRegion, VhostUserMsgValidator,
};
use vhost::vhost_user::{Error, VhostUserBackendReqHandlerMut};

/// Bytes of the number of regions and the padding before them, and of a region.
const START: usize = 8;
const REGION: usize = 32;

/// Reads the message of this header, and shares the memory that it names.
pub(super) fn set(stream: &UnixStream, header: Header, device: &mut Device) -> Result<(), Error> {
    const VERSION: u32 = 1;
    let flags = header.flags & !VhostUserHeaderFlag::NEED_REPLY.bits();
    // The rest of a longer message may not have come, and would be waited for.
    if flags != VERSION || header.size as usize > MAX_MSG_SIZE {
        return Err(Error::InvalidMessage);
    }
    let (body, files) = receive(stream, header)?;
    let regions = regions(&body)?;
    if regions.len() != files.len() {
        return Err(Refused::Files { regions: regions.len(), files: files.len() }.into());
    }
    device.set_mem_table(&regions, files, None).map(|_| ())
}

/// Receives a message's body, all of which has arrived, and the descriptors that came with it.
fn receive(mut stream: &UnixStream, header: Header) -> Result<(Vec<u8>, Vec<File>), Refused> {
    let mut message = vec![0; HEADER + header.size as usize];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_ATTACHED_FD_ENTRIES))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let read = recvmsg(stream, &mut [IoSliceMut::new(&mut message)], &mut control, RecvFlags::CMSG_CLOEXEC);
    let read = read.map_err(|error| Refused::Answer(error.into()))?.bytes;
    let rights = |message| match message {
        RecvAncillaryMessage::ScmRights(fds) => Some(fds),
        _ => None,
    };
    let files = control.drain().filter_map(rights).flatten().map(File::from).collect();
    // The header may have come in a message of its own, with the descriptors.
    stream.read_exact(&mut message[read..]).map_err(Refused::Answer)?;
    Ok((message.split_off(HEADER), files))
}

/// Returns the regions that a body names. There may be room for more.
fn regions(body: &[u8]) -> Result<Vec<VhostUserMemoryRegion>, Refused> {
    let count = body.first_chunk().map_or(0, |number| u32::from_ne_bytes(*number) as usize);
    let named = count.checked_mul(REGION).and_then(|len| body.get(START..)?.get(..len));
    let Some(named) = named.filter(|named| !named.is_empty()) else {
        return Err(Refused::Regions { count, len: body.len() });
    };
    let words = |region: &[u8]| {
        let word = |at: usize| u64::from_ne_bytes(std::array::from_fn(|byte| region[8 * at + byte]));
        VhostUserMemoryRegion::new(word(0), word(1), word(2), word(3))
    };
    let all: Vec<_> = named.chunks_exact(REGION).map(words).collect();
    match all.iter().position(|region| !VhostUserMsgValidator::is_valid(region)) {
        Some(number) => Err(Refused::Region(number)),
        None => Ok(all),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(count: u32, regions: &[[u64; 4]]) -> Vec<u8> {
        let words = regions.iter().flatten().flat_map(|word| word.to_ne_bytes());
        [count, 0].into_iter().flat_map(u32::to_ne_bytes).chain(words).collect()
    }

    #[test]
    fn room_for_more_regions_is_no_error() {
        let region = [0x1000, 0x2000, 0x7000, 0];
        let found = regions(&body(1, &[region, [0; 4]])).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!({ found[0].memory_size }, 0x2000);
    }

    #[test]
    fn wrong_numbers_and_regions_are_refused() {
        let good = [0x1000, 0x2000, 0x7000, 0];
        let refused = |count, all: &[[u64; 4]]| regions(&body(count, all)).err().unwrap().to_string();
        assert!(refused(0, &[good]).contains("names 0 regions"));
        assert!(refused(3, &[good, good]).contains("names 3 regions"));
        assert!(refused(u32::MAX, &[good]).contains("regions"));
        assert!(refused(2, &[good, [0x1000, 0, 0x7000, 0]]).contains("region 1"));
        assert!(refused(1, &[[u64::MAX, 2, 0x7000, 0]]).contains("region 0"));
        assert!(regions(&[1, 0]).is_err());
    }
}
