//! Tests of `[[exchange]]`.

use super::{problems, valid};
use engine::spec::{ExchangeMode, ExchangeSpec};

/// Ports `a` to `d` of functions, and one that has none.
const PORTS: &str = "port = [{name='a', driver='vhost-user', socket='a'}, {name='b', driver='vhost-user', socket='b'}, \
     {name='c', driver='vhost-user', socket='c'}, {name='d', driver='vhost-user', socket='d'}, \
     {name='wan', driver='sink'}]\npatch = [{ports=['a', 'b']}, {ports=['c', 'd']}]\n";

#[test]
fn an_exchange_has_usual_buffers_unless_it_says_otherwise() {
    let config = valid(&format!(
        "{PORTS}[[exchange]]\nports = ['a', 'b']\n
         [[exchange]]\nports = ['d', 'c']\nmode = 'group'\nbuffers = 32766\nbuffer-size = 9018\nthreshold = 256\n"
    ));
    let exchange = |ports: [&str; 2], buffers, buffer_size, threshold| ExchangeSpec {
        ports: ports.map(str::to_owned).into(),
        mode: ExchangeMode::Group { buffers, buffer_size },
        threshold,
    };
    assert_eq!(
        config.spec.exchanges,
        [exchange(["a", "b"], 16_384, 2048, None), exchange(["d", "c"], 32_766, 9018, Some(256))]
    );
}

#[test]
fn pages_are_exchanged_by_a_device() {
    let config = valid(&format!(
        "{PORTS}[[exchange]]\nports = ['a', 'b']\nmode = 'zcopy'\n
         [[exchange]]\nports = ['c', 'd']\nmode = 'zcopy'\ndevice = '/dev/other'\nthreshold = 2048\n"
    ));
    let exchange = |ports: [&str; 2], device: &str, threshold| ExchangeSpec {
        ports: ports.map(str::to_owned).into(),
        mode: ExchangeMode::Zcopy { device: device.into() },
        threshold,
    };
    assert_eq!(
        config.spec.exchanges,
        [exchange(["a", "b"], "/dev/zcopy", None), exchange(["c", "d"], "/dev/other", Some(2048))]
    );
}

#[test]
fn unsupported_exchanges_are_refused() {
    let told = |exchange: &str, expected: &str| {
        let problems = problems(&format!("{PORTS}[[exchange]]\n{exchange}"));
        assert!(problems.iter().any(|line| line.contains(expected)), "{expected} is not in {problems:#?}");
    };
    told("", "`ports` is missing");
    told("ports = ['a']", "there is no other port to exchange buffers with");
    told("ports = ['a', 'b']\nmode = 'none'", "unknown value `none`; known here: group, zcopy");
    told("ports = ['a', 'e']", "there is no port `e`");
    told("ports = ['a', 'wan']", "port `wan` is of driver sink, and has no function");
    told("ports = ['a', 'b', 'a']", "port `a` is in two exchanges, or twice in one");
    told("ports = ['a', 'b']\n[[exchange]]\nports = ['b', 'c']", "port `b` is in two exchanges, or twice in one");
    told("ports = ['a', 'b']\nthreshold = 'much'", "measured");
    told("ports = ['a', 'b']\ndevice = '/dev/zcopy'", "functions of mode group share buffers");
    told("ports = ['a', 'b']\nmode = 'zcopy'\nbuffers = 64", "`buffers` is of mode group");
    told("ports = ['a', 'b']\nmode = 'zcopy'\nbuffer-size = 64", "`buffer-size` is of mode group");
    for (key, number) in
        [("buffers", 0), ("buffers", 32_767), ("buffer-size", 63), ("buffer-size", 65_536), ("threshold", -1)]
    {
        told(&format!("ports = ['a', 'b']\n{key} = {number}"), &format!("`{key}` cannot be {number}"));
    }
}
