use super::super::model::Key;
use super::super::model::tests::ports;
use super::super::sample::tests::sample;
use super::*;
use engine::stats::{MappingStats, PortStats, Snapshot, WorkerStats};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;

const RATES: [(&str, u64); 2] = [("wan", 1_000_000), ("guest", 2_000_000)];

fn model() -> Model {
    let mut model = Model::new(ports(1.0, &RATES));
    model.accept(Ok(ports(2.0, &RATES)));
    model
}

fn around(model: &Model) -> Surroundings {
    let socket = "/run/millrace.sock".to_owned();
    Surroundings { socket, interval: Duration::from_secs(1), has_colour: true, now: model.answered() }
}

fn buffer(model: &Model, around: &Surroundings, width: u16, height: u16) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, model, around)).unwrap();
    terminal.backend().buffer().clone()
}

/// Returns the lines of a screen, without blanks at their ends.
fn lines(buffer: &Buffer) -> Vec<String> {
    let lines = buffer.content().chunks(buffer.area.width.into());
    lines.map(|cells| cells.iter().map(|cell| cell.symbol()).collect::<String>().trim_end().to_owned()).collect()
}

fn screen(model: &Model) -> Vec<String> {
    lines(&buffer(model, &around(model), 80, 24))
}

fn press(model: &mut Model, keys: &str) {
    for key in keys.chars() {
        model.press(Key::Char(key));
    }
}

#[test]
fn the_ports_fit_a_usual_terminal() {
    let shown = screen(&model());
    assert_eq!(shown[0], "millrace top  up 2s  every 1s  /run/millrace.sock");
    assert_eq!(shown[1], "2 ports up, 0 down  RX 3.00 Mpps  TX 0 pps  drops 0/s");
    assert_eq!(shown[2], " 1 Ports  2 Drops  3 Workers  4 Mappings  5 Aggregation");
    assert_eq!(shown[3], "PORT   STATE  RX pps  RX bit/s  TX pps  TX bit/s  DROPS/s  MAPPING  FORWARDING …");
    assert_eq!(shown[4], "wan    up     1.00 M     512 M       0         0        0  -                   …");
    assert!(shown[5].starts_with("guest  up     2.00 M"), "{shown:#?}");
    assert_eq!(shown[6], "");
    assert!(shown[21].starts_with("wan (sink"), "{shown:#?}");
    assert_eq!(shown[23], KEYS);
}

#[test]
fn sorting_marks_its_column() {
    let mut model = model();
    press(&mut model, "sss");
    let shown = screen(&model);
    assert!(shown[3].contains("RX pps▼") && shown[4].starts_with("guest"), "{shown:#?}");
    press(&mut model, "r");
    let shown = screen(&model);
    assert!(shown[3].contains("RX pps▲") && shown[4].starts_with("wan"), "{shown:#?}");
}

#[test]
fn a_filter_is_shown_while_it_is_typed_and_after() {
    let mut model = model();
    press(&mut model, "/gue");
    let shown = screen(&model);
    assert!(shown[4].starts_with("guest") && shown[5].is_empty(), "{shown:#?}");
    assert!(shown[23].starts_with("/gue▏"), "{shown:#?}");
    model.press(Key::Enter);
    let shown = screen(&model);
    assert!(shown[2].ends_with("only: gue") && shown[23] == KEYS, "{shown:#?}");
    press(&mut model, "/x");
    assert_eq!(screen(&model)[4], "No row has the text of the filter.");
}

#[test]
fn an_empty_view_says_why() {
    let mut none = Model::new(ports(1.0, &[]));
    none.accept(Ok(ports(2.0, &[])));
    let shown = screen(&none);
    assert_eq!(shown[1], "0 ports up, 0 down  RX 0 pps  TX 0 pps  drops 0/s");
    assert_eq!(shown[4], "No ports are configured.");
    let mut model = model();
    press(&mut model, "5");
    assert_eq!(screen(&model)[4], "Aggregation is not configured.");
}

