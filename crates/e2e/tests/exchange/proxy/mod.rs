//! Redis over Millrace by way of proxies, whose TCP ends in user space.

mod redis;
mod rig;

use std::process::Command;

use self::redis::{Client, LENGTHS};
use self::rig::Form;
use e2e::cable::quiet_namespace;
use e2e::{Home, wait_for};
use engine::stats::ExchangeStats;
use lab::Result;
use lab::millrace::config::*;
use lab::process::Daemon;

/// Returns how often a proxy counted a connection of this kind.
fn count(said: &str, kind: &str) -> u64 {
    let words: Vec<&str> = said.split_whitespace().map(|word| word.trim_end_matches(',')).collect();
    let at = words.iter().position(|word| *word == kind).unwrap_or_else(|| panic!("no {kind} in {said}"));
    words[at - 1].parse().unwrap_or_else(|_| panic!("{said}"))
}

/// Stores and reads values of all lengths, one after the other and over 50 connections at a time.
fn values_pass(form: Form) -> Result<()> {
    let home = Home::new();
    let switch = home.start(rig::config(form));
    let _redis = redis::serve_unix(&home.path("redis"))?;
    let (far, near) = (rig::far(&home, form)?, rig::near(&home, form)?);
    let mut client = Client::wait(&rig::local(&home));
    for (seed, len) in LENGTHS.into_iter().enumerate() {
        client.exchange(seed, len).unwrap();
    }
    let before = switch.port("far").rx();
    client.get(&format!("4:{}", 65_536)).unwrap();
    let frames = switch.port("far").rx() - before;
    // This many frames of 1500 bytes have a value of 64 KiB.
    assert_eq!(frames >= 45, form.mtu == 1500, "{frames} frames");
    let local = rig::local(&home);
    for len in [64, 16_384] {
        redis::benchmark(Command::new("redis-benchmark"), &["-s", local.to_str().expect("UTF-8")], len);
    }
    let exchanges: Vec<ExchangeStats> = serde_json::from_str(&switch.ctl("--json exchange")).unwrap();
    if form.exchanges {
        let [group] = &exchanges[..] else { panic!("{exchanges:?}") };
        let exchanged = |from: &str| {
            let pair = group.pairs.iter().find(|pair| pair.from.as_deref() == Some(from));
            pair.map_or(0, |pair| pair.exchanged)
        };
        assert_eq!(group.functions, 2, "{group:?}");
        assert!(exchanged("near") > 0 && exchanged("far") > 0, "{group:?}");
    } else {
        assert!(exchanges.is_empty(), "{exchanges:?}");
    }
    drop(client);
    let (far, near) = (rig::end(far)?, rig::end(near)?);
    // One client of ours, two runs of two tests, and redis-benchmark's question for the configuration.
    assert!(count(&near, "reached") > 200 && count(&near, "reached") == count(&far, "served"), "{near}\n{far}");
    for said in [near, far] {
        assert!(said.contains(" 0 malformed") && !said.contains("network-silent"), "{said}");
    }
    switch.stop();
    Ok(())
}

#[test]
fn values_pass_in_frames_of_1500_bytes() -> Result<()> {
    values_pass(Form { mtu: 1500, exchanges: false })
}

#[test]
fn values_pass_in_frames_of_9000_bytes() -> Result<()> {
    values_pass(Form { mtu: 9000, exchanges: false })
}

#[test]
fn values_pass_in_exchanged_buffers() -> Result<()> {
    values_pass(Form { mtu: 1500, exchanges: true })
}

#[test]
fn values_pass_in_exchanged_buffers_of_9000_bytes() -> Result<()> {
    values_pass(Form { mtu: 9000, exchanges: true })
}

