//! Any frame from a network, where aggregates are expected.
#![no_main]

use hostile::aggregates::{Input, run};

libfuzzer_sys::fuzz_target!(|input: Input| run(&input));
