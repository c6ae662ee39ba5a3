//! The processors of a DPDK program.

use crate::cpu;

/// Processors of a program's threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lcores {
    /// The processor of the thread that forwards, which polls.
    pub forwarding: usize,
    /// The processor of all other threads, which sleep nearly all the time; any but that of the thread that forwards if `None`.
    pub others: Option<usize>,
}

impl Lcores {
    /// Lets the program forward on `core`, and keeps its other threads away from there.
    pub fn polling_on(core: usize) -> Self {
        Self { forwarding: core, others: None }
    }

    /// Returns testpmd's option: its thread 0 reads commands, and thread 1 forwards.
    pub(super) fn option(self) -> String {
        format!("0@{},1@{}", self.console(&cpu::available()), self.forwarding)
    }

    fn console(self, available: &[usize]) -> String {
        if let Some(core) = self.others {
            return core.to_string();
        }
        let cores: Vec<String> =
            available.iter().filter(|&&core| core != self.forwarding).map(usize::to_string).collect();
        if cores.is_empty() { self.forwarding.to_string() } else { format!("({})", cores.join(",")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_threads_keep_away_from_the_polling_thread() {
        let lcores = Lcores::polling_on(1);
        assert_eq!(lcores.console(&[0, 1, 2]), "(0,2)");
        assert_eq!(lcores.console(&[1]), "1");
        assert_eq!(Lcores { others: Some(1), ..lcores }.option(), "0@1,1@1");
    }
}
