//! Files with very many ports, and problems.

use super::problems;

/// Returns a file of `ports` ports, each with these `keys`, and of `rest` after them.
fn file(ports: usize, keys: &str, rest: &str) -> String {
    let ports: String = (0..ports).map(|port| format!("[[port]]\nname='p{port}'\ndriver='sink'\n{keys}")).collect();
    ports + rest
}

#[test]
fn unused_ports_are_named_one_by_one_or_counted() {
    let told = |ports| problems(&file(ports, "", ""));
    let few = told(3);
    assert!(few.len() == 3 && few[2].starts_with("8:6: port `p2` is in no patch and no bridge"), "{few:#?}");
    let many = "2:6: ports p0, p1, p2 and 297 others are in no patch and no bridge: all that they receive is dropped; list them in \
                the `ports` of a [[patch]] or [[bridge]]";
    assert_eq!(told(300), [many]);
    let with_another = problems(&file(300, "", "[[bridge]]\nname='b'\nports=['p0']\n"));
    assert_eq!(with_another.len(), 2, "{with_another:#?}");
}

/// Minutes, if each problem cost a walk through the file.
#[test]
fn thousands_of_problems_take_no_longer_than_they_must() {
    assert_eq!(problems(&file(8000, "queues=1\n", "")).len(), 8001);
    let unreadable = problems(&file(1000, "vlan='x'\n", ""));
    assert!(unreadable.len() == 51 && unreadable[50].contains("there may be more"), "{unreadable:#?}");
}
