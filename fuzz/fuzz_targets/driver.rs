//! A hostile device on a split or a packed ring.
#![no_main]

use hostile::backend::Setup;
use hostile::driver::{Step, run};

libfuzzer_sys::fuzz_target!(|input: (Setup, Vec<Step>)| run(&input.0, &input.1));
