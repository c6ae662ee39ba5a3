//! Capabilities of a terminal: colours, and replacing text.

use std::env;
use std::ffi::OsString;
use std::io::IsTerminal;

/// Reports whether colours may be written to this stream: it is a terminal that has them, and the user wants them
/// (<https://no-color.org>).
pub fn has_colours(stream: &impl IsTerminal) -> bool {
    can_redraw(stream) && wants_colours()
}

/// Reports whether the user wants colours.
pub fn wants_colours() -> bool {
    is_wanted(env::var_os("NO_COLOR"))
}

/// Reports whether this stream is a terminal on which text can be replaced by other text: a dumb one only has lines.
pub fn can_redraw(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// A variable that is set, and not empty, turns colours off.
fn is_wanted(no_color: Option<OsString>) -> bool {
    no_color.is_none_or(|value| value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_value_turns_colours_off() {
        let wanted = |value: &str| is_wanted(Some(value.into()));
        assert!(is_wanted(None) && wanted("") && !wanted("1") && !wanted("0") && !wanted("false"));
    }
}
