//! Any capture file.
#![no_main]

use hostile::captures::{Input, run};

libfuzzer_sys::fuzz_target!(|input: Input| run(&input));
