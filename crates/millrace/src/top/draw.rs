//! Draws the model on a terminal of any size.

use super::grid::{Cell, Grid, Sort, Tone};
use super::model::Model;
use super::rates::Rates;
use super::view::View;
use crate::ctl::tables::scaled;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Wrap};
use std::time::{Duration, Instant};

/// Time after which a switch is late with its answer, beyond the interval.
const LATE: Duration = Duration::from_secs(2);

/// Blanks between two columns.
const GAP: usize = 2;

const KEYS: &str = "←→ view  ↑↓ row  s sort  r reverse  / filter  p pause  ? help  q quit";

const HELP: [(&str, &str); 7] = [
    ("← → Tab 1-5", "another view"),
    ("↑ ↓ PgUp PgDn Home End", "select another row; the lines below the table show its details"),
    ("s, r", "sort by the next column, reverse the order"),
    ("/", "only rows with a text; Enter ends typing, Esc shows all"),
    ("p", "pause: freeze the figures; p again resumes"),
    ("?", "this help, or back"),
    ("q, Ctrl-C", "leave"),
];

/// Conditions of drawing that are not in the model.
#[derive(Clone, Debug)]
pub(super) struct Surroundings {
    /// The control socket.
    pub(super) socket: String,
    pub(super) interval: Duration,
    pub(super) has_colour: bool,
    pub(super) now: Instant,
}

impl Surroundings {
    fn style(&self, tone: Tone) -> Style {
        match tone {
            _ if !self.has_colour => Style::new(),
            Tone::Normal => Style::new(),
            Tone::Warning => Style::new().fg(Color::Yellow),
            Tone::Bad => Style::new().fg(Color::Red),
        }
    }
}

pub(super) fn draw(frame: &mut Frame<'_>, model: &Model, around: &Surroundings) {
    let rows = [1, 1, 1].map(Constraint::Length);
    let [head, summary, tabs, body, detail, foot] =
        Layout::vertical(rows.into_iter().chain([Constraint::Min(3), Constraint::Length(2), Constraint::Length(1)]))
            .areas(frame.area());
    line(frame, head, title(model, around));
    line(frame, summary, condition(model, around));
    line(frame, tabs, views(model));
    if model.shows_help() {
        help(frame, body.union(detail), model);
    } else if let Some(grid) = model.grid() {
        table(frame, body, model, &grid, around);
        if let Some(row) = grid.rows.get(model.selected(&grid)) {
            frame.render_widget(Paragraph::new(row.detail.as_str()).wrap(Wrap { trim: true }), detail);
        }
    }
    let typed = || Line::from(format!("/{}▏ Enter ends typing, Esc shows all rows", model.filter()));
    line(frame, foot, if model.is_typing() { typed() } else { Line::from(KEYS) });
}

/// Draws a line, and marks it if it is longer than its place.
fn line(frame: &mut Frame<'_>, area: Rect, line: Line<'_>) {
    let is_cut = line.width() > area.width.into();
    frame.render_widget(line, area);
    if is_cut && !area.is_empty() {
        frame.buffer_mut()[(area.right() - 1, area.y)].set_symbol("…");
    }
}

fn title(model: &Model, around: &Surroundings) -> Line<'static> {
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let up = model.rates().map_or(String::new(), |rates| format!("  up {}", whole_seconds(rates.uptime_seconds)));
    let every = humantime::format_duration(around.interval);
    let mut spans = vec![Span::styled("millrace top", bold), Span::raw(format!("{up}  every {every}"))];
    if model.is_paused() {
        spans.push(Span::styled("  PAUSED", bold.patch(around.style(Tone::Warning))));
    }
    spans.push(Span::raw(format!("  {}", around.socket)));
    Line::from(spans)
}

fn whole_seconds(seconds: f64) -> humantime::FormattedDuration {
    humantime::format_duration(Duration::from_secs(seconds as u64))
}

/// Returns the sums of all ports, or says that the switch is gone.
fn condition(model: &Model, around: &Surroundings) -> Line<'static> {
    let silence = around.now.saturating_duration_since(model.answered());
    let time = whole_seconds(silence.as_secs_f64());
    let bad = around.style(Tone::Bad).add_modifier(Modifier::BOLD);
    if let Some(trouble) = model.trouble() {
        return Line::styled(format!("Gone for {time}, trying again: {trouble}"), bad);
    }
    if silence > around.interval + LATE {
        return Line::styled(format!("The switch has not answered for {time}; still waiting"), bad);
    }
    model.rates().map_or_else(|| Line::from("Waiting for the first rates"), |rates| sums(rates, around))
}

