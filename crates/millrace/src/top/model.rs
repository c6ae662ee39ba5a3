//! The state of the screen, and its changes by keys, without a terminal.

use super::grid::{Grid, Sort};
use super::rates::Rates;
use super::sample::Sample;
use super::view::View;
use std::time::Instant;

/// Rows that a page key moves by.
const PAGE: usize = 10;

/// A key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Left,
    Right,
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
    Enter,
    Escape,
    Backspace,
    /// Ctrl-C.
    Interrupt,
    Char(char),
}

/// Whether the program continues after a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    Stay,
    Leave,
}

/// The user's choices in one view.
#[derive(Clone, Debug, Default)]
struct Choice {
    sort: Sort,
    /// Key of the selected row; without one it is the first row.
    selected: Option<String>,
}

/// All that the screen shows.
#[derive(Debug)]
pub(super) struct Model {
    view: View,
    choices: [Choice; View::ALL.len()],
    filter: String,
    is_typing: bool,
    is_paused: bool,
    shows_help: bool,
    latest: Sample,
    rates: Option<Rates>,
    trouble: Option<String>,
}

impl Model {
    /// Begins with a first sample: rates follow with the second one.
    pub(super) fn new(first: Sample) -> Model {
        Model {
            view: View::default(),
            choices: Default::default(),
            filter: String::new(),
            is_typing: false,
            is_paused: false,
            shows_help: false,
            latest: first,
            rates: None,
            trouble: None,
        }
    }

    /// Takes the next sample, or the reason why there is none.
    pub(super) fn accept(&mut self, outcome: Result<Sample, String>) {
        match outcome {
            Ok(sample) => {
                if !self.is_paused {
                    self.rates = Some(Rates::between(&self.latest, &sample));
                }
                self.latest = sample;
                self.trouble = None;
            }
            Err(trouble) => self.trouble = Some(trouble),
        }
    }

    /// Executes a user's command.
    pub(super) fn press(&mut self, key: Key) -> Flow {
        if key == Key::Interrupt {
            return Flow::Leave;
        }
        if self.is_typing {
            self.write(key);
            return Flow::Stay;
        }
        match key {
            Key::Char('q') => return Flow::Leave,
            Key::Char('?' | 'h') => self.shows_help = !self.shows_help,
            Key::Char('p') => self.is_paused = !self.is_paused,
            Key::Char('/') => self.is_typing = true,
            Key::Char('s') => {
                let columns = self.columns();
                let sort = &mut self.choice().sort;
                *sort = sort.next(columns);
            }
            Key::Char('r') => {
                let sort = &mut self.choice().sort;
                sort.is_reversed = !sort.is_reversed;
            }
            Key::Char(digit @ '1'..='5') => self.view = View::ALL[digit as usize - '1' as usize],
            Key::Right => self.view = self.view.after(1),
            Key::Left => self.view = self.view.after(View::ALL.len() - 1),
            Key::Escape if self.shows_help => self.shows_help = false,
            Key::Escape => self.filter.clear(),
            Key::Up => self.select(|index| index.saturating_sub(1)),
            Key::Down => self.select(|index| index + 1),
            Key::PageUp => self.select(|index| index.saturating_sub(PAGE)),
            Key::PageDown => self.select(|index| index + PAGE),
            Key::Home => self.select(|_| 0),
            Key::End => self.select(|_| usize::MAX),
            Key::Enter | Key::Backspace | Key::Interrupt | Key::Char(_) => {}
        }
        Flow::Stay
    }

    /// Changes the filter by a key.
    fn write(&mut self, key: Key) {
        match key {
            Key::Char(letter) => self.filter.push(letter),
            Key::Backspace => drop(self.filter.pop()),
            Key::Enter => self.is_typing = false,
            Key::Escape => {
                self.filter.clear();
                self.is_typing = false;
            }
            _ => {}
        }
    }

    fn choice(&mut self) -> &mut Choice {
        &mut self.choices[self.view as usize]
    }

    fn columns(&self) -> usize {
        self.view.grid(&Rates::default()).columns.len()
    }

    fn select(&mut self, to: impl FnOnce(usize) -> usize) {
        let Some(grid) = self.grid() else { return };
        let index = to(self.selected(&grid)).min(grid.rows.len().saturating_sub(1));
        self.choice().selected = grid.rows.get(index).map(|row| row.key.clone());
    }

    /// Returns the table of the view, filtered and sorted; `None` before there are rates.
    pub(super) fn grid(&self) -> Option<Grid> {
        let mut grid = self.view.grid(self.rates.as_ref()?);
        grid.filter(&self.filter);
        grid.sort(self.sort());
        Some(grid)
    }

    /// Returns the index of the selected row of `grid`.
    pub(super) fn selected(&self, grid: &Grid) -> usize {
        let selected = self.choices[self.view as usize].selected.as_ref();
        selected.and_then(|key| grid.rows.iter().position(|row| row.key == *key)).unwrap_or_default()
    }

    pub(super) fn view(&self) -> View {
        self.view
    }

    pub(super) fn sort(&self) -> Sort {
        self.choices[self.view as usize].sort
    }

    pub(super) fn filter(&self) -> &str {
        &self.filter
    }

    pub(super) fn is_typing(&self) -> bool {
        self.is_typing
    }

    pub(super) fn is_paused(&self) -> bool {
        self.is_paused
    }

    pub(super) fn shows_help(&self) -> bool {
        self.shows_help
    }

