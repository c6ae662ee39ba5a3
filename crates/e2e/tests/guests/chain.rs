//! Chains of network functions on one switch: one patch and one copy from each to the next.

use e2e::Home;
use e2e::virtio::{Exchange, Forwarder, Guest, Options};
use lab::Result;
use lab::millrace::config::*;

const FRAMES: u64 = 3000;

/// Returns a chain: `e0` to the first function, each function to the next, the last one to `e1`.
fn config(functions: usize) -> RawFile {
    let place = |n: usize, side: &str| format!("f{n}{side}");
    let first = patched("e0", &place(0, "a"));
    let between: Vec<_> = (1..functions).map(|n| patched(&place(n - 1, "b"), &place(n, "a"))).collect();
    file((first, between, patched(&place(functions - 1, "b"), "e1"), sleeper()))
}

#[test]
fn every_frame_passes_two_four_and_eight_functions() -> Result<()> {
    for functions in [2, 4, 8] {
        let home = Home::new();
        let millrace = home.start(config(functions));
        let guest = |port: String, packed: bool| -> Result<Guest> {
            let options = Options::new(home.socket(&port)).event_idx();
            if packed { options.packed() } else { options }.connect()
        };
        // Split and packed rings alternate, so that frames pass between all combinations.
        let chain = (0..functions).map(|n| {
            let [a, b] =
                [("a", n % 2 == 0), ("b", n % 3 == 0)].map(|(side, packed)| guest(format!("f{n}{side}"), packed));
            Ok(Forwarder::start(a?, b?))
        });
        let chain: Vec<Forwarder> = chain.collect::<Result<_>>()?;
        let [e0, e1] = ["e0", "e1"].map(|port| guest(port.into(), false));
        Exchange::new([e0?, e1?], [1, 2], 60..=1514, 32).run(FRAMES, e2e::SOON)?;
        for (n, function) in chain.into_iter().enumerate() {
            assert_eq!(function.stop()?, 2 * FRAMES, "function {n} of {functions}");
            for side in ["a", "b"] {
                let port = millrace.counted(&format!("f{n}{side}"), FRAMES, FRAMES);
                assert_eq!(port.dropped(), 0, "{:?}", port.0);
            }
        }
        millrace.stop();
    }
    Ok(())
}
