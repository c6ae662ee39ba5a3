//! Any table of memory regions.
#![no_main]

use hostile::regions::{Input, run};

libfuzzer_sys::fuzz_target!(|input: Input| run(&input));
