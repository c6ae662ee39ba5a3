//! Any capture file: the reader ends, and returns no more frames than the file can hold.

use arbitrary::Arbitrary;
use std::io::Cursor;

/// A file after a valid header: a fuzzer rarely guesses those.
#[derive(Arbitrary, Debug)]
pub struct Input {
    header: Header,
    rest: Vec<u8>,
}

#[derive(Arbitrary, Debug)]
enum Header {
    None,
    Pcap,
    PcapNg,
}

/// Section header, and an interface description for Ethernet.
const PCAPNG: [u32; 12] = [0x0a0d_0d0a, 28, 0x1a2b_3c4d, 1, u32::MAX, u32::MAX, 28, 1, 20, 1, 0, 20];

/// Reads the file to its end.
pub fn run(input: &Input) {
    let mut file = match input.header {
        Header::None => Vec::new(),
        Header::Pcap => {
            let mut file = Vec::new();
            capture::Writer::new(&mut file, 65_549).expect("memory takes it");
            file
        }
        Header::PcapNg => PCAPNG.map(u32::to_le_bytes).concat(),
    };
    file.extend_from_slice(&input.rest);
    let most = file.len() / 12;
    let Ok(reader) = capture::Reader::new(Cursor::new(file)) else { return };
    let frames = reader.take(most + 1).filter(Result::is_ok).count();
    assert!(frames <= most, "{frames} frames where there is room for {most}");
}