#[test]
fn help_explains_the_keys_and_the_columns() {
    let mut model = model();
    press(&mut model, "?");
    let shown = screen(&model);
    assert!(shown.iter().any(|line| line.starts_with("q, Ctrl-C")), "{shown:#?}");
    assert!(shown.iter().any(|line| line.starts_with("DETAIL ")), "all of it fits: {shown:#?}");
    press(&mut model, "?");
    assert!(screen(&model)[4].starts_with("wan"));
}

#[test]
fn a_switch_that_is_gone_or_slow_is_named() {
    let mut model = model();
    let mut late = around(&model);
    late.now += Duration::from_secs(9);
    assert_eq!(lines(&buffer(&model, &late, 80, 24))[1], "The switch has not answered for 9s; still waiting");
    model.accept(Err("no switch answers on /run/millrace.sock".to_owned()));
    let shown = lines(&buffer(&model, &late, 80, 24));
    assert_eq!(shown[1], "Gone for 9s, trying again: no switch answers on /run/millrace.sock");
    assert!(shown[4].starts_with("wan"), "{shown:#?}");
}

#[test]
fn a_pause_is_shown() {
    let mut model = model();
    press(&mut model, "p");
    assert!(screen(&model)[0].contains("PAUSED"));
}

#[test]
fn the_selected_row_is_in_sight() {
    let names: Vec<_> = (0..50).map(|port| format!("port-{port}")).collect();
    let rates: Vec<_> = names.iter().map(|name| (name.as_str(), 1)).collect();
    let mut model = Model::new(ports(1.0, &rates));
    model.accept(Ok(ports(2.0, &rates)));
    model.press(Key::End);
    let shown = screen(&model);
    assert!(shown[20].starts_with("port-49") && shown[21].starts_with("port-49 ("), "{shown:#?}");
    model.press(Key::Home);
    assert!(screen(&model)[4].starts_with("port-0"));
}

/// A switch with something to see in every view.
fn busy() -> Model {
    let drops = |frames| [("busy".to_owned(), frames)].into();
    let snapshot = |at: f64| Snapshot {
        uptime_seconds: at,
        ports: vec![PortStats {
            name: "wan".into(),
            detail: "interface eth1 has no carrier".into(),
            drops: drops(at as u64),
            stage_drops: [("queue".to_owned(), drops(at as u64))].into(),
            ..PortStats::default()
        }],
        workers: vec![WorkerStats { hung_seconds: Some(3.0), ..WorkerStats::default() }],
        mappings: vec![MappingStats { from: "wan.0".into(), to: "b.0".into(), ..MappingStats::default() }],
        ..Snapshot::default()
    };
    let mut model = Model::new(sample(1.0, snapshot(1.0)));
    model.accept(Ok(sample(2.0, snapshot(2.0))));
    model
}

#[test]
fn colour_marks_problems_and_only_if_it_is_wanted() {
    let mut model = busy();
    let mut around = around(&model);
    let colours = |model: &Model, around: &Surroundings| {
        let screen = buffer(model, around, 120, 24);
        let mut colours: Vec<_> = screen.content().iter().map(|cell| cell.fg.to_string()).collect();
        colours.sort();
        colours.dedup();
        colours.join(" ")
    };
    assert_eq!(colours(&model, &around), "Red Reset Yellow");
    press(&mut model, "3");
    assert!(colours(&model, &around).contains("Red"), "a worker hangs");
    around.has_colour = false;
    assert_eq!(colours(&model, &around), "Reset");
}

#[test]
fn no_size_is_too_small() {
    let mut model = busy();
    let around = around(&model);
    for keys in ["1", "2", "3", "4", "5", "?", "?/x"] {
        press(&mut model, keys);
        for width in [1, 2, 3, 10, 40, 79, 300] {
            for height in 1..30 {
                buffer(&model, &around, width, height);
            }
        }
    }
}

#[test]
fn a_small_screen_shows_rows() {
    let shown = lines(&buffer(&model(), &around(&model()), 30, 8));
    assert!(shown.iter().any(|line| line.starts_with("wan")), "{shown:#?}");
}
