//! Tests of `rx-sharing` and the keys that belong to it.

use super::{problems, valid};
use engine::spec::{Order, Sharing, SharingSpec, StaticRoles};
use std::time::Duration;

/// Returns a file of `workers` workers with a port `wan` that has these `keys`, each on a line of its own from line 4 on. The
/// port's driver is `driver`.
fn file(driver: &str, workers: usize, keys: &[&str]) -> String {
    let other = "[[port]]\nname = \"fw\"\ndriver = \"sink\"\n[[patch]]\nports = [\"wan\", \"fw\"]\n";
    let keys = keys.join("\n");
    format!("[[port]]\nname = \"wan\"\ndriver = {driver}\n{keys}\n{other}{}", "[[worker]]\n".repeat(workers))
}

/// A driver whose queues can be shared; it has one.
const GENERATOR: &str = "\"generator\"";

fn sharing(keys: &[&str]) -> Option<SharingSpec> {
    let text = file(GENERATOR, 4, keys);
    assert_eq!(problems(&text), Vec::<String>::new(), "{keys:?}");
    valid(&text).spec.ports.swap_remove(0).sharing
}

#[test]
fn each_kind_of_sharing_is_read() {
    let static_roles = |workers: &[usize], parent, order, stalled_after| {
        let roles = StaticRoles { parent, order, stalled_after };
        Some(SharingSpec { workers: workers.to_vec(), way: Sharing::StaticRole(roles) })
    };
    let second = Duration::from_secs(1);
    assert_eq!(sharing(&[]), None);
    let few = ["rx-sharing = \"static-role\"", "workers = [2, 0]"];
    assert_eq!(sharing(&few), static_roles(&[2, 0], None, Order::PerFlow, second));
    let all = [&few[..], &["parent = 3", "order = \"none\"", "stalled-after = \"20ms\""]].concat();
    assert_eq!(sharing(&all), static_roles(&[2, 0], Some(3), Order::None, Duration::from_millis(20)));
    let shortest = [&few[..], &["parent = 2", "order = \"per-flow\"", "stalled-after = \"1ms\""]].concat();
    assert_eq!(sharing(&shortest), static_roles(&[2, 0], Some(2), Order::PerFlow, Duration::from_millis(1)));
    let locked = ["rx-sharing = \"locked\"", "workers = [1, 3]"];
    assert_eq!(sharing(&locked), Some(SharingSpec { workers: vec![1, 3], way: Sharing::Locked }));
    let rss = ["rx-sharing = \"rss\"", "workers = [1]"];
    assert_eq!(sharing(&rss), Some(SharingSpec { workers: vec![1], way: Sharing::Rss }));
}

#[test]
fn drivers_that_share_a_queue_are_those_that_can_hold_its_frames() {
    let with =
        |driver: &str, way: &str| problems(&file(driver, 2, &[&format!("rx-sharing = \"{way}\""), "workers = [0]"]));
    for driver in [
        "\"af_xdp\"\ninterface = \"e0\"",
        "\"virtio-user\"\nsocket = \"s\"",
        "\"pcap\"\nreplay = \"f\"",
        GENERATOR,
        "\"af_xdp\"\ninterface = \"e0\"\nqueues = 2",
        "\"vhost-user\"\nsocket = \"s\"",
        "\"tap\"",
        "\"af_packet\"\ninterface = \"e0\"",
    ] {
        for way in ["static-role", "locked", "rss"] {
            assert_eq!(with(driver, way), Vec::<String>::new(), "{driver}, {way}");
        }
    }
    for name in ["sink", "loopback"] {
        let driver = &format!("\"{name}\"");
        for way in ["static-role", "locked"] {
            let expected = format!(
                "4:14: several workers cannot process one queue of a port of driver `{name}`; \
                 use rx-sharing = \"rss\" to give each queue a worker of its own"
            );
            assert_eq!(with(driver, way), [expected]);
        }
        assert_eq!(with(driver, "rss"), Vec::<String>::new(), "{driver}");
    }
}

