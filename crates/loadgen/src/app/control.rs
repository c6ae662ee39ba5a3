//! Lines from the process that started the application.

use super::{GO, STOP};
use std::io::BufRead;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

const NOTHING: u8 = 0;
const BEGIN: u8 = 1;
const END: u8 = 2;

/// The last request of the controller. A thread waits for the next one, so that looking costs no system call.
pub struct Control(Arc<AtomicU8>);

impl Control {
    /// Starts to listen on standard input. Its end is a request to end, unless one to begin came before: a sender ends by itself.
    pub fn listen() -> Control {
        let request = Arc::new(AtomicU8::new(NOTHING));
        let noted = request.clone();
        // It ends with the process.
        std::thread::spawn(move || {
            for line in std::io::stdin().lock().lines().map_while(Result::ok) {
                match line.trim() {
                    GO => noted.store(BEGIN, Relaxed),
                    STOP => noted.store(END, Relaxed),
                    other => eprintln!("{other:?} is not a request: \"{GO}\" and \"{STOP}\" are"),
                }
            }
            let _ = noted.compare_exchange(NOTHING, END, Relaxed, Relaxed);
        });
        Control(request)
    }

    /// Reports whether sending may begin.
    #[inline(always)]
    pub fn begins(&self) -> bool {
        self.0.load(Relaxed) == BEGIN
    }

    /// Reports whether the application is to end.
    #[inline(always)]
    pub fn ends(&self) -> bool {
        self.0.load(Relaxed) == END
    }
}
