//! A controller that sends any bytes.
#![no_main]

use hostile::controller::{Input, run};

libfuzzer_sys::fuzz_target!(|input: Input| run(&input));
