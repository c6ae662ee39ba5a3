//! One session with a frontend.

use super::answer::answer;
use super::control::Control;
use super::device::{Device, Refused};
use super::inbox::{self, HEADER, Header, InboxError};
use super::mem_table;
use super::numbers;
use super::pace::{Pace, Wait};
use crate::own_time::own_time;
use crate::rate_limited_log::RateLimitedLog;
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use vhost::vhost_user::message::FrontendReq;
use vhost::vhost_user::{BackendReqHandler, Error, VhostUserBackendReqHandlerMut};

/// The end of a session.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Ending {
    pub(super) reason: String,
    /// Whether the frontend simply left.
    pub(super) left: bool,
}

/// Serves the frontend behind `stream` until it leaves or breaks the protocol; returns the reason. When this returns,
/// no queue runs and none of the frontend's memory or descriptors is held, unless a queue could not be stopped.
pub(super) fn serve(
    stream: &UnixStream,
    control: &Control,
    device: Device,
    pace: &mut Pace,
    log: &RateLimitedLog,
) -> Ending {
    let device = Arc::new(Mutex::new(device));
    let mut handler = match stream.try_clone() {
        Ok(clone) => BackendReqHandler::from_stream(clone, device.clone()),
        Err(e) => return Ending { reason: format!("cannot duplicate the connection: {e}"), left: false },
    };
    let mut left = false;
    let reason = loop {
        let header = match inbox::next(stream, control) {
            Ok(header) => header,
            Err(InboxError::Closed) => match lock(&device).too_few_queues() {
                Some(hint) => break format!("{}; {hint}", InboxError::Closed),
                None => {
                    left = true;
                    break InboxError::Closed.to_string();
                }
            },
            Err(error) => break error.to_string(),
        };
        let done = match FrontendReq::try_from(header.request) {
            Ok(FrontendReq::SET_VRING_ENABLE) => set_vring_enable(stream, header, &mut lock(&device)),
            Ok(FrontendReq::SET_MEM_TABLE) => set_mem_table(stream, header, &mut lock(&device)),
            Ok(FrontendReq::NET_SET_MTU) => numbers::set_mtu(stream, header, &mut lock(&device)),
            Ok(FrontendReq::SEND_RARP) => numbers::announce(stream, header, &lock(&device)),
            Ok(FrontendReq::SET_STATUS) => numbers::set_status(stream, header, &mut lock(&device)),
            Ok(FrontendReq::GET_STATUS) => numbers::get_status(stream, header, &lock(&device)),
            _ => handler.handle_request(),
        };
        let mut changed = lock(&device);
        changed.report();
        let wait = pace.charge(changed.take_effort(own_time()), Instant::now());
        drop(changed);
        match done {
            Ok(()) => {}
            Err(Error::ReqHandlerError(refused)) => break format!("{header}: {refused}"),
            Err(Error::InvalidMessage) => {
                let len = header.size;
                break format!("{header}: its {len} bytes, its flags or its descriptors are not as the protocol says");
            }
            Err(e) => break format!("{header}: {e}"),
        }
        if let Some(Wait { time, is_first }) = wait {
            if is_first {
                let limit = Pace::limit();
                log.warn(format_args!("the frontend costs more than {limit}: its messages wait"));
            }
            control.sleep(time);
        }
    };
    let reason = match lock(&device).halt_all() {
        Ok(()) => reason,
        Err(unstopped) => format!("{reason}; {unstopped}"),
    };
    Ending { reason, left }
}

fn lock(device: &Mutex<Device>) -> MutexGuard<'_, Device> {
    device.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Handles SET_VRING_ENABLE, which the library refuses before SET_FEATURES, although QEMU sends it then. Reads it
/// without room for descriptors, so that the kernel closes any that are attached.
fn set_vring_enable(mut stream: &UnixStream, header: Header, device: &mut Device) -> Result<(), Error> {
    const BODY: usize = 8;
    if header.size as usize != BODY {
        return Err(Refused::Length { len: header.size, expected: BODY }.into());
    }
    let mut message = [0; HEADER + BODY];
    stream.read_exact(&mut message).map_err(Refused::Answer)?;
    let word = |at: usize| u32::from_ne_bytes([message[at], message[at + 1], message[at + 2], message[at + 3]]);
    let (index, value) = (word(HEADER), word(HEADER + 4));
    let done = match value {
        0 | 1 => device.set_vring_enable(index, value == 1),
        _ => Err(Refused::Enable { index, value }.into()),
    };
    answer(stream, header, device, done.is_ok())?;
    done
}

/// Handles SET_MEM_TABLE.
fn set_mem_table(stream: &UnixStream, header: Header, device: &mut Device) -> Result<(), Error> {
    let done = mem_table::set(stream, header, device);
    answer(stream, header, device, done.is_ok())?;
    done
}
