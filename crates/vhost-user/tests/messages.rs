//! Messages in any order and while queues run, without losing a frame.
#![allow(missing_docs)]

mod support;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fd::AsFd;
use support::{Bench, Event, Guest, PACKED, PACKED_IN_ORDER, Raw, SPLIT, memfd, words};
use vhost::vhost_user::message::FrontendReq as Request;
use vhost_user::Mode;
use virtqueue::features::{PROTOCOL_FEATURES, VERSION_1};

const FORMATS: [u64; 3] = [SPLIT | VERSION_1, PACKED | VERSION_1, PACKED_IN_ORDER | VERSION_1];

fn bench() -> (Bench, Raw) {
    let bench = Bench::new(Mode::Server, 1);
    let raw = bench.raw();
    (bench, raw)
}

/// Reads the base of a queue, which stops it.
fn stop(raw: &Raw, queue: u32) -> u32 {
    raw.send_state(Request::GET_VRING_BASE, queue, 0);
    let reply = raw.reply().unwrap();
    assert_eq!(reply[..4], queue.to_ne_bytes());
    u32::from_ne_bytes(reply[4..].try_into().unwrap())
}

/// Waits until everything sent before is handled.
fn settle(raw: &Raw) {
    raw.send(Request::GET_FEATURES, &[], &[]);
    raw.reply_u64();
}

fn is_readable(fd: impl AsFd) -> bool {
    let mut polled = [PollFd::new(&fd, PollFlags::IN)];
    poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() > 0
}

#[test]
fn messages_may_come_in_any_order() {
    let mut order: Vec<usize> = (0..Guest::STEPS).collect();
    let mut state = 88_172_645_463_325_252u64;
    for round in 0..120 {
        for last in (1..order.len()).rev() {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            order.swap(last, state as usize % (last + 1));
        }
        let (bench, raw) = bench();
        let features = FORMATS[round % 3] | if round % 2 == 0 { PROTOCOL_FEATURES } else { 0 };
        let mut guest = Guest::raw(&raw, features, &order);
        guest.exchange(20);
        drop((guest, raw));
        bench.echo.wait_disconnected();
    }
}

#[test]
fn queues_wait_for_each_thing_that_they_need() {
    // All but the call descriptor and the base, which is zero by default.
    for missing in [0, 1, 2, 4, 5, 7] {
        let (bench, raw) = bench();
        let order: Vec<_> = (0..Guest::STEPS).filter(|&step| step != missing).collect();
        let guest = Guest::raw(&raw, FORMATS[0] | PROTOCOL_FEATURES, &order);
        settle(&raw);
        assert!(bench.echo.line.lock().unwrap().contains("; 0 pairs"), "without step {missing}");
        drop((guest, raw));
        bench.echo.wait_disconnected();
    }
}

#[test]
fn without_protocol_features_no_enabling_is_needed() {
    let (bench, raw) = bench();
    let mut guest = Guest::raw(&raw, FORMATS[1], &[0, 1, 2, 3, 4, 5, 6]);
    guest.exchange(50);
    assert!(bench.echo.line.lock().unwrap().starts_with("packed, mrg_rxbuf, indirect, event_idx; 1 pair, 1 region"));
}

#[test]
fn qemu_enables_long_before_it_says_anything_else() {
    let (_bench, raw) = bench();
    for _ in 0..10 {
        raw.send_state(Request::SET_VRING_ENABLE, 0, 1);
        raw.send_state(Request::SET_VRING_ENABLE, 1, 1);
    }
    let mut guest = Guest::raw(&raw, FORMATS[0] | PROTOCOL_FEATURES, &[0, 6, 1, 2, 3, 4, 5]);
    guest.exchange(50);
}

