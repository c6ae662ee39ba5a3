//! A hostile guest on a split ring.
#![no_main]

use hostile::device::{Setup, Step, run};

libfuzzer_sys::fuzz_target!(|input: (Setup, Vec<Step>)| run(&input.0, false, &input.1));
