//! Checks of the kernel module zcopy, from inside a virtual machine that has it loaded.
//!
//! `e2e-zcopy CHECK`

mod faults;
mod identity;
mod kills;
mod machine;
mod owners;
mod pages;
mod raw;
mod refused;

use std::process::ExitCode;

/// Why a check failed.
type Failed = Box<dyn std::error::Error + Send + Sync>;

/// Ends a check unless a condition holds.
macro_rules! ensure {
    ($condition:expr, $($message:tt)+) => {
        if !$condition {
            return Err(format!($($message)+).into());
        }
    };
}
use ensure;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("e2e-zcopy: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<(), Failed> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["identity"] => identity::run(),
        ["peer"] => identity::peer(),
        ["owners", steps] => owners::run(steps.parse()?),
        ["faults", calls] => faults::run(calls.parse()?),
        ["refused"] => refused::run(),
        ["kills", times] => kills::run(times.parse()?),
        ["machine", patience] => machine::run(std::time::Duration::from_secs(patience.parse()?)),
        // Holds an area until it is killed.
        ["hold"] => {
            let _area = pages::area(1)?;
            println!("holding");
            loop {
                std::thread::park();
            }
        }
        _ => Err("no such check; look at main.rs".into()),
    }
}
