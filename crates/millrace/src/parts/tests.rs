//! Tests of the parts with a model of the API.

use super::*;
use crate::config::Config;
use proptest::prelude::*;
use std::cell::RefCell;
use std::fmt;
use std::path::Path;

/// A switch that takes every specification, or refuses the next one.
#[derive(Default)]
struct Stub {
    running: RefCell<Option<Spec>>,
    refuses: RefCell<bool>,
}

impl Changes for Stub {
    fn preview(&self, spec: Spec) -> Vec<ReloadAction> {
        let old = self.running.borrow();
        let had = |name: &str| old.as_ref().and_then(|old| old.ports.iter().find(|port| port.name == name)).cloned();
        let reopened = spec.ports.iter().filter(|port| had(&port.name).is_some_and(|had| had.driver != port.driver));
        let action = |name: &String| ReloadAction {
            subject: engine::reload::Subject::Port,
            name: name.clone(),
            step: Step::Reopened,
            why: vec!["options of its driver".into()],
            error: None,
        };
        reopened.map(|port| action(&port.name)).collect()
    }

    fn change(&self, spec: Spec, _: Option<&str>) -> Result<Vec<ReloadAction>, String> {
        if self.refuses.take() {
            return Err("worker 0 does not respond".into());
        }
        *self.running.borrow_mut() = Some(spec);
        Ok(vec![])
    }
}

const FILE: &str = "[[port]]\nname = \"wan\"\ndriver = \"sink\"\nbridge = \"br0\"\nlabels = { side = \"wan\" }\n\
                    [[port]]\nname = \"lan\"\ndriver = \"sink\"\n[[bridge]]\nname = \"br0\"\nports = [\"lan\"]\n";

fn start(home: &Path) -> (Parts, Vec<String>) {
    let file = home.join("m.toml");
    let kept = home.join("ports.d");
    std::fs::create_dir_all(&kept).unwrap();
    if !file.exists() {
        std::fs::write(&file, FILE).unwrap();
    }
    let (config, document, _) = Config::load_within(&file, None).unwrap_or_else(|error| panic!("{error}"));
    Parts::new(document, config, Some(Store::open(&kept).unwrap()), None).unwrap()
}

fn keys(text: &str) -> Table {
    text.parse().unwrap()
}

fn port(name: &str, rest: &str) -> Table {
    keys(&format!("name = \"{name}\"\ndriver = \"sink\"\n{rest}"))
}

fn code<T: fmt::Debug>(outcome: Result<T, Refusal>) -> Code {
    outcome.unwrap_err().code
}

fn members(parts: &Parts) -> Vec<&str> {
    parts.config().spec.bridges.iter().flat_map(|bridge| &bridge.ports).map(String::as_str).collect()
}