#[test]
fn acknowledgements_are_sent_when_asked_for() {
    let (bench, raw) = bench();
    let ask = |request: Request, body: &[u8]| {
        raw.send_bytes(&[words(&[request.into(), 9, body.len() as u32]), body.to_vec()].concat(), &[]);
    };
    // Not before it was negotiated.
    ask(Request::SET_VRING_ENABLE, &words(&[0, 1]));
    raw.send(Request::GET_FEATURES, &[], &[]);
    assert!(raw.reply_u64() & PROTOCOL_FEATURES != 0);
    raw.send_u64(Request::SET_PROTOCOL_FEATURES, REPLY_ACK);
    ask(Request::SET_VRING_ENABLE, &words(&[1, 0]));
    assert_eq!(raw.reply_u64(), 0);
    ask(Request::SET_VRING_NUM, &words(&[1, 64]));
    assert_eq!(raw.reply_u64(), 0);
    ask(Request::SET_VRING_ENABLE, &words(&[0, 2]));
    assert_eq!(raw.reply_u64(), 1);
    assert!(raw.is_closed());
    bench.ended("neither enables nor disables");
}

/// Protocol features.
const REPLY_ACK: u64 = 1 << 3;
const MTU: u64 = 1 << 4;
const RESET_DEVICE: u64 = 1 << 13;

#[test]
fn an_mtu_is_offered_and_checked() {
    for (mtu, refused) in [(None, vec![67, 65_536]), (Some(9000), vec![67, 9001])] {
        let bench = Bench::with_mtu(Mode::Server, 1, mtu);
        let raw = bench.raw();
        raw.send(Request::GET_FEATURES, &[], &[]);
        assert_eq!(raw.reply_u64() & virtqueue::features::MTU != 0, mtu.is_some());
        raw.send(Request::GET_PROTOCOL_FEATURES, &[], &[]);
        assert_eq!(raw.reply_u64() & MTU != 0, mtu.is_some());
        raw.send_u64(Request::NET_SET_MTU, 1500);
        raw.send_u64(Request::SET_PROTOCOL_FEATURES, REPLY_ACK);
        let ask = |mtu| {
            raw.send_acked(Request::NET_SET_MTU, mtu);
            raw.reply_u64()
        };
        assert_eq!([68, 1500, 9000].map(ask), [0; 3]);
        assert!(refused.into_iter().all(|mtu| ask(mtu) == 1));
        // Nobody is cut off.
        Guest::raw(&raw, FORMATS[0] | PROTOCOL_FEATURES, &[0, 1, 2, 3, 4, 5, 6, 7]).exchange(50);
    }
}

#[test]
fn announcements_and_the_status_of_a_driver_are_understood() {
    let (bench, raw) = bench();
    raw.send_u64(Request::SET_PROTOCOL_FEATURES, REPLY_ACK | RESET_DEVICE);
    raw.send_acked(Request::SEND_RARP, 0x0605_0403_0202);
    assert_eq!(raw.reply_u64(), 0);
    for status in [0, 1, 0xf] {
        raw.send_acked(Request::SET_STATUS, status);
        assert_eq!(raw.reply_u64(), 0);
        raw.send(Request::GET_STATUS, &[], &[]);
        assert_eq!(raw.reply_u64(), status);
    }
    raw.send(Request::RESET_DEVICE, &[], &[]);
    raw.send(Request::GET_STATUS, &[], &[]);
    assert_eq!(raw.reply_u64(), 0);
    Guest::raw(&raw, FORMATS[0] | PROTOCOL_FEATURES, &[0, 1, 2, 3, 4, 5, 6, 7]).exchange(50);
    drop(raw);
    bench.echo.wait_disconnected();
    for (request, body, expected) in [
        (Request::NET_SET_MTU, 4, 8),
        (Request::SEND_RARP, 0, 8),
        (Request::SET_STATUS, 16, 8),
        (Request::GET_STATUS, 8, 0),
    ] {
        let raw = bench.raw();
        raw.send(request, &vec![0; body], &[]);
        assert!(raw.is_closed());
        bench.ended(&format!("the message has a body of {body} bytes, not {expected}"));
    }
}