#[test]
fn unsupported_sharing_is_refused() {
    const STATIC: &str = "rx-sharing = \"static-role\"";
    const TWO: &str = "workers = [0, 1]";
    let everybody: Vec<String> = (0..17).map(|worker| worker.to_string()).collect();
    let everybody = format!("workers = [{}]", everybody.join(", "));
    let cases: &[(usize, &[&str], &str)] = &[
        (2, &["rx-sharing = \"dynamic\"", TWO], "4:14: unknown value `dynamic`; known here: rss, static-role, locked"),
        (
            2,
            &["rx-sharing = 1", TWO],
            "4:14: wanted string or table; see docs/configuration.md for the values of this key",
        ),
        (2, &[STATIC], "1:1: `workers` is missing; add `workers = [0, 1]`"),
        (2, &[STATIC, "workers = 2"], "5:11: found integer `2`, expected an array; "),
        (
            2,
            &[STATIC, "workers = []"],
            "5:11: no worker processes the frames; list at least one, as in workers = [0, 1]",
        ),
        (17, &[STATIC, &everybody], "5:11: 17 workers cannot share a queue; list at most 16"),
        (2, &[STATIC, "workers = [0, 1, 0]"], "5:18: worker 0 is listed twice; list it once"),
        (
            2,
            &[STATIC, "workers = [0, 2]"],
            "5:15: there is no worker 2; the [[worker]] sections are 0 to 1, in their order",
        ),
        (2, &[STATIC, "workers = [-1]"], "5:12: there is no worker -1; the [[worker]] sections are 0 to 1, "),
        (1, &[STATIC, TWO], "5:15: there is no worker 1; the only worker is 0; add [[worker]] sections for more"),
        (0, &[STATIC, TWO], "5:15: there is no worker 1; the only worker is 0; add [[worker]] sections for more"),
        (2, &[STATIC, TWO, "parent = 2"], "6:10: there is no worker 2; the [[worker]] sections are 0 to 1, "),
        (2, &[STATIC, TWO, "order = \"per-frame\""], "6:9: unknown value `per-frame`; known here: per-flow, none"),
        (2, &[STATIC, TWO, "stalled-after = \"soon\""], "6:17: `soon` is not a time; "),
        (2, &[STATIC, TWO, "stalled-after = \"11s\""], "6:17: `stalled-after` cannot be 11s; give at most \"10s\""),
        (
            2,
            &[STATIC, TWO, "stalled-after = \"900us\""],
            "6:17: `stalled-after` cannot be 900us; give at least \"1ms\": the",
        ),
    ];
    for (workers, keys, expected) in cases {
        let found = problems(&file(GENERATOR, *workers, keys));
        assert!(found.len() == 1 && found[0].starts_with(expected), "{keys:?}: {expected}: {found:#?}");
    }
}

#[test]
fn keys_of_static_roles_belong_to_these() {
    let keys = ["parent = 1", "order = \"none\"", "stalled-after = \"1s\""];
    for way in ["rss", "locked"] {
        let way = format!("rx-sharing = \"{way}\"");
        let found = problems(&file(
            "\"af_xdp\"\ninterface = \"e0\"\nqueues = 2",
            2,
            &[&[&way, "workers = [0, 1]"], &keys[..]].concat(),
        ));
        let expected = [
            "8:10: `parent` needs rx-sharing = \"static-role\"; remove `parent`",
            "9:9: `order` needs rx-sharing = \"static-role\"; remove `order`",
            "10:17: `stalled-after` needs rx-sharing = \"static-role\"; remove `stalled-after`",
        ];
        assert_eq!(found, expected, "{way}");
    }
    let found = problems(&file(GENERATOR, 2, &[&["workers = [0, 1]"], &keys[..]].concat()));
    let expected = [(4, 11, "workers"), (5, 10, "parent"), (6, 9, "order"), (7, 17, "stalled-after")].map(
        |(line, column, key)| {
            format!(
                "{line}:{column}: `{key}` says nothing without `rx-sharing`; \
             add rx-sharing = \"static-role\", \"rss\" or \"locked\""
            )
        },
    );
    assert_eq!(found, expected);
}

