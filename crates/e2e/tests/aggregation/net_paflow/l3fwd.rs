//! DPDK's router `l3fwd`, compiled unchanged. It wants a NIC that checks checksums, and routes packets without tags: their chains
//! are VXLAN networks.

use e2e::plugin::plugin;
use e2e::stream::{aggregation, behind, joined_both_ways, mix, network};
use e2e::virtio::{Guest, Options};
use e2e::{Home, wait_for};
use lab::millrace::config::*;
use lab::process::Launch;
use lab::{Result, cpu, output_of};
use std::path::{Path, PathBuf};
use std::process::Command;

const SOURCES: &str = "/usr/share/dpdk/examples/l3fwd";
const FILES: [&str; 8] = [
    "main",
    "l3fwd_acl",
    "l3fwd_lpm",
    "l3fwd_fib",
    "l3fwd_em",
    "l3fwd_event",
    "l3fwd_event_generic",
    "l3fwd_event_internal_port",
];

/// Compiles it as its Makefile does.
fn compile(home: &Home) -> Result<PathBuf> {
    assert!(Path::new(SOURCES).is_dir(), "there is no {SOURCES}: install the Debian package dpdk-doc");
    let program = home.path("l3fwd");
    let options = |kind: &str| -> Result<Vec<String>> {
        let said = output_of(Command::new("pkg-config").args([kind, "libdpdk"]))?;
        Ok(String::from_utf8_lossy(&said).split_ascii_whitespace().map(str::to_owned).collect())
    };
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-DALLOW_EXPERIMENTAL_API", "-I../common"]).args(options("--cflags")?);
    compiler.args(FILES.map(|file| format!("{file}.c"))).arg("-o").arg(&program).args(options("--libs")?);
    output_of(compiler.current_dir(SOURCES))?;
    Ok(program)
}

/// Numbers of its ports, as of testpmd's.
const PORTS: [u8; 2] = [super::rig::LEFT as u8, super::rig::RIGHT as u8];

/// VXLAN networks of the packets: those of the first one are joined.
const VNIS: [u8; 2] = [100, 200];

/// Headers before the inner frame: Ethernet, IPv4, UDP, VXLAN.
const IP: usize = 14;
const UDP: usize = IP + 20;
const INNER: usize = UDP + 16;

/// Returns packet `number` of an end: as it is sent, or as it is behind the router.
fn packet(way: usize, number: u64, routed: bool) -> Vec<u8> {
    let random = mix((way as u64) << 40 ^ number);
    let mut bytes = vec![0; INNER + 20 + (random >> 8) as usize % 160];
    // To the router's port on the other side.
    let to = PORTS[1 - way];
    if routed {
        bytes[..6].copy_from_slice(&[2, 0, 0, 0, 0, to]);
        bytes[6..12].copy_from_slice(&super::rig::PORT_MACS[1 - way]);
    } else {
        bytes[..6].copy_from_slice(&super::rig::PORT_MACS[way]);
        bytes[6..12].copy_from_slice(&[2, 0, 0, 0, 9, way as u8]);
    }
    bytes[12..14].copy_from_slice(&[8, 0]);
    let len = (bytes.len() - IP) as u16;
    bytes[IP..IP + 2].copy_from_slice(&[0x45, 0]);
    bytes[IP + 2..IP + 4].copy_from_slice(&len.to_be_bytes());
    bytes[IP + 8..IP + 10].copy_from_slice(&[if routed { 63 } else { 64 }, 17]);
    bytes[IP + 12..IP + 16].copy_from_slice(&[198, 18, PORTS[way], 1]);
    bytes[IP + 16..IP + 20].copy_from_slice(&[198, 18, to, 1]);
    let sum = super::modes::checksum(&bytes[IP..UDP]).to_be_bytes();
    bytes[IP + 10..IP + 12].copy_from_slice(&sum);
    bytes[UDP..UDP + 4].copy_from_slice(&[0xc0, 0, 0x12, 0xb5]);
    bytes[UDP + 4..UDP + 6].copy_from_slice(&(len - 20).to_be_bytes());
    let vni = VNIS[(random >> 32) as usize % 2];
    bytes[UDP + 8..UDP + 16].copy_from_slice(&[8, 0, 0, 0, 0, 0, vni, 0]);
    for (at, byte) in bytes.iter_mut().enumerate().skip(INNER) {
        *byte = (mix(random ^ at as u64 >> 3) >> (8 * (at % 8))) as u8;
    }
    bytes[INNER..INNER + 8].copy_from_slice(&number.to_be_bytes());
    bytes
}