#[test]
fn each_refusal_has_its_code_and_changes_nothing() {
    let home = tempfile::tempdir().unwrap();
    let (mut parts, left) = start(home.path());
    assert!(left.is_empty(), "{left:?}");
    let switch = Stub::default();
    let web = || port("web", "bridge = \"br0\"");
    assert_eq!(parts.add(PartKind::Port, web(), None, &switch).unwrap().effect, Effect::Added);
    assert_eq!(members(&parts), ["lan", "wan", "web"]);
    let before = parts.config().clone();
    assert_eq!(parts.add(PartKind::Port, web(), None, &switch).unwrap().effect, Effect::Unchanged);
    let other = parts.add(PartKind::Port, port("web", ""), None, &switch).unwrap_err();
    assert_eq!(
        (other.code, other.message.as_str()),
        (Code::Differs, "port `web` is there with other settings: `bridge` is \"br0\", not nothing")
    );
    assert_eq!(code(parts.add(PartKind::Port, port("wan", ""), None, &switch)), Code::OwnedByFile);
    assert_eq!(code(parts.remove(PartKind::Bridge, "br0", &switch)), Code::OwnedByFile);
    for bad in ["bridge = \"br1\"", "vlan = 5000", "vlann = 1", "bridge = \"br0\"\nvlan = 10"] {
        let refusal = parts.add(PartKind::Port, port("x", bad), None, &switch).unwrap_err();
        assert_eq!(refusal.code, Code::Invalid, "{refusal}");
    }
    for name in ["", "../x", "a b"] {
        assert_eq!(code(parts.add(PartKind::Port, port(name, ""), None, &switch)), Code::Invalid, "{name}");
    }
    parts.add(PartKind::Bridge, keys("name = \"z\""), None, &switch).unwrap();
    for (kind, name) in [
        (PartKind::Port, "../../m"),
        (PartKind::Port, "z.bridge"),
        (PartKind::Port, "a+b.patch"),
        (PartKind::Bridge, ""),
        (PartKind::Patch, "a+../m"),
    ] {
        assert_eq!(code(parts.remove(kind, name, &switch)), Code::Invalid, "{name}");
    }
    assert!(home.path().join("ports.d/z.bridge.toml").exists());
    parts.remove(PartKind::Bridge, "z", &switch).unwrap();
    assert_eq!(code(parts.set((PartKind::Port, "y"), (Table::new(), &[], false), None, &switch)), Code::Absent);
    *switch.refuses.borrow_mut() = true;
    assert_eq!(code(parts.add(PartKind::Port, port("z", ""), None, &switch)), Code::NotApplied);
    *switch.refuses.borrow_mut() = true;
    assert_eq!(code(parts.remove(PartKind::Port, "web", &switch)), Code::NotApplied);
    assert_eq!(*parts.config(), before);
    let (again, left) = start(home.path());
    assert_eq!((again.config(), left), (&before, vec![]));
}

#[test]
fn bridges_and_patches_are_parts_as_ports_are() {
    let home = tempfile::tempdir().unwrap();
    let (mut parts, _) = start(home.path());
    let switch = Stub::default();
    parts.add(PartKind::Bridge, keys("name = \"br1\""), None, &switch).unwrap();
    for name in ["a", "b", "c", "d"] {
        let bridge = if name < "c" { "bridge = \"br1\"" } else { "" };
        parts.add(PartKind::Port, port(name, bridge), None, &switch).unwrap();
    }
    parts.add(PartKind::Patch, keys("ports = [\"d\", \"c\"]"), None, &switch).unwrap();
    assert_eq!(
        parts.add(PartKind::Patch, keys("ports = [\"c\", \"d\"]"), None, &switch).unwrap().effect,
        Effect::Unchanged
    );
    assert_eq!(code(parts.remove(PartKind::Bridge, "br1", &switch)), Code::InUse);
    assert_eq!(code(parts.remove(PartKind::Port, "c", &switch)), Code::InUse);
    let ageing = (keys("ageing = 60"), &[][..], false);
    assert_eq!(parts.set((PartKind::Bridge, "br1"), ageing, None, &switch).unwrap().effect, Effect::Changed);
    assert_eq!(start(home.path()).0.config().spec.bridges, parts.config().spec.bridges);
    assert_eq!(start(home.path()).0.config().spec.patches, parts.config().spec.patches);
    for (kind, name) in
        [(PartKind::Patch, "c+d"), (PartKind::Port, "a"), (PartKind::Port, "b"), (PartKind::Bridge, "br1")]
    {
        assert_eq!(parts.remove(kind, name, &switch).unwrap().effect, Effect::Removed);
    }
    let ports: Vec<_> = parts.ports().into_iter().map(|(name, (owner, _))| (name, owner)).collect();
    let expected = [("c", Owner::Api), ("d", Owner::Api), ("lan", Owner::File), ("wan", Owner::File)];
    assert_eq!(ports, expected.map(|(name, owner)| (name.to_owned(), owner)));
}

