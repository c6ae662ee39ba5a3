//! Three switches in a ring, and a controller that keeps a spanning tree of them by the configuration of their ports.
//!
//! ```text
//!            a ─ switch 1 (root)
//!               x12 /   \ x13
//!              x21 /     \ x31
//!  b ─ switch 2 ─────────── switch 3 ─ c
//!              x23       x32
//! ```

use super::frames::{BROADCAST, Packet, mac};
use super::*;
use lab::Result;
use lab::netns::Namespace;
use lab::process::Daemon;

/// The address that spanning trees send to.
const BRIDGES: [u8; 6] = [0x01, 0x80, 0xc2, 0, 0, 0];

/// Ports that a controller has blocked: they receive the tree's own messages, and nothing else.
const BLOCKED: [&str; 2] = ["NO_FWD", "NO_PACKET_IN"];

/// Ports of each switch: those of its guest, and towards the others.
const PORTS: [[&str; 3]; 3] = [["a", "x12", "x13"], ["b", "x21", "x23"], ["c", "x31", "x32"]];

/// Returns the port configurations of all switches that are not empty.
fn forbidden(homes: &[Home; 3]) -> Vec<(String, Vec<String>)> {
    let ports = homes.iter().flat_map(|home| shown(home).datapath.unwrap().ports);
    ports.filter(|port| !port.config.is_empty()).map(|port| (port.name, port.config)).collect()
}

/// Guests, and the frames that they have received, without the messages of the tree.
struct Talk {
    guests: [Guest; 3],
    came: [Vec<Vec<u8>>; 3],
}

impl Talk {
    /// Waits until a guest has received a frame. None may come a second time, or to its sender: then there would be a loop.
    fn wait(&mut self, number: usize, frame: &[u8]) {
        wait_for("the frame", || {
            for (guest, came) in self.guests.iter_mut().zip(&mut self.came) {
                guest
                    .receive(64, |bytes| {
                        came.push(bytes.to_vec());
                        Ok(())
                    })
                    .unwrap();
                came.retain(|frame| frame[..6] != BRIDGES);
            }
            self.came[number].iter().any(|came| came == frame).then_some(())
        });
        for (number, came) in self.came.iter().enumerate() {
            let once: std::collections::BTreeSet<_> = came.iter().collect();
            let own = came.iter().any(|frame| frame[6..12] == mac(number as u8 + 1));
            assert!(once.len() == came.len() && !own, "guest {number}: {came:02x?}");
        }
    }

    /// Has the first guest call all others, and each of these answer.
    fn round(&mut self, port: u16) {
        let call = Packet { to: BROADCAST, ..Packet::udp(1, 2, port) }.bytes();
        send(&mut self.guests[0], std::slice::from_ref(&call));
        for number in [1, 2] {
            self.wait(number, &call);
            let answer = Packet::udp(number as u8 + 1, 1, port).bytes();
            send(&mut self.guests[number], std::slice::from_ref(&answer));
            self.wait(0, &answer);
        }
    }
}

#[test]
fn a_spanning_tree_blocks_one_port_of_a_ring() -> Result<()> {
    let namespace = Namespace::create()?;
    let homes = [Home::new(), Home::new(), Home::new()];
    let config = |number: usize, ports: &[RawPort]| {
        let controllers = ["tcp:127.0.0.1:6653".to_owned()].into_iter().collect();
        let datapath_id = (number as i64 + 1).into();
        let channel = RawOpenflow { controllers, datapath_id, ..failing(FailMode::Secure) };
        let bridge = by_flows(bridge("br0", PORTS[number][..ports.len()].iter().copied()));
        file((ports.to_vec(), bridge, channel, sleeper()))
    };
    let root = PORTS[0].map(vhost_user);
    let second = [vhost_user("b"), towards("x21", &homes[0], "x12"), vhost_user("x23")];
    let third = [vhost_user("c"), towards("x31", &homes[0], "x13"), towards("x32", &homes[1], "x23")];
    let start = |(number, ports): (usize, &[RawPort])| homes[number].start_inside(&namespace, config(number, ports));
    let switches = [(0, &root[..]), (1, &second), (2, &third)].map(start);
    let guests = [0, 1, 2].map(|number| Options::new(homes[number].socket(PORTS[number][0])).connect().unwrap());
    let mut talk = Talk { guests, came: Default::default() };
    switches.iter().zip(PORTS).for_each(|(switch, ports)| switch.wait_up(&ports));

    let mut command = namespace.command("osken-manager");
    command.args(["--ofp-listen-host", "127.0.0.1", "--ofp-tcp-listen-port", "6653"]);
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/openflow/spanning_tree.py"));
    let _controller = Daemon::spawn("osken-manager", command)?;
    // While a port listens or learns, it has NO_PACKET_IN. Of the link between the others, the end farther from the root is blocked.
    let blocked = BLOCKED.map(str::to_owned).to_vec();
    wait_for("one blocked port", || (forbidden(&homes) == [("x32".to_owned(), blocked.clone())]).then_some(()));
    talk.round(1);

    // A link fails, and the blocked port takes over.
    homes[0].configure(config(0, &root[..2]));
    switches[0].reload();
    wait_for("no blocked port", || forbidden(&homes).is_empty().then_some(()));
    talk.round(2);
    switches.into_iter().for_each(Millrace::stop);
    Ok(())
}