/// Kills everything in turn. A connection ends with Redis or a proxy, and outlives the switch.
fn all_may_go(form: Form) -> Result<()> {
    let home = Home::new();
    let config = rig::config(form);
    let mut switch = home.start(&config);
    let socket = home.path("redis");
    let mut redis = redis::serve_unix(&socket)?;
    let (mut far, mut near) = (rig::far(&home, form)?, rig::near(&home, form)?);
    let local = rig::local(&home);
    let fails = |client: &mut Client| wait_for("the connection to end", || client.get("first").is_err().then_some(()));

    let mut client = Client::wait(&local);
    redis.kill()?;
    fails(&mut client);
    assert!(Client::connect(&local).unwrap().get("first").is_err(), "nobody serves");
    redis = redis::serve_unix(&socket)?;
    let mut client = Client::wait(&local);

    far.kill()?;
    far = rig::far(&home, form)?;
    fails(&mut client);
    let mut client = Client::wait(&local);

    near.kill()?;
    assert!(client.get("first").is_err());
    near = rig::near(&home, form)?;
    let mut client = Client::wait(&local);

    client.exchange(1, 65_536).unwrap();
    switch.daemon.kill()?;
    switch = home.start(&config);
    client.exchange(2, 65_536).unwrap();

    drop((redis, client));
    let said = rig::end(far)?;
    assert!(said.contains("connections: "), "{said}");
    rig::end(near)?;
    switch.stop();
    Ok(())
}

#[test]
fn redis_proxies_and_the_switch_may_go_and_come_back() -> Result<()> {
    all_may_go(Form { mtu: 1500, exchanges: false })
}

#[test]
fn a_group_may_go_and_come_back() -> Result<()> {
    all_may_go(Form { mtu: 9000, exchanges: true })
}

#[test]
fn the_kernel_talks_to_a_proxy_over_a_tap() -> Result<()> {
    for mtu in [1500, 9000] {
        let form = Form { mtu, exchanges: false };
        let home = Home::new();
        let namespace = quiet_namespace()?;
        let tap = tap("host", "tap0");
        let bridge = bridge("br0", ["far", "near", "host"]);
        let ports = (vhost_user("far"), vhost_user("near"));
        let switch = home.start_inside(&namespace, (ports, tap, bridge, sleeper()));
        namespace.run("ip", &["link", "set", "tap0", "mtu", &mtu.to_string()])?;
        namespace.run("ip", &["address", "add", "10.0.0.9/24", "dev", "tap0"])?;
        let _redis = redis::serve_unix(&home.path("redis"))?;
        let far = rig::far(&home, form)?;

        // The kernel's TCP comes to the proxy.
        let file = home.path("value");
        std::fs::write(&file, "0123456789abcdef".repeat(4096)).unwrap();
        let cli = format!(
            "redis-cli -h 10.0.0.2 -x set key <{file} && redis-cli -h 10.0.0.2 get key | head -c 65536 | cmp - {file}",
            file = file.display()
        );
        namespace.run("timeout", &["60", "sh", "-c", &cli])?;
        redis::benchmark(namespace.command("redis-benchmark"), &["-h", "10.0.0.2"], 1024);
        let refused = namespace.run("redis-cli", &["-h", "10.0.0.2", "-p", "80", "ping"]).unwrap_err().to_string();
        assert!(refused.contains("Connection refused"), "{refused}");

        // And the proxy's to the kernel.
        let options = ["--port", "6380", "--bind", "10.0.0.9"];
        let _other: Daemon = redis::serve(namespace.command("redis-server"), &options)?;
        let reach = format!("unix:{}=10.0.0.9:6380", rig::local(&home).display());
        let near = rig::proxy(&home, "near", 1, form, &["--reach", &reach])?;
        let mut client = Client::wait(&rig::local(&home));
        for (seed, len) in LENGTHS.into_iter().enumerate() {
            client.exchange(seed, len).unwrap();
        }
        drop(client);
        let said = rig::end(far)?;
        assert!(said.contains("no-service: ") && count(&said, "served") > 100, "{said}");
        rig::end(near)?;
        switch.stop();
    }
    Ok(())
}