#[test]
fn a_change_that_opens_a_port_again_must_be_allowed() {
    let home = tempfile::tempdir().unwrap();
    let (mut parts, _) = start(home.path());
    let switch = Stub::default();
    let guest = keys("name = \"g\"\ndriver = \"vhost-user\"\nsocket = \"g.sock\"");
    parts.add(PartKind::Port, guest, None, &switch).unwrap();
    let mut set = |to: &str, unset: &[String], reopen| {
        parts.set((PartKind::Port, "g"), (keys(to), unset, reopen), None, &switch).map(|change| change.effect)
    };
    assert_eq!(set("labels = { a = \"b\" }", &[], false), Ok(Effect::Changed));
    let refusal = set("queues = 2", &[], false).unwrap_err();
    assert!(refusal.code == Code::Reopens && refusal.message.contains("port g (options of its driver)"), "{refusal}");
    assert_eq!(set("queues = 2", &[], true), Ok(Effect::Changed));
    assert_eq!(set("", &["labels".into(), "none".into()], false), Ok(Effect::Changed));
    assert_eq!(set("", &[], false), Ok(Effect::Unchanged));
    assert_eq!(set("name = \"h\"", &[], false).unwrap_err().code, Code::Invalid);
}

#[test]
fn a_reload_touches_the_parts_of_the_file_only() {
    let home = tempfile::tempdir().unwrap();
    let (mut parts, _) = start(home.path());
    let switch = Stub::default();
    parts.add(PartKind::Port, port("web", "bridge = \"br0\""), None, &switch).unwrap();
    let mut reload = |text: &str| {
        std::fs::write(home.path().join("m.toml"), text).unwrap();
        let (_, document, _) = Config::load_within(&home.path().join("m.toml"), None).unwrap();
        parts.reload(document, |spec| switch.change(spec, None)).map(|_| members(&parts).join(" "))
    };
    assert_eq!(reload(&FILE.replace("wan", "wan2")), Ok("lan wan2 web".into()));
    let twice = reload(&FILE.replace("wan", "web")).unwrap_err();
    assert!(twice.contains("`web`, which was added at run time") && twice.contains("ctl port del web"), "{twice}");
    let gone = reload(&FILE.replace("br0", "br9")).unwrap_err();
    assert!(gone.contains("there is no bridge `br0`"), "{gone}");
    assert_eq!(reload(FILE), Ok("lan wan web".into()));
    // At a start, what does not fit is left out, and the rest is there.
    parts.add(PartKind::Port, port("x", ""), None, &switch).unwrap();
    std::fs::write(home.path().join("m.toml"), FILE.replace("wan", "web")).unwrap();
    let (again, left) = start(home.path());
    assert_eq!(left, ["web.toml: the configuration file has that port, too"]);
    assert!(again.ports().contains_key("x"));
}

#[test]
fn kept_parts_do_not_widen_the_confinement() {
    let [home, outside] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let file = home.path().join("m.toml");
    std::fs::create_dir_all(home.path().join("ports.d")).unwrap();
    std::fs::create_dir_all(home.path().join("pods")).unwrap();
    std::fs::write(&file, format!("{FILE}[confinement]\ndirectories = [\"pods\"]\n")).unwrap();
    let store = || Store::open(&home.path().join("ports.d")).unwrap();
    let guest = |name: &str, socket: &Path| {
        let keys = format!("name = \"{name}\"\ndriver = \"vhost-user\"\nsocket = \"{}\"", socket.display());
        store().put(&Part::new(PartKind::Port, keys.parse().unwrap()).unwrap()).unwrap();
    };
    guest("in", &home.path().join("pods/s"));
    guest("out", &outside.path().join("s"));
    let (config, document, _) = Config::load_within(&file, None).unwrap();
    let reach = Reach::of(&config, &file).unwrap();
    let (parts, left) = Parts::new(document, config, Some(store()), Some(&reach)).unwrap();
    assert!(parts.ports().contains_key("in") && !parts.ports().contains_key("out"));
    assert!(left.len() == 1 && left[0].starts_with("out.toml: the confinement"), "{left:?}");
}

