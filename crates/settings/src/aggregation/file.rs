//! Reading only the section `[aggregation]` of a file.

use super::raw::RawAggregation;
use super::{Aggregation, build};
use crate::checker::Checker;
use crate::problem::{Problem, Report};
use crate::written::{Field, Table};
use std::path::{Path, PathBuf};

/// The file; other sections are ignored.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
struct RawFile {
    aggregation: Field<Table<RawAggregation>>,
}

/// Error from loading `[aggregation]`.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file could not be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The section is invalid.
    #[error("{0}")]
    Invalid(Report),
}

/// Reads and checks the section `[aggregation]` of the file at `path`, for a program with ports of these names. Ignores
/// other sections: the file may be a switch's configuration.
pub fn load(path: &Path, ports: &[String]) -> Result<Aggregation, LoadError> {
    read(path, |checker, raw| {
        let behind = raw.next_hops.iter().filter_map(|hop| hop.port.as_ref());
        for at in behind.filter(|at| !ports.contains(at)) {
            let message = format!("there is no port `{}`", at.value);
            let help = format!("name a port by the file name of its socket, without extension: {}", ports.join(", "));
            checker.problems.push(Problem::error(&at.span, message, help));
        }
        ambiguous(checker, raw, ports);
    })
}

/// Like [`load`], for a port that knows no other ports of its program: next hops may be behind any.
pub fn load_for_one_port(path: &Path) -> Result<Aggregation, LoadError> {
    read(path, |_, _| {})
}

fn read(path: &Path, check: impl FnOnce(&mut Checker, &RawAggregation)) -> Result<Aggregation, LoadError> {
    let text = crate::read_text(path).map_err(|source| LoadError::Read { path: path.to_owned(), source })?;
    let read = crate::read::<RawFile>(&text);
    let mut checker = Checker::new(read.problems, read.unread);
    let file = read.file.unwrap_or_default();
    let built = match file.aggregation.as_ref() {
        None if checker.problems.is_empty() => {
            checker.error(&(0..0), "there is no section [aggregation]", "add one; docs/aggregation.md has an example");
            None
        }
        None => None,
        Some(raw) => {
            check(&mut checker, raw);
            Some(build(&mut checker, raw))
        }
    };
    let report = Report::new(path, &text, checker.problems);
    match built {
        Some(built) if !report.has_errors() => Ok(built),
        _ => Err(LoadError::Invalid(report)),
    }
}

/// Reports next hops without a port if there are several ports. Every port would join packets for them, and nobody
/// reads those sent to the wrong side.
fn ambiguous(checker: &mut Checker, raw: &RawAggregation, ports: &[String]) {
    if ports.len() < 2 {
        return;
    }
    for hop in raw.next_hops.iter().filter(|hop| hop.port.as_ref().is_none()) {
        let message = "there are several ports, and this next hop is behind one of them";
        checker.error(&hop.span, message, format!("say `port = ` which: {}", ports.join(", ")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load_text(text: &str) -> Result<Aggregation, Vec<String>> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.toml");
        std::fs::write(&path, text).unwrap();
        let from = directory.path().as_os_str().len() + 1;
        load(&path, &["lan".into(), "wan".into()]).map_err(|error| match error {
            LoadError::Invalid(report) => report.lines().map(|line| line[from..].to_owned()).collect(),
            LoadError::Read { .. } => panic!("{error}"),
        })
    }

    const RIGHT: &str = "[aggregation]\nmac = '02:00:00:00:01:01'\naddresses = ['192.0.2.1']\n\
        [[aggregation.next-hop]]\nnfi = 7\nmac = '02:00:00:00:01:02'\nip = '192.0.2.2'\nport = 'wan'\n\
        [[aggregation.flow]]\nsc = 100\nnfi = 7\n";

    #[test]
    fn a_section_becomes_rules() {
        let spec = load_text(RIGHT).unwrap().spec();
        assert_eq!(
            (spec.mtu, &spec.flows[..], spec.next_hops[0].port.as_deref()),
            (1500, &[(100, 7)][..], Some("wan"))
        );
        let whole = format!("[[port]]\nname = 'x'\ndriver = 'sink'\n{RIGHT}");
        assert_eq!(load_text(&whole).unwrap().spec(), spec);
    }

    #[test]
    fn one_port_takes_next_hops_behind_others() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.toml");
        std::fs::write(&path, RIGHT.replace("'wan'", "'elsewhere'")).unwrap();
        assert_eq!(load_for_one_port(&path).unwrap().next_hops[0].port.as_deref(), Some("elsewhere"));
        std::fs::write(&path, RIGHT.replace("sc =", "cs =")).unwrap();
        let error = load_for_one_port(&path).unwrap_err().to_string();
        assert!(error.contains("unknown key `cs`"), "{error}");
    }

    #[test]
    fn errors_name_their_line() {
        let wrong = load_text(&RIGHT.replace("'wan'", "'van'").replace("nfi = 7\nmac", "nfi = 0\nmac")).unwrap_err();
        assert!(wrong[0].starts_with("a.toml:5:7: `nfi` cannot be 0; "), "{wrong:?}");
        assert!(wrong[1].starts_with("a.toml:8:8: there is no port `van`; name a port by the file name"), "{wrong:?}");
        assert!(wrong[2].starts_with("a.toml:11:7: there is no next hop 7; "), "{wrong:?}");
        let either = load_text(&RIGHT.replace("port = 'wan'\n", "")).unwrap_err();
        assert!(
            either[0].starts_with("a.toml:4:1: there are several ports, and this next hop is behind one of them; ")
        );
        assert!(either[0].ends_with("which: lan, wan"), "{either:?}");
        let unknown = load_text(&RIGHT.replace("mac =", "mak =")).unwrap_err();
        assert!(unknown[1].starts_with("a.toml:2:1: unknown key `mak`; did you mean `mac`?"), "{unknown:?}");
        assert!(load_text("").unwrap_err()[0].contains("there is no section [aggregation]; "));
        assert!(load_text("= 1").unwrap_err()[0].contains("not TOML"));
    }
}
