//! Any burst of frames for an output that takes messages.
#![no_main]

use hostile::merge::{Input, run};

libfuzzer_sys::fuzz_target!(|input: Input| run(&input));
