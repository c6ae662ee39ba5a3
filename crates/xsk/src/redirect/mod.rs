//! The XDP program of an interface that redirects frames to sockets, and the map of these sockets.

mod assembler;
mod bpf;
mod btf;
mod program;

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use crate::{Error, Interface, Result, Rx};
use assembler::Instruction;
use bpf::ProgramKind;
pub use program::{Groups, Steering};

/// Size of the buffer for the verifier's log, in bytes.
const LOG_BYTES: usize = 64 << 10;

/// Requested place of the program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Attach {
    /// In the driver if it supports this, else in the kernel.
    #[default]
    Auto,
    /// In the driver, before the kernel processes a frame.
    Native,
    /// In the kernel, once a frame is a `sk_buff`: works on any interface, but is slow and allows copy mode only.
    Generic,
}

/// Actual place of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attached {
    /// In the driver.
    Native,
    /// In the kernel.
    Generic,
}

/// Parameters of a redirect.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RedirectConfig {
    /// Requested place of the program.
    pub attach: Attach,
    /// Support for frames of several parts: drivers require it at an MTU larger than a page.
    pub multi_buffer: bool,
    /// Whether a VLAN tag that the driver keeps beside a frame is put back into it, as far as possible: see [`Redirect::puts_tags_back`].
    pub tags: bool,
    /// Frames to redirect to the sockets.
    pub steering: Steering,
}

/// A redirect program, attached to an interface until this is dropped.
///
/// Frames of queues without a socket go to the kernel, as if there were no program. Releasing a queue removes its
/// socket.
#[derive(Debug)]
pub struct Redirect {
    link: OwnedFd,
    sockets: OwnedFd,
    interface: Interface,
    attached: Attached,
    variant: Variant,
    native_refused: Option<io::Error>,
}

/// Form of the program that does not change.
#[derive(Clone, Copy, Debug)]
struct Variant {
    multi_buffer: bool,
    /// The number of the function that reads a frame's tag, if tags are put back.
    read_tag: Option<i32>,
}

impl Redirect {
    /// Attaches the program to an interface in the calling thread's network namespace.
    pub fn attach(interface: &Interface, config: &RedirectConfig) -> Result<Self> {
        let sockets = bpf::create_socket_map(interface.queues)
            .map_err(|source| denied(&interface.name, "create a map of AF_XDP sockets", source))?;
        let plain = Variant { multi_buffer: config.multi_buffer, read_tag: None };
        // A program that puts tags back runs natively only. If something prevents that, the plain one shows it.
        let read_tag = if config.tags && config.attach != Attach::Generic { btf::read_tag() } else { None };
        if let Some(read_tag) = read_tag {
            let variant = Variant { read_tag: Some(read_tag), ..plain };
            if let Ok(program) = load(interface, variant, &config.steering, &sockets)
                && let Ok(link) = bpf::link(program.as_fd(), interface.index, bpf::NATIVE)
            {
                let (interface, attached) = (interface.clone(), Attached::Native);
                return Ok(Self { link, sockets, interface, attached, variant, native_refused: None });
            }
        }
        let program = load(interface, plain, &config.steering, &sockets)?;
        let try_one = |flags| bpf::link(program.as_fd(), interface.index, flags);
        let mut native_refused = None;
        let (attached, link) = match config.attach {
            Attach::Native => (Attached::Native, try_one(bpf::NATIVE)),
            Attach::Generic => (Attached::Generic, try_one(bpf::GENERIC)),
            Attach::Auto => match try_one(bpf::NATIVE) {
                Err(error) if is_drivers(&error) => {
                    native_refused = Some(error);
                    (Attached::Generic, try_one(bpf::GENERIC))
                }
                result => (Attached::Native, result),
            },
        };
        let link = link.map_err(|source| explain(&interface.name, attached, source))?;
        let interface = interface.clone();
        Ok(Self { link, sockets, interface, attached, variant: plain, native_refused })
    }

    /// Returns the place in which the program runs.
    pub fn attached(&self) -> Attached {
        self.attached
    }

    /// Returns the driver's error, if [`Attach::Auto`] tried the driver and failed.
    pub fn native_refused(&self) -> Option<&io::Error> {
        self.native_refused.as_ref()
    }

    /// Reports whether VLAN tags beside frames are put back. It takes a program that runs natively, a driver that can tell (veth and a
    /// few of network cards; of one that can't, frames arrive without their tags), and Linux 6.8 with a description of its types (BTF).
    pub fn puts_tags_back(&self) -> bool {
        self.variant.read_tag.is_some()
    }

    /// Returns the interface.
    pub fn interface(&self) -> &Interface {
        &self.interface
    }

    /// Redirects the frames of a queue to its socket from now on.
    pub fn insert(&self, rx: &Rx) -> Result<()> {
        let bound = rx.bound();
        if bound.index != self.interface.index {
            return Err(Error::Config {
                interface: self.interface.name.clone(),
                problem: format!("a socket of {:?} can't take its frames; use one of its own", bound.interface),
            });
        }
        bpf::insert(&self.sockets, bound.queue, rx.as_fd()).map_err(Error::system(
            &self.interface.name,
            "redirect a queue to its socket",
            "check that the interface had this queue when the program was attached",
        ))
    }

    /// Returns the frames of a queue to the kernel. Does nothing if the queue has no socket.
    pub fn remove(&self, queue: u32) -> Result<()> {
        match bpf::remove(&self.sockets, queue) {
            Err(error) if !matches!(error.raw_os_error(), Some(libc::ENOENT | libc::EINVAL)) => {
                Err(Error::system(&self.interface.name, "take a queue out of the redirect", "try again")(error))
            }
            _ => Ok(()),
        }
    }

