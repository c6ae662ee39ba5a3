//! Any frame from a network, where a VXLAN tunnel ends.
#![no_main]

use hostile::tunnel::{Input, run};

libfuzzer_sys::fuzz_target!(|input: Input| run(&input));