#[test]
fn queue_pairs_are_counted_and_mq_is_offered_only_for_several() {
    for pairs in [1, 2, 128] {
        let bench = Bench::new(Mode::Server, pairs);
        let raw = bench.raw();
        raw.send(Request::GET_FEATURES, &[], &[]);
        assert_eq!(raw.reply_u64() & virtqueue::features::MQ != 0, pairs > 1);
        raw.send_u64(Request::SET_PROTOCOL_FEATURES, 1);
        raw.send(Request::GET_QUEUE_NUM, &[], &[]);
        assert_eq!(raw.reply_u64(), u64::from(pairs));
    }
}

/// Runs `change` repeatedly while frames flow.
fn while_frames_flow(features: u64, change: impl Fn(&Raw, &Guest, u32)) {
    let (bench, raw) = bench();
    let mut guest = Guest::raw(&raw, features, &[0, 1, 2, 3, 4, 5, 6, 7]);
    for round in 0..50 {
        guest.exchange(20 + round % 7);
        change(&raw, &guest, round);
    }
    guest.exchange(100);
    drop((guest, raw));
    assert_eq!(bench.echo.wait_disconnected(), "the frontend closed the connection");
}

#[test]
fn set_mem_table_while_frames_flow() {
    for features in FORMATS {
        while_frames_flow(features, |raw, guest, round| guest.table().share(raw, u64::from(round % 2)));
    }
}

#[test]
fn set_mem_table_in_the_middle_of_bursts() {
    for features in FORMATS {
        let (_bench, raw) = bench();
        let mut guest = Guest::raw(&raw, features, &[0, 1, 2, 3, 4, 5, 6]);
        let table = guest.table();
        let end = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !end.load(std::sync::atomic::Ordering::Relaxed) {
                    for more in [1, 0] {
                        table.share(&raw, more);
                        settle(&raw);
                    }
                }
            });
            guest.exchange(20_000);
            end.store(true, std::sync::atomic::Ordering::Relaxed);
        });
    }
}

#[test]
fn memory_that_goes_away_stops_queues_until_it_is_back() {
    for features in FORMATS {
        let (bench, raw) = bench();
        let mut guest = Guest::raw(&raw, features, &[0, 1, 2, 3, 4, 5, 6]);
        guest.exchange(33);
        let other = memfd(4096);
        raw.send_table(&[[1 << 40, 4096, 1 << 40, 0]], &[other.as_fd()]);
        bench.echo.wait_line("queue 0 stopped: the ring address");
        guest.share(&raw);
        guest.exchange(33);
    }
}

#[test]
fn regions_come_and_go_while_frames_flow() {
    for features in FORMATS {
        while_frames_flow(features | PROTOCOL_FEATURES, |raw, _, round| {
            raw.send_u64(Request::SET_PROTOCOL_FEATURES, 1 << 15);
            let body = [0, 1 << 40, 4096, 1 << 41, 0].map(u64::to_ne_bytes).concat();
            let file = memfd(4096);
            match round % 2 {
                0 => raw.send(Request::ADD_MEM_REG, &body, &[file.as_fd()]),
                _ => raw.send(Request::REM_MEM_REG, &body, &[]),
            }
        });
    }
}

/// QEMU before 8.1 adds it once per queue pair.
#[test]
fn a_region_stays_until_it_was_removed_as_often_as_it_was_added() {
    let (bench, raw) = bench();
    let mut guest = Guest::raw(&raw, FORMATS[0] | PROTOCOL_FEATURES, &[0, 1, 2, 3, 4, 5, 6, 7]);
    raw.send_u64(Request::SET_PROTOCOL_FEATURES, 1 << 15);
    let body = [0, 1 << 40, 4096, 1 << 41, 0].map(u64::to_ne_bytes).concat();
    let file = memfd(4096);
    for _ in 0..3 {
        raw.send(Request::ADD_MEM_REG, &body, &[file.as_fd()]);
    }
    bench.echo.wait_line("2 regions");
    for _ in 0..3 {
        guest.exchange(33);
        raw.send(Request::REM_MEM_REG, &body, &[]);
    }
    bench.echo.wait_line("1 region");
    guest.exchange(33);
    raw.send(Request::REM_MEM_REG, &body, &[]);
    assert!(raw.is_closed(), "once too often");
}

