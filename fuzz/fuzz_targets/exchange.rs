//! Members of a group that lie about their buffers.
#![no_main]

use hostile::exchange::{Ring, Step, run};

libfuzzer_sys::fuzz_target!(|input: ([Ring; 3], Vec<Step>)| run(&input.0, &input.1));
