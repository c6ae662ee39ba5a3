//! Redis in two virtual machines, whose kernels talk over Millrace by plain virtio.

use e2e::Home;
use e2e::guest::{self, Kernel, Nic, Vm};
use lab::Result;
use lab::millrace::config::*;

/// A shell function that stores a value of a given length in the other machine, and compares the returned value.
const EXCHANGE: &str = "exchange() { \
    head -c $1 /dev/urandom | od -An -v -tx1 | tr -d ' \\n' | head -c $1 >/tmp/value; \
    redis-cli -h 192.0.2.2 -x set key </tmp/value && redis-cli -h 192.0.2.2 get key | head -c $1 | cmp - /tmp/value; }";

#[test]
fn a_machine_uses_redis_in_another() -> Result<()> {
    let kernel = Kernel::prepare()?;
    let home = Home::new();
    let bridge = bridge("br0", ["a", "b"]);
    let switch = home.start((vhost_user("a"), vhost_user("b"), bridge, sleeper()));
    let client = Vm::builder("client").nic(Nic::new(home.socket("a")).packed());
    let client = client.program("/usr/bin/redis-cli").program("/usr/bin/redis-benchmark").spawn(&kernel)?;
    let server = Vm::builder("server").nic(Nic::new(home.socket("b"))).program("/usr/bin/redis-server");
    let server = server.spawn(&kernel)?;
    for (vm, address) in [(&client, "192.0.2.1/24"), (&server, "192.0.2.2/24")] {
        vm.wait_ready(guest::READY)?;
        vm.set_address("eth0", address)?;
    }
    let serving = server.start("redis-server --save '' --appendonly no --protected-mode no --dir /tmp")?;
    client.check("for try in $(seq 300); do redis-cli -h 192.0.2.2 ping && exit; sleep 0.2; done; exit 1")?;
    for len in [64, 1024, 4096, 16_384, 65_536] {
        client.check(&format!("{EXCHANGE}; exchange {len}"))?;
    }
    let said = client.check("redis-benchmark -h 192.0.2.2 -c 10 -n 100 -d 1024 -t set,get --csv")?;
    assert!(said.contains("\"SET\"") && said.contains("\"GET\""), "{said}");
    server.kill(&serving)?;
    drop((client, server));
    switch.stop();
    Ok(())
}
