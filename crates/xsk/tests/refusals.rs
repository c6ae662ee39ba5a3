//! Refused requests and their errors.

mod common;

use std::thread;
use std::time::{Duration, Instant};

use common::{Memory, Netns, Station, copy_mode, interface, redirect, steering};
use xsk::{Attach, Chunks, Error, Groups, Mode, Queue, QueueConfig, Redirect, RedirectConfig};

#[test]
fn a_taken_queue() {
    Netns::with_veth(1500).run(|| {
        let config = QueueConfig { busy_wait: Duration::from_millis(50), ..copy_mode() };
        let a = Station::open("a", 0, Chunks::aligned(2048), 1 << 16, &config);
        // Taken by other memory, and by the same.
        for umem in [&Memory::new(&[1 << 16]).umem(Chunks::aligned(2048)), &a.umem] {
            let start = Instant::now();
            let error = Queue::open(umem, &interface("a"), 0, &config).unwrap_err();
            assert!(matches!(&error, Error::QueueBusy { interface, queue: 0, .. } if interface == "a"), "{error}");
            assert!(start.elapsed() >= config.busy_wait, "it did not wait");
            assert!(error.to_string().contains("another AF_XDP socket"), "{error}");
        }
    });
}

#[test]
fn the_end_of_a_queue_is_waited_for() {
    let netns = Netns::with_veth(1500);
    netns.run(|| {
        let a = Station::pool("a", 0);
        let bound = a.queue.bound().clone();
        let error = bound.wait_released(Duration::from_millis(20)).unwrap_err();
        assert!(matches!(error, Error::QueueBusy { queue: 0, .. }), "{error}");
        drop(a);
        bound.wait_released(Duration::from_secs(60)).unwrap();
        // The queue is free for the next socket.
        drop(Station::pool("a", 0));
        netns.ip("link del dev a");
        bound.wait_released(Duration::ZERO).unwrap();
    });
}

#[test]
fn a_queue_that_is_freed_while_waiting() {
    Netns::with_veth(1500).run(|| {
        let a = Station::pool("a", 0);
        let umem = a.umem.clone();
        thread::scope(|scope| {
            scope.spawn(move || {
                thread::sleep(Duration::from_millis(100));
                drop(a);
            });
            Queue::open(&umem, &interface("a"), 0, &copy_mode()).unwrap();
        });
    });
}

#[test]
fn a_second_program() {
    Netns::with_veth(1500).run(|| {
        let _first = redirect("a", Attach::Native);
        for attach in [Attach::Auto, Attach::Native, Attach::Generic] {
            let error =
                Redirect::attach(&interface("a"), &RedirectConfig { attach, ..RedirectConfig::default() }).unwrap_err();
            assert!(matches!(&error, Error::ProgramBusy { .. }), "{error}");
            assert!(error.to_string().contains("ip link show dev a"), "{error}");
        }
    });
}

#[test]
fn no_rights() {
    Netns::with_veth(1500).run(|| {
        let umem = Memory::new(&[1 << 16]).umem(Chunks::aligned(2048));
        // SAFETY: without memory; the bare system call changes this thread only, which ends with the test.
        assert_eq!(unsafe { libc::syscall(libc::SYS_setresuid, 65534, 65534, 65534) }, 0, "this test needs to be root");
        let error = Queue::open(&umem, &interface("a"), 0, &copy_mode()).unwrap_err();
        assert!(matches!(&error, Error::Permission { capability: "CAP_NET_RAW", .. }), "{error}");
        let error = Redirect::attach(&interface("a"), &RedirectConfig::default()).unwrap_err();
        assert!(matches!(&error, Error::Permission { capability, .. } if capability.contains("CAP_BPF")), "{error}");
    });
}

#[test]
fn missing_interfaces_queues_and_modes_are_named() {
    Netns::with_veth(1500).run(|| {
        let umem = Memory::new(&[1 << 16]).umem(Chunks::aligned(2048));
        let error = Queue::open(&umem, &interface("c"), 0, &copy_mode()).unwrap_err();
        assert!(matches!(&error, Error::NoInterface { interface } if interface == "c"), "{error}");
        let error = Queue::open(&umem, &interface("a"), 3, &copy_mode()).unwrap_err();
        assert!(error.to_string().contains("no queue 3"), "{error}");
        let zero_copy = QueueConfig { mode: Mode::ZeroCopy, ..copy_mode() };
        let error = Queue::open(&umem, &interface("a"), 0, &zero_copy).unwrap_err();
        assert!(matches!(&error, Error::Unsupported { .. }), "{error}");
        for config in [QueueConfig { rx: 100, ..copy_mode() }, QueueConfig { fill: 0, ..copy_mode() }] {
            let error = Queue::open(&umem, &interface("a"), 0, &config).unwrap_err();
            assert!(error.to_string().contains("power of two"), "{error}");
        }
        let steering = steering(&[[2; 6]; 65], Groups::None);
        let error =
            Redirect::attach(&interface("a"), &RedirectConfig { steering, ..RedirectConfig::default() }).unwrap_err();
        assert!(error.to_string().contains("64 MAC addresses"), "{error}");
    });
}

#[test]
fn an_interface_that_is_too_much_for_its_driver() {
    Netns::beyond_a_page().run(|| {
        let config = RedirectConfig { attach: Attach::Native, ..RedirectConfig::default() };
        let error = Redirect::attach(&interface("a"), &config).unwrap_err();
        assert!(error.to_string().contains("multi_buffer"), "{error}");
        let lo = Redirect::attach(&interface("lo"), &config).unwrap_err();
        assert!(lo.to_string().contains("generically"), "{lo}");
    });
}

#[test]
fn a_socket_of_another_interface() {
    Netns::with_veth(1500).run(|| {
        let redirect = redirect("a", Attach::Native);
        let error = redirect.insert(&Station::pool("b", 0).queue.rx).unwrap_err();
        assert!(error.to_string().contains("its own"), "{error}");
    });
}

#[test]
fn memory_that_the_kernel_does_not_take() {
    Netns::with_veth(1500).run(|| {
        let memory = Memory::new(&[1 << 16]);
        // SAFETY: the last page lies in the mapping; nothing reads it from here on.
        unsafe {
            let guard = memory.base().as_ptr().add(memory.len() - Memory::guard());
            rustix::mm::mprotect(guard.cast(), Memory::guard(), rustix::mm::MprotectFlags::READ).unwrap();
        }
        let error = Queue::open(&memory.umem(Chunks::unaligned(2048)), &interface("a"), 0, &copy_mode()).unwrap_err();
        assert!(error.to_string().contains("writable"), "{error}");
    });
}
