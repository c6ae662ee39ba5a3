//! The page of a report, in a browser: on a phone and on a desk, light and dark.

mod browser;
mod sample;

use browser::Browser;
use serde_json::{Value, json};
use std::process::Command;

/// Looks at the page: its plots, those of which a canvas shows fewer than three colours, and elements that stick out
/// sideways.
const LOOK: &str = "(() => {
    const colours = (canvas) => {
        const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
        return new Set(new Uint32Array(data.buffer)).size;
    };
    const root = document.documentElement;
    const plots = [...document.querySelectorAll('.plot')];
    const canvases = plots.map((plot) => plot.querySelector('canvas'));
    return {
        plots: plots.length,
        blank: plots.filter((_, n) => !canvases[n] || colours(canvases[n]) < 3).map((plot) => plot.id),
        narrow: canvases.filter((canvas) => canvas.clientWidth < 250).length,
        wide: root.scrollWidth - root.clientWidth,
        ground: getComputedStyle(document.body).backgroundColor,
    };
})()";

/// Reports whether an event is an error, or a request that leaves the file.
fn is_wrong(event: &Value) -> bool {
    let request = event["params"]["request"]["url"].as_str().unwrap_or("file:");
    match event["method"].as_str() {
        Some("Runtime.exceptionThrown" | "Log.entryAdded" | "Runtime.consoleAPICalled") => true,
        Some("Network.requestWillBeSent") => !request.starts_with("file:") && !request.starts_with("data:"),
        _ => false,
    }
}

#[test]
fn the_page_is_drawn_at_all_widths_in_both_themes() {
    let directory = tempfile::tempdir().unwrap();
    sample::write(directory.path());
    let page = directory.path().join("page.html");
    let mut testbed = Command::new(env!("CARGO_BIN_EXE_testbed"));
    let output = testbed.arg("report").arg(directory.path()).arg("--out").arg(&page).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(directory.path().join("summary.md").exists());

    let mut browser = Browser::start();
    let mut grounds = Vec::new();
    for (width, theme) in [(390, "light"), (390, "dark"), (1280, "light"), (1280, "dark")] {
        let size = json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500});
        browser.call("Emulation.setDeviceMetricsOverride", size);
        let scheme = json!({"features": [{"name": "prefers-color-scheme", "value": theme}]});
        browser.call("Emulation.setEmulatedMedia", scheme);
        let events = browser.open(&format!("file://{}", page.display()));
        let wrong: Vec<_> = events.iter().filter(|event| is_wrong(event)).collect();
        assert!(wrong.is_empty(), "{width} {theme}: {wrong:?}");
        let seen = browser.evaluate(LOOK);
        let plots = seen["plots"].as_u64().unwrap();
        let expected = json!({"plots": plots, "blank": [], "narrow": 0, "wide": 0, "ground": seen["ground"]});
        assert!(plots >= 16 && seen == expected, "{width} {theme}: {seen}");
        // Opened tables scroll by themselves.
        browser.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })");
        assert_eq!(browser.evaluate(LOOK)["wide"], 0, "{width} {theme}, all opened");
        grounds.push(seen["ground"].clone());
    }
    assert!(grounds[0] == grounds[2] && grounds[1] == grounds[3] && grounds[0] != grounds[1], "{grounds:?}");
    browser.evaluate("document.getElementById('theme').click()");
    assert_eq!(browser.evaluate(LOOK)["ground"], grounds[0]);
}
