//! Tests that the documentation is complete.

#[test]
fn every_drop_reason_is_explained() {
    let page = include_str!("../../../docs/troubleshooting.md");
    for (name, _) in engine::drops::REASONS {
        assert!(page.contains(&format!("| `{name}` |")), "docs/troubleshooting.md does not explain `{name}`");
    }
}