    /// Changes the steering. A program is attached at every moment, and when this returns, none of the previously
    /// chosen frames is still on its way to a socket.
    pub fn steer(&self, steering: &Steering) -> Result<()> {
        let name = &self.interface.name;
        let program = load(&self.interface, self.variant, steering, &self.sockets)?;
        bpf::update_link(&self.link, program.as_fd()).map_err(Error::system(
            name,
            "change the redirect",
            "check that the interface still exists (`ip link`)",
        ))?;
        // The kernel replaces the program without waiting for running instances (`bpf_xdp_link_update`). Closing any
        // packet socket waits for them (`synchronize_net` in `packet_release`), so open one and close it.
        let waits = socket_with(AddressFamily::PACKET, SocketType::RAW, SocketFlags::CLOEXEC, None);
        waits.map(drop).map_err(Error::system(name, "wait for the redirect to change", "CAP_NET_RAW is needed"))
    }
}

impl Drop for Redirect {
    fn drop(&mut self) {
        // Closing the link does this too, but late if a child process between its fork and exec holds a copy. If this
        // fails, the interface is gone.
        let _ = bpf::detach(&self.link);
    }
}

fn load(interface: &Interface, variant: Variant, steering: &Steering, sockets: &OwnedFd) -> Result<OwnedFd> {
    if let Steering::Destinations { macs, .. } = steering
        && macs.len() > Steering::MOST_MACS
    {
        let problem = format!("frames can be steered by {} MAC addresses, not by {}", Steering::MOST_MACS, macs.len());
        return Err(Error::Config { interface: interface.name.clone(), problem });
    }
    let code = program::redirect(steering, sockets.as_raw_fd(), variant.read_tag);
    let bound_to = variant.read_tag.map(|_| interface.index);
    load_code(&interface.name, &code, ProgramKind { multi_buffer: variant.multi_buffer, bound_to })
}

fn load_code(interface: &str, code: &[Instruction], kind: ProgramKind) -> Result<OwnedFd> {
    bpf::load_program(code, kind, &mut []).or_else(|error| {
        if !matches!(error.raw_os_error(), Some(libc::EACCES | libc::EINVAL)) {
            return Err(denied(interface, "load the XDP program", error));
        }
        // Loads it again to get the reason.
        let mut log = vec![0; LOG_BYTES];
        bpf::load_program(code, kind, &mut log).map_err(|source| {
            let said = log.split(|&byte| byte == 0).next().unwrap_or_default();
            Error::Program { source, log: String::from_utf8_lossy(said).into_owned() }
        })
    })
}

/// Reports whether the driver refused the program, so that generic mode is worth a try.
fn is_drivers(error: &io::Error) -> bool {
    !matches!(error.raw_os_error(), Some(libc::EBUSY | libc::EEXIST | libc::EPERM | libc::ENODEV))
}

fn explain(interface: &str, attached: Attached, source: io::Error) -> Error {
    match (source.raw_os_error(), attached) {
        (Some(libc::EBUSY | libc::EEXIST), _) => Error::ProgramBusy { interface: interface.to_owned(), source },
        (Some(libc::ENODEV), _) => Error::NoInterface { interface: interface.to_owned() },
        (Some(libc::EOPNOTSUPP), Attached::Native) => Error::Unsupported {
            interface: interface.to_owned(),
            what: "XDP programs in its driver",
            help: "attach the program generically",
            source,
        },
        // Drivers report an MTU that is too large with different errors: ERANGE, EINVAL, EOPNOTSUPP, ...
        (_, Attached::Native) => Error::Unsupported {
            interface: interface.to_owned(),
            what: "the XDP program in its driver as it is set up",
            help: "lower the MTU or ask for multi_buffer, give it as many queues as CPUs or as its peer has, see the \
                   kernel's log, or attach the program generically",
            source,
        },
        (_, Attached::Generic) => denied(interface, "attach the XDP program", source),
    }
}

fn denied(interface: &str, action: &'static str, source: io::Error) -> Error {
    if source.raw_os_error() == Some(libc::EPERM) {
        return Error::Permission { action, capability: "CAP_BPF and CAP_NET_ADMIN, or CAP_SYS_ADMIN", source };
    }
    Error::system(interface, action, "check the memory limits, and that the kernel has BPF_LINK for XDP (Linux 5.9)")(
        source,
    )
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn the_verifier_is_quoted() {
        let mut asm = assembler::Assembler::default();
        asm.load(assembler::Width::Word, assembler::Register::R0, assembler::Register::R5, 0);
        asm.exit();
        let error =
            load_code("eth0", &asm.finish(), ProgramKind::default()).expect_err("a program that reads from nowhere");
        assert!(error.to_string().contains("R5"), "{error} (this test needs to run as root)");
    }

    #[test]
    fn the_verifier_takes_every_kind_of_program() {
        let sockets = bpf::create_socket_map(1).expect("this test needs to run as root");
        for groups in [Groups::None, Groups::Broadcast, Groups::All] {
            for count in [0, 1, Steering::MOST_MACS] {
                let macs = vec![[2, 0, 0, 0xff, 0xff, 1]; count];
                let code = program::redirect(&Steering::Destinations { macs, groups }, sockets.as_raw_fd(), None);
                for multi_buffer in [false, true] {
                    load_code("eth0", &code, ProgramKind { multi_buffer, bound_to: None }).unwrap();
                }
            }
        }
    }
}
