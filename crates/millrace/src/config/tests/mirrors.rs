//! Tests of `[[mirror]]`.

use super::{problems, valid};
use engine::spec::{MirrorDirection, MirrorPoint, MirrorSpec};

/// Ports `a` and `b`, which are patched, `c` and `d`, which are bridged, and `probe`.
const PORTS: &str = "port = [{name='a', driver='sink'}, {name='b', driver='sink'}, {name='c', driver='sink'}, \
     {name='d', driver='sink'}, {name='probe', driver='sink'}]\npatch = [{ports=['a', 'b']}]\n\
     bridge = [{name='br', ports=['c', 'd']}]\n";

#[test]
fn a_mirror_copies_both_directions_on_the_wire_unless_it_says_otherwise() {
    let config = valid(&format!(
        "{PORTS}[[mirror]]\nfrom = ['a', 'c']\nto = 'probe'\n\
         [[mirror]]\nfrom = ['b']\nto = 'probe'\ndirection = 'in'\nat = 'forward'\n\
         [[mirror]]\nfrom = ['d']\nto = 'probe'\ndirection = 'out'\nat = 'wire'\n"
    ));
    let mirror = |from: &[&str], direction, at| MirrorSpec {
        from: from.iter().map(|name| (*name).to_owned()).collect(),
        to: "probe".into(),
        direction,
        at,
    };
    let expected = [
        mirror(&["a", "c"], MirrorDirection::Both, MirrorPoint::Wire),
        mirror(&["b"], MirrorDirection::In, MirrorPoint::Forward),
        mirror(&["d"], MirrorDirection::Out, MirrorPoint::Wire),
    ];
    assert_eq!(config.spec.mirrors, expected);
    assert!(problems(PORTS).iter().any(|line| line.contains("port `probe` is in no patch and no bridge")));
    let mirrored = format!("{PORTS}[[mirror]]\nfrom = ['a']\nto = 'probe'\n");
    assert_eq!(problems(&mirrored), Vec::<String>::new(), "it gets copies");
}

#[test]
fn unsupported_mirrors_are_refused() {
    let told = |mirror: &str, expected: &str| {
        let problems = problems(&format!("{PORTS}{mirror}"));
        assert!(problems.iter().any(|line| line.contains(expected)), "{expected} is not in {problems:#?}");
    };
    let from_to = |from: &str, to: &str| format!("[[mirror]]\nfrom = [{from}]\nto = '{to}'\n");
    told("[[mirror]]\nto = 'probe'\n", "`from` is missing");
    told("[[mirror]]\nfrom = ['a']\n", "`to` is missing");
    told(&from_to("", "probe"), "the mirror copies the frames of no port");
    told(&from_to("'e'", "probe"), "there is no port `e`");
    told(&from_to("'a'", "prob"), "there is no port `prob`");
    told(&from_to("'c'", "a"), "port `a` gets the copies of a mirror, and is also patched");
    told(&from_to("'a'", "d"), "port `d` gets the copies of a mirror, and is also in bridge `br`");
    told(&from_to("'a', 'probe'", "probe"), "port `probe` gets the copies of a mirror, and is mirrored itself");
    told(&from_to("'a', 'b', 'a'", "probe"), "frames of port `a` are copied there twice");
    let twice = [from_to("'a'", "probe"), from_to("'b', 'a'", "probe")].concat();
    told(&twice, "frames of port `a` are copied there twice");
    told("[[mirror]]\nfrom = ['a']\nto = 'probe'\ndirection = 'inwards'\n", "unknown value `inwards`");
}