const PACKETS: u64 = 4000;

/// Sends packets each way, and checks that each of them arrives once, routed.
fn route(ends: &mut [Guest; 2]) {
    let mut sent = [0; 2];
    let mut arrived = [0, 1].map(|_| vec![false; PACKETS as usize]);
    let mut counts = [0; 2];
    wait_for("all packets to be routed", || {
        for way in 0..2 {
            ends[way].reap().unwrap();
            while sent[way] < PACKETS && sent[way] - counts[way] < 96 {
                if !ends[way].send(&[&packet(way, sent[way], false)], 1).unwrap() {
                    break;
                }
                sent[way] += 1;
            }
            ends[way].flush();
            let take = |bytes: &[u8]| {
                let number = u64::from_be_bytes(bytes[INNER..INNER + 8].try_into().unwrap());
                assert!(bytes == packet(way, number, true), "packet {number} of end {way} is not as it should be");
                assert!(!std::mem::replace(&mut arrived[way][number as usize], true), "packet {number} came twice");
                counts[way] += 1;
                Ok(())
            };
            ends[1 - way].receive(64, take).unwrap();
        }
        (counts == [PACKETS; 2]).then_some(())
    });
}

#[test]
fn an_unmodified_router_gets_and_sends_single_packets() -> Result<()> {
    let home = Home::new();
    let program = compile(&home)?;
    let by_vni = |rules| RawAggregation { service_chain_id: ServiceChainId::Vni.into(), ..rules };
    let flows = |to| [(u16::from(VNIS[0]), to)];
    let ports = (network("wan"), ["near", "out", "far"].map(vhost_user));
    let patches = [patch("near", "wan"), patch("out", "far")];
    let millrace = home.start((ports, patches, by_vni(aggregation(0, &flows(1))), sleeper()));
    let rules = behind(by_vni(aggregation(1, &flows(0))), "left");
    std::fs::write(home.path("nf.toml"), rules.text()).unwrap();
    let routes: String = PORTS.iter().map(|port| format!("R198.18.{port}.0/24 {port}\n")).collect();
    std::fs::write(home.path("routes"), routes).unwrap();
    std::fs::write(home.path("routes6"), "R2001:db8::/32 1\n").unwrap();
    let device = |number: usize, name: &str, on: &str| {
        let mac = super::rig::MACS[number];
        [
            format!("--vdev=net_virtio_user{number},path={on}.sock,queue_size=1024,mac={mac}"),
            format!("--vdev=net_paflow{number},dev=net_virtio_user{number},config=nf.toml,port={name}"),
        ]
    };
    // Its routes take 64 MiB.
    let mut command = Command::new("stdbuf");
    command.arg("-oL").arg(program).args(["--no-huge", "-m", "256", "--no-pci", "--no-telemetry", "-d"]).arg(plugin());
    command.arg(format!("--lcores=0@{}", cpu::Plan::detect().guest()));
    command.args(device(0, "left", "wan")).args(device(1, "right", "out"));
    let mask = PORTS.iter().fold(0, |mask, port| mask | 1 << port);
    command.args(["--", "--parse-ptype", "--no-numa", "--rule_ipv4=routes", "--rule_ipv6=routes6", "-p"]);
    command.arg(format!("{mask:#x}")).arg(format!("--config=({},0,0),({},0,0)", PORTS[0], PORTS[1]));
    command.current_dir(home.path("")).env("RUNTIME_DIRECTORY", home.path(""));
    let mut l3fwd = Launch::new("l3fwd").spawn(command)?;
    l3fwd.wait_for_line("it to route", e2e::SOON, |line| line.contains("entering main loop"))?;
    millrace.wait_up(&["wan", "out"]);
    let mut ends = ["near", "far"].map(|port| Options::new(home.socket(port)).connect().unwrap());
    route(&mut ends);
    let [received, sent] = millrace.sides("wan");
    joined_both_ways(&received, &sent, PACKETS);
    millrace.none_dropped();
    let status = l3fwd.terminate(e2e::SOON)?;
    assert!(status.success(), "{status}: {}", l3fwd.log().tail(20));
    millrace.stop();
    Ok(())
}
