//! Any bytes and file descriptors on a vhost-user socket.
#![no_main]

use hostile::messages::{Message, run};

libfuzzer_sys::fuzz_target!(|input: Vec<Message>| run(&input));
