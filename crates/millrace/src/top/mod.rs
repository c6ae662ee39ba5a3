//! `millrace top`: a live view of a running switch.
//!
//! Two samples of the switch's counters (`sample`) become rates (`rates`), and rates become tables (`view`, `grid`). On a
//! terminal, `model` has the shown table and the effects of keys, and `draw` draws it; `screen` and `keyboard` control the
//! terminal. Elsewhere, `lines` prints.

mod draw;
mod grid;
mod keyboard;
mod lines;
mod model;
mod rates;
mod sample;
mod sampler;
mod screen;
#[cfg(test)]
#[path = "../../tests/terminal/mod.rs"]
#[allow(dead_code, reason = "the tests of the program use the rest")]
mod terminal;
mod view;

use crate::cli::TopOptions;
use crate::ctl::find_socket;
use crate::terminal::can_redraw;
use client::ClientError;
use lines::Form;
use sample::Sample;
use std::io::{self, IsTerminal};

/// Error that ends `top`.
#[derive(Debug, thiserror::Error)]
pub enum TopError {
    /// The switch did not answer at the start.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// Standard output could not be written.
    #[error("cannot write to standard output: {0}")]
    Output(io::Error),
    /// The terminal can't show the live view.
    #[error("cannot use the terminal: {0}; --plain needs none")]
    Terminal(io::Error),
}

/// Shows a running switch as the command line says, until the user leaves or the intervals have passed.
pub fn run(options: &TopOptions) -> Result<(), TopError> {
    let socket = options.socket.clone().unwrap_or_else(find_socket);
    // A switch that goes away later is retried, but a wrong path should be reported at once.
    let first = Sample::take(&socket)?;
    let is_interactive = io::stdin().is_terminal() && can_redraw(&io::stdout());
    let form = match (options.json, options.plain || !is_interactive) {
        (true, _) => Form::Json,
        (false, true) => Form::Plain,
        (false, false) => {
            return screen::run(&socket, first, options.interval, options.count).map_err(TopError::Terminal);
        }
    };
    match lines::run(&socket, first, options.interval, options.count, form, &mut io::stdout().lock()) {
        // The reader of the output (a pager, `head`) has closed it.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other.map_err(TopError::Output),
    }
}