fn sums(rates: &Rates, around: &Surroundings) -> Line<'static> {
    let down = rates.ports.iter().filter(|port| !port.up).count();
    let up = rates.ports.len() - down;
    let rx = rates.total(|port| port.rx_packets_per_second);
    let tx = rates.total(|port| port.tx_packets_per_second);
    let drops = rates.total(|port| port.drops_per_second);
    let worker = rates.workers.iter().max_by(|a, b| a.busy.total_cmp(&b.busy));
    let worker = worker.map(|worker| format!("  busiest worker {:.0} %", 100.0 * worker.busy));
    let tone = |is: bool, tone| around.style(if is { tone } else { Tone::Normal });
    Line::from(vec![
        Span::raw(format!("{up} ports up, ")),
        Span::styled(format!("{down} down"), tone(down > 0, Tone::Bad)),
        Span::raw(format!("  RX {}  TX {}  ", per_second(rx), per_second(tx))),
        Span::styled(format!("drops {}/s", scaled(drops)), tone(drops > 0.0, Tone::Warning)),
        Span::raw(worker.unwrap_or_default()),
    ])
}

fn per_second(packets: f64) -> String {
    let packets = scaled(packets);
    // `14.9 M` has a place for the unit, `14` has none.
    if packets.contains(' ') { format!("{packets}pps") } else { format!("{packets} pps") }
}

fn views(model: &Model) -> Line<'static> {
    let mut spans = Vec::new();
    for (index, view) in View::ALL.into_iter().enumerate() {
        let style = if view == model.view() { Modifier::REVERSED | Modifier::BOLD } else { Modifier::empty() };
        spans.push(Span::styled(format!(" {} {} ", index + 1, view.name()), style));
    }
    if !model.filter().is_empty() {
        spans.push(Span::raw(format!("  only: {}", model.filter())));
    }
    Line::from(spans)
}

/// Draws the rows around the selected one.
fn table(frame: &mut Frame<'_>, area: Rect, model: &Model, grid: &Grid, around: &Surroundings) {
    let widths = widths(grid);
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let header = grid.columns.iter().enumerate().map(|(index, column)| {
        let name = format!("{}{}", column.name, mark(model.sort(), index));
        // The mark has its place in the gap, so that columns don't move.
        let is_number = grid.numbers.contains(&index);
        let width = widths[index] + usize::from(is_number && name != column.name);
        let end = widths[index] + GAP;
        Span::styled(format!("{:<end$}", aligned(&name, width, is_number)), bold)
    });
    let [top, rows] = Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]).areas(area);
    line(frame, top, Line::from_iter(header));
    if grid.rows.is_empty() {
        let empty = if model.filter().is_empty() { grid.empty } else { "No row has the text of the filter." };
        line(frame, rows, Line::from(empty));
        return;
    }
    let selected = model.selected(grid);
    let height = usize::from(rows.height);
    let first = (selected + 1).saturating_sub(height);
    for ((index, row), area) in grid.rows.iter().enumerate().skip(first).zip(rows.rows()) {
        let cell = |(column, cell): (usize, &Cell)| {
            let text = aligned(&cell.text, widths[column], grid.numbers.contains(&column));
            [Span::styled(text, around.style(cell.tone)), Span::raw(" ".repeat(GAP))]
        };
        let mut shown = Line::from_iter(row.cells.iter().enumerate().flat_map(cell));
        if index == selected {
            shown = shown.style(Modifier::REVERSED);
        }
        line(frame, area, shown);
    }
}

/// Returns the mark of the column that is sorted by.
fn mark(sort: Sort, column: usize) -> &'static str {
    match sort.column == Some(column) {
        true if sort.is_reversed => "▲",
        true => "▼",
        false => "",
    }
}

/// Returns the widths of the columns. Those of numbers leave room for larger ones, so that they don't jump.
fn widths(grid: &Grid) -> Vec<usize> {
    let width = |text: &str| Span::raw(text).width();
    let widths = grid.columns.iter().enumerate().map(|(index, column)| {
        let least = if grid.numbers.contains(&index) { "14.9 M".len() } else { 0 };
        let cells = grid.rows.iter().filter_map(|row| row.cells.get(index)).map(|cell| width(&cell.text));
        cells.chain([width(column.name), least]).max().unwrap_or_default()
    });
    widths.collect()
}

/// Pads `text` to its column's width.
fn aligned(text: &str, width: usize, is_number: bool) -> String {
    let blank = " ".repeat(width.saturating_sub(Span::raw(text).width()));
    if is_number { format!("{blank}{text}") } else { format!("{text}{blank}") }
}

fn help(frame: &mut Frame<'_>, area: Rect, model: &Model) {
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let entry = |(name, meaning): (&str, &str)| {
        Line::from(vec![Span::styled(format!("{name:<24}"), bold), Span::raw(meaning.to_owned())])
    };
    let columns = model.view().grid(&Rates::default()).columns;
    let lines = HELP.into_iter().map(entry).chain([Line::default()]);
    let lines = lines.chain(columns.iter().map(|column| entry((column.name, column.meaning))));
    for (shown, area) in lines.zip(area.rows()) {
        line(frame, area, shown);
    }
}

#[cfg(test)]
mod tests;
