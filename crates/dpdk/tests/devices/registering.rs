//! Drivers that register the memory of their pools with the NIC, and look there for the memory of each buffer. No such NIC is here: other
//! drivers stand for them, and the tests look for memory as they do.

use crate::cable::{cable, pass};
use crate::memory::Memory;
use crate::native::Library;
use crate::process::in_a_namespace_with;
use crate::rig::{GUEST_SIZE, GUEST_START, OWN_START, Port, frame, start, wait};
use dpdk::{Kind, Loan, ToSend};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::Ordering;

const RECEIVE: &CStr = c"millrace_receive";
const TRANSMIT: &CStr = c"millrace_transmit";

/// Finds memory in pools.
struct Pools(unsafe extern "C" fn(*const c_char, u64, u64) -> c_int);

impl Pools {
    /// Loads `pools.c`.
    fn load() -> Pools {
        let symbol = Library::built("pools.c", "-lrte_mempool").symbol(c"pools_with");
        // SAFETY: the function has this form.
        Pools(unsafe {
            std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*const c_char, u64, u64) -> c_int>(symbol)
        })
    }

    /// Returns how many pools of this kind have all bytes of a memory.
    fn with(&self, ops: &CStr, memory: &Memory, buffers: u64) -> c_int {
        // SAFETY: DPDK is started, and nothing changes pools meanwhile.
        unsafe { (self.0)(ops.as_ptr(), memory.addr(0), buffers * memory.size as u64) }
    }
}

#[test]
fn pools_have_the_memory_that_was_shared_before_a_start() {
    in_a_namespace_with("net_af_packet", || {
        let dpdk = start();
        let (mut here, mut there) = cable(&dpdk);
        let pools = Pools::load();
        assert!(there.device.info().registers && there.device.has_registered());
        assert_eq!([RECEIVE, TRANSMIT].map(|ops| pools.with(ops, &there.own, 1024)), [1, 1]);

        let guest = Memory::new(64, GUEST_SIZE);
        let is_gone = guest.is_gone();
        let region = guest.share(&there.device);
        let loan = |id: u32, start: u16| Loan::new(guest.addr(id), GUEST_SIZE as u32, start, id);
        assert!(there.receive.refuses(Kind::Guest, &loan(1, GUEST_START)), "it is not registered yet");
        assert!(!there.device.has_registered());
        assert_eq!(pools.with(RECEIVE, &guest, 64), 0);
        there.register();
        assert_eq!([RECEIVE, TRANSMIT].map(|ops| pools.with(ops, &guest, 64)), [1, 1]);
        // The driver looks for the headroom, of which a part lies before the guest's first buffer.
        assert!(there.receive.refuses(Kind::Guest, &loan(0, GUEST_START)));
        assert!(!there.receive.refuses(Kind::Guest, &loan(0, OWN_START)));
        pass(&mut here, &mut there, &guest, 3000, |_, _| {});
        assert_eq!(there.receive.counts().dropped, 0);

        assert_eq!(there.reclaimed().len(), 48);
        drop((region, guest));
        assert!(is_gone.load(Ordering::SeqCst));
        there.register();
        let other = Memory::new(64, GUEST_SIZE);
        assert_eq!(pools.with(RECEIVE, &other, 64), 0);
        let _region = other.share(&there.device);
        there.register();
        pass(&mut here, &mut there, &other, 300, |_, _| {});
    });
}

#[test]
fn a_start_that_fails_half_way_keeps_all_buffers() {
    in_a_namespace_with("net_af_packet", || {
        let dpdk = start();
        let (mut here, mut there) = cable(&dpdk);
        let guest = Memory::new(64, GUEST_SIZE);
        let _region = guest.share(&there.device);
        there.register();
        there.device.stop().unwrap();
        there.lend(&guest, 1..49);
        let scrap = Memory::new(1, 4096);
        let region = scrap.share_scrap(&there.device);
        let said = there.device.start().err().unwrap().to_string();
        assert!(said.contains("no memory for a pool"), "{said}");
        drop(region);
        there.register();
        assert_eq!(there.reclaimed().len(), 48);
        pass(&mut here, &mut there, &guest, 300, |_, _| {});
    });
}

#[test]
fn frames_in_memory_that_is_not_registered_are_not_sent() {
    in_a_namespace_with("net_af_packet", || {
        let dpdk = start();
        let (mut here, _there) = cable(&dpdk);
        let source = Memory::new(16, 2048);
        let region = source.share(&here.device);
        let send = |port: &mut Port| {
            source.write(source.addr(0), &frame(1, 100));
            port.send(&[ToSend::new(source.addr(0), 100, 7)]);
            wait("its id", || port.done() == [7]);
            port.transmit.counts()
        };
        let counts = send(&mut here);
        assert_eq!((counts.frames, counts.dropped), (0, 1));
        here.register();
        let counts = send(&mut here);
        assert_eq!((counts.frames, counts.dropped), (1, 1));
        drop(region);
        let counts = send(&mut here);
        assert_eq!((counts.frames, counts.dropped), (1, 2));
    });
}

#[test]
fn a_device_that_keeps_buffers_does_not_register_memory_again() {
    in_a_namespace_with("net_tap", || {
        let dpdk = start();
        let mut tap = Port::started(&dpdk, "net_tap0,iface=dtap0");
        let guest = Memory::new(64, GUEST_SIZE);
        let _region = guest.share(&tap.device);
        tap.device.stop().unwrap();
        let said = tap.device.start().err().unwrap().to_string();
        assert!(said.contains("net_tap0: receive queue 0 can't be set up again, as the device keeps"), "{said}");
        // A device that is closed gives its buffers back.
        tap.device.close();
        assert_eq!(tap.receive.out().own_at_device, 0);
        assert!(tap.reclaimed().is_empty());
    });
}