#[test]
fn workers_with_a_parent_hold_nothing_back() {
    let with = |way: &str, fault: &str| {
        problems(&file(
            GENERATOR,
            1,
            &[&format!("rx-sharing = \"{way}\""), "workers = [0]", &format!("fault = {{{fault}}}")],
        ))
    };
    let found = with("static-role", "delay = \"1ms\"");
    assert!(
        found.len() == 1 && found[0].starts_with("6:18: `delay` means nothing to workers with a parent; frames "),
        "{found:#?}"
    );
    for way in ["rss", "locked"] {
        assert_eq!(with(way, "delay = \"1ms\""), Vec::<String>::new(), "{way}");
    }
    assert_eq!(with("static-role", "drop = 0.5, corrupt = 0.1"), Vec::<String>::new());
}

#[test]
fn workers_without_a_queue_are_a_warning() {
    let with = |queues: &str, workers: &str| {
        let driver = format!("\"af_xdp\"\ninterface = \"e0\"\n{queues}");
        problems(&file(&driver, 3, &["rx-sharing = \"rss\"", workers]))
    };
    let help = "give the port more `queues`, or let the workers share one by rx-sharing = \"static-role\"";
    let warning = |queues| format!("7:11: only the first {queues} of these workers have a queue of the port; {help}");
    assert_eq!(with("queues = 1", "workers = [0, 1]"), [warning(1)]);
    assert_eq!(with("queues = 2", "workers = [0, 1, 2]"), [warning(2)]);
    assert_eq!(with("queues = 3", "workers = [0, 1, 2]"), Vec::<String>::new());
    assert_eq!(with("queues = 4", "workers = [0]"), Vec::<String>::new(), "one worker may have several queues");
    valid(&file(GENERATOR, 3, &["rx-sharing = \"rss\"", "workers = [0, 1]"]));
}

#[test]
fn either_the_port_or_the_worker_names_the_poller() {
    let text =
        file("\"af_xdp\"\ninterface = \"e0\"\nqueues = 2", 1, &["rx-sharing = \"static-role\"", "workers = [0, 1]"]);
    for named in ["wan", "wan.1"] {
        let found = problems(&format!("{text}[[worker]]\nports = [\"fw\", \"{named}\"]\n"));
        assert_eq!(found, ["15:16: port wan names its workers itself; name it here, or `workers` there, not both"]);
    }
    let config = valid(&format!("{text}[[worker]]\nports = [\"fw\"]\n"));
    assert_eq!(config.spec.workers[1].queues.len(), 1);
}

/// Frames that other workers read can neither change hands, nor be sent from where they lie if nobody takes their buffers back.
#[test]
fn frames_of_a_shared_guest_stay_where_they_are() {
    let file = |way: &str, rest: &str| {
        format!(
            "port = [{{name='fw', driver='vhost-user', socket='a', rx-sharing='{way}', workers=[0]}}, \
             {{name='wan', driver='virtio-user', socket='b'}}, {{name='b', driver='vhost-user', socket='c'}}]\n{rest}"
        )
    };
    let exchange = "patch = [{ports=['fw', 'b']}]\n[[exchange]]\nports = ['fw', 'b']\n";
    let mapping = "[[mapping]]\nfrom = 'wan'\nto = 'fw'\n";
    let ways = |rest| {
        ["static-role", "locked", "rss"]
            .map(|way| problems(&file(way, rest)).into_iter().find(|problem| problem.contains("rx-sharing")))
    };
    let exchanged = Some(
        "4:10: several workers read the frames of port `fw`, so its buffers cannot change hands; take the port out of \
         the exchange, or remove its `rx-sharing`"
            .to_owned(),
    );
    assert_eq!(ways(exchange), [exchanged.clone(), exchanged, None]);
    let mapped = "4:6: workers take turns at port `fw`, and none takes back what the NIC has sent; share the guest's queues by \
         rx-sharing = \"static-role\"";
    assert_eq!(ways(mapping), [None, Some(mapped.to_owned()), None]);
}
