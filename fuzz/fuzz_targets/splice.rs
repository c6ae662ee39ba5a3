//! A hostile guest and a hostile device, between whose rings entries are spliced.
#![no_main]

use hostile::splice::{Setup, Step, run};

libfuzzer_sys::fuzz_target!(|input: (Setup, Vec<Step>)| run(&input.0, &input.1));