#[test]
fn every_message_is_repeated_while_frames_flow() {
    for features in FORMATS {
        while_frames_flow(features | PROTOCOL_FEATURES, |raw, guest, round| {
            for step in [1, 2, 4, 5, 6] {
                guest.say_again(raw, step);
            }
            raw.send_state(Request::SET_VRING_ENABLE, round % 2, 0);
            raw.send_state(Request::SET_VRING_ENABLE, round % 2, 1);
        });
    }
}

#[test]
fn get_vring_base_stops_a_queue_until_it_is_started() {
    for features in FORMATS {
        while_frames_flow(features, |raw, guest, _| {
            for queue in [0, 1] {
                let base = stop(raw, queue);
                assert_eq!(stop(raw, queue), base, "it stays where it is");
                raw.send_state(Request::SET_VRING_BASE, queue, base);
            }
            guest.say_again(raw, 5);
        });
    }
}

/// While somebody may still write to its buffers, a guest must not believe that its queue has stopped.
#[test]
fn a_queue_that_cannot_be_stopped_ends_the_session_without_an_answer() {
    let order: Vec<usize> = (0..Guest::STEPS).collect();
    let (set_memory, get_base) = (Request::SET_MEM_TABLE, Request::GET_VRING_BASE);
    for request in [get_base, set_memory] {
        let (bench, raw) = bench();
        let mut guest = Guest::raw(&raw, FORMATS[0], &order);
        guest.exchange(20);
        bench.echo.held.store(true, std::sync::atomic::Ordering::Relaxed);
        if request == get_base {
            raw.send_state(request, 0, 0);
        } else {
            raw.send(request, &words(&[0, 0]), &[]);
        }
        assert!(raw.reply().is_none(), "{request:?}");
        let reason = bench.echo.wait_disconnected();
        assert!(reason.contains("queue 0 cannot be stopped: its buffers are out"), "{reason}");
    }
}

#[test]
fn dpdk_sends_half_a_packed_base() {
    while_frames_flow(FORMATS[1], |raw, guest, _| {
        for queue in [0, 1] {
            let base = stop(raw, queue);
            assert_eq!(base >> 16, base & 0xffff, "drained");
            raw.send_state(Request::SET_VRING_BASE, queue, base & 0xffff);
        }
        guest.say_again(raw, 5);
    });
}

#[test]
fn features_change_and_change_back() {
    for features in FORMATS {
        while_frames_flow(features, |raw, _, _| {
            raw.send_u64(Request::SET_FEATURES, 0);
            raw.send_u64(Request::SET_FEATURES, features);
        });
    }
}

#[test]
fn a_new_call_descriptor_rings_at_once() {
    for features in FORMATS {
        let (_bench, raw) = bench();
        let mut guest = Guest::raw(&raw, features, &[0, 1, 2, 3, 4, 5, 6]);
        guest.exchange(40);
        let call = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).unwrap();
        raw.send_fd(Request::SET_VRING_CALL, 0, &call);
        settle(&raw);
        assert!(is_readable(&call), "the new descriptor is told what the old one was not");
    }
}

/// Takes all steps in an order that leaves all queues running and no event unread.
fn running(features: u64) -> (Bench, Raw, Guest) {
    let (bench, raw) = bench();
    let mut guest = Guest::raw(&raw, features, &[0, 1, 2, 3, 4, 5, 6, 7]);
    guest.exchange(40);
    settle(&raw);
    while bench.echo.next_event().is_some() {}
    (bench, raw, guest)
}

#[test]
fn messages_without_a_change_restart_nothing() {
    for features in FORMATS {
        let (bench, raw, mut guest) = running(features | PROTOCOL_FEATURES);
        for _ in 0..10 {
            // All steps but descriptors: two of them look the same as one sent twice.
            for step in [0, 1, 2, 3, 4, 7] {
                guest.say_again(&raw, step);
            }
            settle(&raw);
            guest.exchange(20);
        }
        assert_eq!(bench.echo.next_event(), None);
        // One region more, then one less.
        for more in [1, 0] {
            guest.table().share(&raw, more);
            settle(&raw);
            let restarted = std::iter::from_fn(|| bench.echo.next_event()).count();
            assert_eq!(restarted, 4, "both queues stop and start");
        }
        guest.exchange(20);
    }
}

