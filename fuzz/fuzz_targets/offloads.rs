//! Any frame with any description of what its sender left to others.
#![no_main]

use hostile::offloads::{Input, run};

libfuzzer_sys::fuzz_target!(|input: Input| run(&input));
