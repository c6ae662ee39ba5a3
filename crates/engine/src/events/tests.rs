use super::*;
use api::reload::{ReloadAction, Step, Subject};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

fn port(number: usize) -> EventKind {
    EventKind::PortUp { port: number.to_string() }
}

fn learned(number: usize) -> EventKind {
    EventKind::AddressLearned { bridge: "b".into(), mac: number.to_string(), vlan: 0, port: "a".into() }
}

fn kinds(events: &[Event]) -> Vec<EventKind> {
    events.iter().map(|event| event.kind.clone()).collect()
}

fn is_ready(follower: &Follower) -> bool {
    let mut fds = [PollFd::new(follower, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() > 0
}

/// Returns a log, and the number of the first event.
fn log() -> (Arc<Events>, u64) {
    let events = Arc::new(Events::new());
    events.tell(port(0));
    let first = events.list(None, None)[0].seq;
    (events, first)
}

#[test]
fn a_follower_gets_each_event_in_order_and_then_waits() {
    let (events, first) = log();
    let (mut follower, seq) = events.follow(None, false).unwrap();
    assert!(seq == first && follower.take().is_empty() && !is_ready(&follower));
    (1..=TAKEN + 1).for_each(|number| events.tell(port(number)));
    assert!(is_ready(&follower));
    let taken = follower.take();
    assert_eq!(kinds(&taken), (1..=TAKEN).map(port).collect::<Vec<_>>());
    assert!(taken.iter().zip(first + 1..).all(|(event, seq)| event.seq == seq && event.time > 1e9));
    // There is one more.
    assert!(is_ready(&follower));
    assert_eq!(kinds(&follower.take()), [port(TAKEN + 1)]);
    assert!(!is_ready(&follower) && follower.take().is_empty());
}

#[test]
fn who_does_not_read_is_told_how_many_are_lost_and_holds_up_nobody() {
    let (events, first) = log();
    let (mut slow, _) = events.follow(None, false).unwrap();
    let (mut quick, _) = events.follow(None, false).unwrap();
    for number in 1..=KEPT + 5 {
        events.tell(port(number));
        assert_eq!(quick.take().len(), 1);
    }
    let taken = slow.take();
    assert_eq!((&taken[0].kind, taken[0].seq), (&EventKind::Lost { count: 5 }, first + 5));
    assert_eq!(kinds(&taken[1..3]), [port(6), port(7)]);
    assert_eq!(events.list(None, None).len(), KEPT);
}

#[test]
fn a_client_that_comes_back_gets_what_it_missed() {
    let (events, first) = log();
    (1..10).for_each(|number| events.tell(port(number)));
    assert_eq!(kinds(&events.list(Some(first + 7), None)), [port(8), port(9)]);
    assert!(events.list(Some(first + 9), None).is_empty());
    assert_eq!(kinds(&events.list(Some(first + 3), Some(2))), [port(8), port(9)]);
    assert_eq!(kinds(&events.list(None, Some(1))), [port(9)]);
    assert_eq!(kinds(&events.follow(Some(first + 8), false).unwrap().0.take()), [port(9)]);
    // These are numbers of a switch that has ended, and of none.
    for other in [0, first - 1, first + 10, u64::MAX] {
        assert_eq!(events.list(Some(other), None).len(), 10, "{other}");
    }
    (10..KEPT + 5).for_each(|number| events.tell(port(number)));
    let listed = events.list(Some(first + 1), None);
    assert_eq!(kinds(&listed[..2]), [EventKind::Lost { count: 3 }, port(5)]);
    assert_eq!(kinds(&events.list(Some(first + 1), Some(KEPT + 1)))[0], port(5));
}

#[test]
fn addresses_are_for_those_who_ask_and_push_out_nothing_else() {
    let (events, first) = log();
    let (mut without, _) = events.follow(None, false).unwrap();
    assert!(!events.are_addresses_wanted());
    let (mut with, _) = events.follow(None, true).unwrap();
    assert!(events.are_addresses_wanted());
    with.take();
    without.take();
    events.tell_of_addresses(vec![learned(1)]);
    assert!(is_ready(&with) && !is_ready(&without));
    events.tell(port(1));
    events.tell_of_addresses(vec![learned(2)]);
    let taken = with.take();
    assert_eq!(kinds(&taken), [learned(1), port(1), learned(2)]);
    assert_eq!(taken.iter().map(|event| event.seq - first).collect::<Vec<_>>(), [0, 1, 1]);
    assert_eq!(kinds(&without.take()), [port(1)]);
    events.tell_of_addresses((0..KEPT + 3).map(learned).collect());
    let taken = with.take();
    assert_eq!(kinds(&taken)[..2], [EventKind::Lost { count: 3 }, learned(3)]);
    assert!(taken.iter().all(|event| event.seq == first + 1), "numbers never go back");
    assert_eq!(kinds(&events.list(None, None)), [port(0), port(1)]);
    drop(with);
    assert!(!events.are_addresses_wanted());
}

#[test]
fn long_events_and_many_followers_are_bounded() {
    let (events, _) = log();
    let action = ReloadAction { subject: Subject::Port, name: "a".into(), step: Step::Added, why: vec![], error: None };
    let big = || EventKind::Reloaded { actions: vec![action.clone(); KEPT / 2] };
    (0..5).for_each(|_| events.tell(big()));
    assert_eq!(events.list(None, None).len(), 1);
    // The newest one is kept, however long it is.
    events.tell(EventKind::Reloaded { actions: vec![action; KEPT * 2] });
    assert_eq!(events.list(None, None).len(), 1);
    let mut followers: Vec<_> = (0..MOST_FOLLOWERS).map(|_| events.follow(None, false).unwrap()).collect();
    assert!(matches!(events.follow(None, false), Err(CannotFollow::TooMany)));
    followers.pop();
    assert!(events.follow(None, false).is_ok());
}