    pub(super) fn rates(&self) -> Option<&Rates> {
        self.rates.as_ref()
    }

    /// Returns the reason why there is no newer sample, if the switch gave one.
    pub(super) fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    pub(super) fn answered(&self) -> Instant {
        self.latest.answered
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::sample::tests::sample;
    use super::*;
    use engine::stats::{PortStats, QueueStats, Snapshot};

    /// Returns the sample of second `at`, of ports that receive packets at these `rates` per second.
    pub(in crate::top) fn ports(at: f64, rates: &[(&str, u64)]) -> Sample {
        let port = |&(name, rate): &(&str, u64)| {
            let packets = rate * at as u64;
            let queue = QueueStats { rx_packets: packets, rx_bytes: 64 * packets, ..QueueStats::default() };
            PortStats {
                name: name.into(),
                up: true,
                driver: "sink".into(),
                queues: vec![queue],
                ..PortStats::default()
            }
        };
        let ports = rates.iter().map(port).collect();
        sample(at, Snapshot { uptime_seconds: at, ports, ..Snapshot::default() })
    }

    const THREE: [(&str, u64); 3] = [("wan", 10), ("guest-b", 30), ("guest-a", 20)];

    fn model() -> Model {
        let mut model = Model::new(ports(1.0, &THREE));
        model.accept(Ok(ports(2.0, &THREE)));
        model
    }

    fn press(model: &mut Model, keys: &str) {
        for key in keys.chars() {
            assert_eq!(model.press(Key::Char(key)), Flow::Stay, "{key}");
        }
    }

    fn shown(model: &Model) -> Vec<String> {
        model.grid().unwrap().rows.into_iter().map(|row| row.key).collect()
    }

    fn selected(model: &Model) -> String {
        let grid = model.grid().unwrap();
        grid.rows[model.selected(&grid)].key.clone()
    }

    #[test]
    fn arrows_and_digits_change_the_view() {
        let mut model = model();
        model.press(Key::Right);
        assert_eq!(model.view(), View::Drops);
        model.press(Key::Left);
        model.press(Key::Left);
        assert_eq!(model.view(), View::Aggregation);
        press(&mut model, "3");
        assert_eq!(model.view(), View::Workers);
    }

    #[test]
    fn each_view_has_its_own_order() {
        let mut model = model();
        press(&mut model, "s");
        assert_eq!(shown(&model), ["guest-a", "guest-b", "wan"]);
        press(&mut model, "ss");
        assert_eq!(shown(&model), ["guest-b", "guest-a", "wan"], "by rate");
        press(&mut model, "r");
        assert_eq!(shown(&model), ["wan", "guest-a", "guest-b"]);
        press(&mut model, "2");
        assert_eq!(model.sort(), Sort::default());
    }

    #[test]
    fn a_filter_is_typed_and_cleared() {
        let mut model = model();
        press(&mut model, "/gq");
        assert_eq!((model.filter(), shown(&model).len()), ("gq", 0));
        model.press(Key::Backspace);
        model.press(Key::Enter);
        assert_eq!((model.is_typing(), shown(&model)), (false, vec!["guest-b".to_owned(), "guest-a".to_owned()]));
        model.press(Key::Escape);
        assert_eq!(shown(&model).len(), 3);
    }

    #[test]
    fn the_selected_row_stays_selected_where_it_goes() {
        let mut model = model();
        model.press(Key::Down);
        assert_eq!(selected(&model), "guest-b");
        press(&mut model, "s");
        assert_eq!(selected(&model), "guest-b");
        model.press(Key::End);
        model.press(Key::Down);
        assert_eq!(selected(&model), "wan");
        model.press(Key::PageUp);
        assert_eq!(selected(&model), "guest-a");
        press(&mut model, "/none");
        model.press(Key::Down);
    }

    #[test]
    fn a_pause_keeps_the_figures_and_ends_with_fresh_ones() {
        let mut model = model();
        let rate = |model: &Model| model.rates().unwrap().ports[0].rx_packets_per_second;
        press(&mut model, "p");
        model.accept(Ok(ports(3.0, &[("wan", 1000)])));
        assert_eq!(rate(&model), 10.0);
        press(&mut model, "p");
        model.accept(Ok(ports(4.0, &[("wan", 1000)])));
        assert_eq!(rate(&model), 1000.0, "of the last interval, not since the pause began");
    }

    #[test]
    fn a_switch_that_is_gone_leaves_its_figures_until_it_is_back() {
        let mut model = model();
        model.accept(Err("no switch".to_owned()));
        assert_eq!((model.trouble(), shown(&model).len()), (Some("no switch"), 3));
        model.accept(Ok(ports(3.0, &THREE)));
        assert_eq!(model.trouble(), None);
    }

    #[test]
    fn q_and_ctrl_c_leave() {
        let mut model = model();
        assert_eq!(model.press(Key::Char('q')), Flow::Leave);
        press(&mut model, "?/q");
        assert!(model.shows_help() && model.is_typing());
        assert_eq!(model.press(Key::Interrupt), Flow::Leave, "also while typing");
    }

    #[test]
    fn before_there_are_rates_keys_do_no_harm() {
        let mut model = Model::new(ports(1.0, &THREE));
        for key in [Key::Down, Key::End, Key::Char('s'), Key::Char('r'), Key::Right] {
            assert_eq!(model.press(key), Flow::Stay);
        }
        assert!(model.grid().is_none());
    }
}
