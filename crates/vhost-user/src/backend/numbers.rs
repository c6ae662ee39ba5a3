//! Messages of one number that the library knows by name only, and would end the session at: the MTU, an announcement, and the status of
//! the guest's driver.

use super::answer::{answer, reply};
use super::device::{Device, Refused};
use super::inbox::{HEADER, Header};
use std::io::Read;
use std::os::unix::net::UnixStream;
use vhost::vhost_user::Error;

/// Bytes of a number.
const NUMBER: usize = 8;

/// Handles NET_SET_MTU. A frontend that asks for more than the port has is told so if it wants an answer, and stays connected.
pub(super) fn set_mtu(stream: &UnixStream, header: Header, device: &mut Device) -> Result<(), Error> {
    let mtu = read(stream, header)?;
    let done = device.check_mtu(mtu);
    if let Err(refused) = &done {
        device.log.warn(format_args!("NET_SET_MTU: {refused}"));
    }
    answer(stream, header, device, done.is_ok())
}

/// Handles SEND_RARP, by which a frontend announces a guest that has moved here. No guest can: no device offers the log of written pages
/// that a live migration needs.
pub(super) fn announce(stream: &UnixStream, header: Header, device: &Device) -> Result<(), Error> {
    read(stream, header)?;
    answer(stream, header, device, true)
}

/// Handles SET_STATUS. The frontend stops queues by messages of their own.
pub(super) fn set_status(stream: &UnixStream, header: Header, device: &mut Device) -> Result<(), Error> {
    device.status = read(stream, header)?;
    answer(stream, header, device, true)
}

/// Handles GET_STATUS.
pub(super) fn get_status(mut stream: &UnixStream, header: Header, device: &Device) -> Result<(), Error> {
    if header.size != 0 {
        return Err(Refused::Length { len: header.size, expected: 0 }.into());
    }
    stream.read_exact(&mut [0; HEADER]).map_err(Refused::Answer)?;
    reply(stream, header, device.status)
}

/// Reads the number of a message, without room for descriptors, so that the kernel closes any that are attached.
fn read(mut stream: &UnixStream, header: Header) -> Result<u64, Refused> {
    if header.size as usize != NUMBER {
        return Err(Refused::Length { len: header.size, expected: NUMBER });
    }
    let mut message = [0; HEADER + NUMBER];
    stream.read_exact(&mut message).map_err(Refused::Answer)?;
    Ok(u64::from_ne_bytes(*message.last_chunk().expect("the number is last")))
}
