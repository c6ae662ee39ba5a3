//! Any frame at the end of a tunnel: an inner frame lies in the outer one, after all headers; and a frame sent into
//! the tunnel comes out at the other end.

use arbitrary::Arbitrary;
use paflow::outer::{Addresses, Checksum};
use paflow::vxlan::{Endpoints, TunnelEnd};

/// A frame, which is used as it is, changed in places after it was sent properly, or both.
#[derive(Arbitrary, Debug)]
pub struct Input {
    frame: Vec<u8>,
    ipv6: bool,
    computed: bool,
    changes: Vec<(u16, u8)>,
}

/// Sends, changes, and receives.
pub fn run(input: &Input) {
    let [source, destination] = [1, 2].map(|host| [0xfe80, 0, 0, 0, 0, 0, 0, host]);
    let addresses = |ipv6: bool, [a, b]: [[u16; 8]; 2]| match ipv6 {
        true => Addresses::V6 { source: a.into(), destination: b.into() },
        false => Addresses::V4 { source: [10, 0, 0, a[7] as u8].into(), destination: [10, 0, 0, b[7] as u8].into() },
    };
    let checksum = if input.computed { Checksum::Computed } else { Checksum::Zero };
    let end = |hosts| {
        let addresses = addresses(input.ipv6, hosts);
        let endpoints = Endpoints {
            source: [2; 6].into(),
            destination: [4; 6].into(),
            addresses,
            port: 4789,
            vni: 7,
            hop_limit: 64,
            checksum,
        };
        TunnelEnd::new(&endpoints, 9000).expect("the tunnel is possible")
    };
    let (here, there) = (end([source, destination]), end([destination, source]));
    look(&there, &input.frame);
    if !(14..=here.room() as usize).contains(&input.frame.len()) {
        return;
    }
    let mut headers = here.headers();
    here.complete(&mut headers, &input.frame[..]);
    let mut wire = [&headers[..], &input.frame].concat();
    assert_eq!(look(&there, &wire), Some(&input.frame[..]));
    for &(at, byte) in &input.changes {
        let at = usize::from(at) % wire.len();
        wire[at] = byte;
    }
    look(&there, &wire);
}

/// Returns the inner frame, if there is one.
fn look<'a>(end: &TunnelEnd, bytes: &'a [u8]) -> Option<&'a [u8]> {
    let (from, to) = end.inside(bytes).ok()?;
    assert!(end.overhead() <= from && from + 14 <= to && to as usize <= bytes.len(), "{from}..{to}");
    Some(&bytes[from as usize..to as usize])
}
