//! Licences of the crates that the program is made of: their texts go with it.

use super::content::Content;
use crate::command::Context;
use crate::failure::Failure;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// How files with a licence or a notice begin, in capitals.
const NAMES: [&str; 5] = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE"];

/// Returns the names, versions, licences and texts of licences of all crates of others in a package, built for `target`.
pub fn of_crates(context: &Context, content: &Content, target: &str) -> Result<String, Failure> {
    let tree = ["tree", "--locked", "--edges=normal", "--prefix=none", "--format={p}", "--target", target];
    let tree = content.crates.iter().fold(context.cargo(&tree), |tree, name| tree.args(&["--package", name]));
    let tree = tree.output()?;
    let metadata = ["metadata", "--locked", "--format-version=1", "--filter-platform", target];
    let metadata: Value = serde_json::from_str(&context.cargo(&metadata).output()?).map_err(|e| e.to_string())?;
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let text = |package: &Value, key: &str| package[key].as_str().unwrap_or_default().to_owned();
    let packages: BTreeMap<String, &Value> =
        packages.map(|one| (format!("{} v{}", text(one, "name"), text(one, "version")), one)).collect();
    let mut all = BTreeMap::new();
    // One tree a crate, with an empty line between.
    for line in tree.lines().filter(|line| !line.is_empty()) {
        let name: Vec<&str> = line.split(' ').take(2).collect();
        let Some((name, package)) = packages.get_key_value(&name.join(" ")) else {
            return Err(format!("`cargo metadata` does not know {line}").into());
        };
        // Ours have no source: they are in the workspace.
        if !package["source"].is_null() {
            let manifest = text(package, "manifest_path");
            let texts = texts(Path::new(&manifest).parent().unwrap_or(Path::new("")))?;
            let head = format!("{name}\nLicence: {}\n{}\n", text(package, "license"), text(package, "repository"));
            all.insert(name.clone(), format!("{head}\n{texts}"));
        }
    }
    let line = format!("\n{}\n", "=".repeat(80));
    Ok(format!(
        "Crates that are part of {}.\n{line}{}",
        content.package,
        all.into_values().collect::<Vec<_>>().join(&line)
    ))
}

/// Returns the texts of licences in a directory.
fn texts(directory: &Path) -> Result<String, Failure> {
    let cannot = |e: std::io::Error| format!("cannot read {}: {e}", directory.display());
    let mut texts = BTreeMap::new();
    for entry in fs::read_dir(directory).map_err(cannot)?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.path().is_file() && NAMES.iter().any(|begin| name.to_uppercase().starts_with(begin)) {
            let text = fs::read(entry.path()).map_err(cannot)?;
            texts.insert(name.clone(), format!("--- {name}\n\n{}\n", String::from_utf8_lossy(&text)));
        }
    }
    Ok(texts.into_values().collect())
}
