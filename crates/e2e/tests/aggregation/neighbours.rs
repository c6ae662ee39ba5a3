//! Requests for the switch's own addresses, from a kernel and from a flooding guest.

use e2e::stream::{aggregating, aggregation, exchange, mac, network, uplink, with_hops};
use e2e::virtio::Options;
use e2e::{Home, wait_for};
use lab::Result;
use lab::millrace::config::*;
use lab::netns::Namespace;

const V4: &str = "192.0.2.1";
const V6: &str = "2001:db8::1";
/// MAC address of the hand-made requests.
const ASKER: [u8; 6] = [2, 0, 0, 0, 0, 9];

/// Returns `[aggregation]` with an address of each version, and a changed next hop.
fn both(change: impl Fn(RawNextHop) -> RawNextHop) -> RawAggregation {
    let addresses = [V4, V6].map(str::to_owned).into_iter().collect();
    with_hops(RawAggregation { addresses, ..aggregation(0, &[(100, 1)]) }, |_, hop| change(hop))
}

/// Sets addresses at `device`, the kernel's end of the cable.
fn addresses(there: &Namespace, device: &str) -> Result<()> {
    let on = format!("echo 0 >/proc/sys/net/ipv6/conf/{device}/disable_ipv6");
    there.run("sh", &["-c", &on])?;
    there.run("ip", &["address", "add", "192.0.2.9/24", "dev", device])?;
    there.run("ip", &["address", "add", "2001:db8::9/64", "dev", device, "nodad"])?;
    Ok(())
}

/// Checks that the kernel resolves the addresses and gets them confirmed.
fn finds(there: &Namespace, device: &str) {
    for address in [V4, V6] {
        let entry = || there.run("ip", &["neigh", "show", address, "dev", device]).unwrap();
        // The ping itself gets no answer.
        assert!(there.run("ping", &["-c", "1", "-W", "1", address]).is_err());
        wait_for("an answer", || entry().contains(&format!("lladdr {} ", mac(0))).then_some(()));
        // A kernel that knows the address probes it by unicast.
        there.run("ip", &["neigh", "change", address, "dev", device, "nud", "probe"]).unwrap();
        wait_for("an answer to a probe", || entry().contains("REACHABLE").then_some(()));
    }
}

fn a_kernel_asks(driver: fn(&str, &str) -> RawPort) -> Result<()> {
    let (here, there) = e2e::cable::two_namespaces()?;
    addresses(&there, "up1")?;
    let home = Home::new();
    let wan = aggregating(driver("wan", "up0"));
    let config = (wan, vhost_user("nf"), patch("nf", "wan"), both(|hop| hop), sleeper());
    let millrace = home.start_inside(&here, config);
    millrace.wait_up(&["wan"]);
    finds(&there, "up1");
    // A kernel that wants the address for itself learns that it is taken (RFC 4862).
    there.run("ip", &["address", "add", &format!("{V6}/64"), "dev", "up1"])?;
    wait_for("the kernel to give it up", || {
        there.run("ip", &["-6", "address", "show", "dev", "up1"]).unwrap().contains("dadfailed").then_some(())
    });
    assert!(millrace.port("wan").0.neighbours_answered >= 5);
    millrace.stop();
    Ok(())
}

#[test]
fn a_kernel_asks_over_packet_sockets() -> Result<()> {
    a_kernel_asks(af_packet)
}

#[test]
fn a_kernel_asks_over_af_xdp() -> Result<()> {
    a_kernel_asks(af_xdp)
}

/// Returns an ARP request for the switch's address.
fn question() -> Vec<u8> {
    let request = [8, 6, 0, 1, 8, 0, 6, 4, 0, 1];
    [&[0xff; 6][..], &ASKER, &request, &ASKER, &[192, 0, 2, 9], &[0; 6], &[192, 0, 2, 1], &[0; 18]].concat()
}

/// The switch has its addresses in the VLAN of the next hop and in no other; it forwards the requests that it does not answer.
#[test]
fn answers_are_in_the_vlan_of_the_next_hop() -> Result<()> {
    let home = Home::new();
    let rules = both(|hop| RawNextHop { vlan: 7.into(), ..hop });
    let millrace = home.start((network("wan"), vhost_user("nf"), patch("nf", "wan"), rules, sleeper()));
    let [mut wan, mut nf] = ["wan", "nf"].map(|port| Options::new(home.socket(port)).connect().unwrap());
    millrace.wait_up(&["wan", "nf"]);
    let tagged = |vid: u8| [&question()[..12], &[0x81, 0, 0, vid], &question()[12..]].concat();
    for frame in [tagged(8), tagged(7), question()] {
        assert!(wan.send(&[&frame], 1)?);
    }
    wan.flush();
    let mut answers = Vec::new();
    let mut passed = Vec::new();
    wait_for("one answer, and two frames that pass", || {
        for (guest, taken) in [(&mut wan, &mut answers), (&mut nf, &mut passed)] {
            let take = |bytes: &[u8]| {
                taken.push(bytes.to_vec());
                Ok(())
            };
            guest.receive(64, take).unwrap();
        }
        (answers.len() == 1 && passed.len() == 2).then_some(())
    });
    assert_eq!((&answers[0][..6], &answers[0][12..18]), (&ASKER[..], &[0x81, 0, 0, 7, 8, 6][..]));
    assert_eq!(passed, [tagged(8), question()]);
    millrace.none_dropped();
    millrace.stop();
    Ok(())
}

/// Requests beyond the switch's limit are dropped by name, and packets pass all the while.
#[test]
fn excessive_requests_do_not_disturb_traffic() -> Result<()> {
    let homes = [Home::new(), Home::new()];
    // Both the other switch and the flooding guest are at ports that aggregate.
    let asker = (network("asker"), vhost_user("idle"), patch("asker", "idle"));
    let rules = both(|hop| RawNextHop { port: "wan".into(), ..hop });
    let near = (network("wan"), vhost_user("nf"), patch("nf", "wan"), rules);
    let far = (uplink("wan", &homes[0].socket("wan")), vhost_user("nf"), patch("nf", "wan"));
    let first = homes[0].start((asker, near, sleeper()));
    let second = homes[1].start((far, aggregation(1, &[(100, 0)]), sleeper()));
    second.wait_up(&["wan"]);
    let mut ends = homes.each_ref().map(|home| Options::new(home.socket("nf")).connect().unwrap());
    let mut asker = Options::new(homes[0].socket("asker")).connect()?;
    first.wait_up(&["wan", "nf", "asker"]);
    let question = question();
    let (mut asked, mut answers) = (0, 0);
    for _ in 0..50 {
        for _ in 0..100 {
            asker.reap()?;
            asked += u64::from(asker.send(&[&question], 1)?);
        }
        asker.flush();
        exchange(&mut ends, 200, &[100])?;
        asker.receive(256, |bytes| {
            answers += 1;
            assert_eq!((&bytes[..6], &bytes[28..32]), (&ASKER[..], &[192, 0, 2, 1][..]));
            Ok(())
        })?;
    }
    let flood = || first.port("asker").drops().get("neighbour-flood").copied().unwrap_or_default();
    wait_for("all questions to be counted", || {
        (first.port("asker").0.neighbours_answered + flood() == asked).then_some(())
    });
    assert!(flood() > 0 && answers > 0, "{asked} asked, {answers} answered");
    second.none_dropped();
    assert_eq!(first.port("wan").dropped() + first.port("nf").dropped(), 0);
    first.stop();
    second.stop();
    Ok(())
}