#[test]
fn another_descriptor_restarts_nothing() {
    for features in FORMATS {
        let (bench, raw, mut guest) = running(features | PROTOCOL_FEATURES);
        bench.echo.rewires.store(true, std::sync::atomic::Ordering::Relaxed);
        for queue in [0, 1] {
            for (request, name) in [(Request::SET_VRING_CALL, "call"), (Request::SET_VRING_KICK, "kick")] {
                let event = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).unwrap();
                raw.send_fd(request, queue, &event);
                settle(&raw);
                assert_eq!(bench.echo.next_event(), Some(Event::Rewired(queue as usize, name)));
                assert_eq!(bench.echo.next_event(), None);
                assert_eq!(is_readable(&event), name == "call", "what the old one was not told, the new one is");
            }
        }
        guest.exchange(20);
    }
}

#[test]
fn restarts_in_a_loop_wait() {
    // This many at once, and 512 a second.
    const AT_ONCE: u32 = 8192;
    const FIRST: u32 = 8000;
    const NEXT: u32 = 1000;
    let restart = |raw: &Raw, times: u32| {
        for time in 0..times {
            raw.send_state(Request::SET_VRING_ENABLE, 0, 0);
            raw.send_state(Request::SET_VRING_ENABLE, 0, 1);
            if time % 200 == 0 {
                settle(raw);
            }
        }
        settle(raw);
    };
    let (bench, raw, mut guest) = running(FORMATS[0] | PROTOCOL_FEATURES);
    let began = std::time::Instant::now();
    restart(&raw, FIRST);
    guest.exchange(20);
    drop((raw, guest));
    // The limit holds for the next frontend, too. A busy machine only takes longer.
    let raw = bench.raw();
    let mut guest = Guest::raw(&raw, FORMATS[0] | PROTOCOL_FEATURES, &[0, 1, 2, 3, 4, 5, 6, 7]);
    restart(&raw, NEXT);
    let least = std::time::Duration::from_secs_f64(f64::from(FIRST + NEXT - AT_ONCE - 8) / 512.0);
    assert!(began.elapsed() >= least, "{:?}", began.elapsed());
    guest.exchange(20);
}

#[test]
fn a_first_start_does_not_ring() {
    let (bench, raw) = bench();
    let guest = Guest::raw(&raw, FORMATS[0], &[6, 0, 1, 2, 3, 4, 5]);
    bench.echo.wait_started(1);
    settle(&raw);
    assert!(!is_readable(guest.call(0)) && !is_readable(guest.call(1)));
}

#[test]
fn resets_stop_everything_and_leave_the_memory() {
    for (request, protocol) in [(Request::RESET_DEVICE, RESET_DEVICE), (Request::RESET_OWNER, 0)] {
        let (bench, raw) = bench();
        raw.send_u64(Request::SET_PROTOCOL_FEATURES, protocol);
        let mut guest = Guest::raw(&raw, FORMATS[0], &[0, 1, 2, 3, 4, 5, 6]);
        guest.exchange(64);
        raw.send(request, &[], &[]);
        settle(&raw);
        assert_eq!(*bench.echo.line.lock().unwrap(), "negotiating; 0 pairs, 1 region");
        for queue in [0, 1] {
            raw.send_state(Request::SET_VRING_BASE, queue, 64);
        }
        for step in [0, 2, 4, 5, 6] {
            guest.say_again(&raw, step);
        }
        guest.exchange(64);
    }
}

#[test]
fn a_legacy_guest_gets_no_queue() {
    let (bench, raw) = bench();
    let guest = Guest::raw(&raw, FORMATS[0], &[1, 2, 3, 4, 5, 6]);
    raw.send_u64(Request::SET_FEATURES, SPLIT);
    bench.echo.wait_line("VIRTIO_F_VERSION_1 was not negotiated");
    drop((guest, raw));
    bench.ended("closed the connection");
}