#[test]
fn a_part_that_was_left_out_is_not_written_over() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("ports.d/x.toml");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, "[[port]]\nname = \"x\"\ndriver = \"sink\"\nbridge = \"br9\"\n").unwrap();
    let before = std::fs::read(&file).unwrap();
    let (mut parts, left) = start(home.path());
    assert_eq!(left.len(), 1, "{left:?}");
    let switch = Stub::default();
    let refusal = parts.add(PartKind::Port, port("x", ""), None, &switch).unwrap_err();
    assert!(refusal.code == Code::Differs && refusal.message.contains("ports.d/x.toml"), "{refusal}");
    assert_eq!(std::fs::read(&file).unwrap(), before);
    assert_eq!(parts.remove(PartKind::Port, "x", &switch).unwrap().effect, Effect::Unchanged);
    assert_eq!(parts.add(PartKind::Port, port("x", ""), None, &switch).unwrap().effect, Effect::Added);
}

/// A call of the API.
#[derive(Clone, Debug)]
enum Call {
    Add(usize, bool),
    Set(usize, i64),
    Remove(usize),
    /// The switch refuses the next change.
    Hang,
    /// The switch is killed and started again.
    Kill,
}

fn calls() -> impl Strategy<Value = Call> {
    prop_oneof![
        4 => (0..4usize, any::<bool>()).prop_map(|(port, joined)| Call::Add(port, joined)),
        2 => (0..4usize, 1..4i64).prop_map(|(port, seed)| Call::Set(port, seed)),
        3 => (0..4usize).prop_map(Call::Remove),
        1 => Just(Call::Hang),
        1 => Just(Call::Kill),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// The parts are those of a model: by port, its keys.
    #[test]
    fn parts_are_as_the_calls_say(calls in prop::collection::vec(calls(), 1..24)) {
        let home = tempfile::tempdir().unwrap();
        let (mut parts, _) = start(home.path());
        let switch = Stub::default();
        let mut model: BTreeMap<String, Table> = BTreeMap::new();
        for call in calls {
            let hangs = *switch.refuses.borrow();
            match call {
                Call::Add(index, joined) => {
                    let name = format!("p{index}");
                    let keys = port(&name, if joined { "bridge = \"br0\"" } else { "" });
                    let outcome = parts.add(PartKind::Port, keys.clone(), None, &switch);
                    match model.get(&name) {
                        Some(had) if *had == keys => prop_assert_eq!(outcome.unwrap().effect, Effect::Unchanged),
                        Some(_) => prop_assert_eq!(code(outcome), Code::Differs),
                        None if hangs => prop_assert_eq!(code(outcome), Code::NotApplied),
                        None => {
                            prop_assert_eq!(outcome.unwrap().effect, Effect::Added);
                            model.insert(name, keys);
                        }
                    }
                }
                Call::Set(index, seed) => {
                    let name = format!("p{index}");
                    let keys = keys(&format!("labels = {{ seed = \"{seed}\" }}"));
                    let outcome = parts.set((PartKind::Port, &name), (keys.clone(), &[], false), None, &switch);
                    match model.get_mut(&name) {
                        None => prop_assert_eq!(code(outcome), Code::Absent),
                        Some(had) if had.get("labels") == keys.get("labels") => {
                            prop_assert_eq!(outcome.unwrap().effect, Effect::Unchanged);
                        }
                        Some(_) if hangs => prop_assert_eq!(code(outcome), Code::NotApplied),
                        Some(had) => had.extend(keys),
                    }
                }
                Call::Remove(index) => {
                    let name = format!("p{index}");
                    let outcome = parts.remove(PartKind::Port, &name, &switch);
                    if hangs && model.contains_key(&name) {
                        prop_assert_eq!(code(outcome), Code::NotApplied);
                    } else {
                        let effect = if model.remove(&name).is_some() { Effect::Removed } else { Effect::Unchanged };
                        prop_assert_eq!(outcome.unwrap().effect, effect);
                    }
                }
                Call::Hang => *switch.refuses.borrow_mut() = true,
                Call::Kill => parts = start(home.path()).0,
            }
            let added: BTreeMap<_, _> = parts.added.iter().map(|part| (part.name.clone(), part.keys.clone())).collect();
            prop_assert_eq!(&added, &model);
        }
        let joined = model.iter().filter(|(_, keys)| keys.contains_key("bridge")).count();
        prop_assert_eq!(members(&parts).len(), 2 + joined);
    }
}
