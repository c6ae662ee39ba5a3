//! A database of dpkg about unpacked packages, as if they were installed where they are: `dpkg-shlibdeps` learns from it which package has
//! a library, and from which version on.

use super::{Debian, make, packages_in, write};
use crate::failure::Failure;
use std::fs;
use std::path::{Path, PathBuf};

/// Files of a package that tell which version of it programs need.
const VERSIONS: [&str; 2] = ["shlibs", "symbols"];

impl Debian<'_> {
    /// Returns a database of the packages whose files [`Debian::files`] has returned, those that have libraries.
    pub fn database(&self) -> Result<PathBuf, Failure> {
        let database = self.place.join("database");
        let (made, done) = (database.join("made"), self.place.join("unpacked"));
        let unpacked = fs::read_to_string(&done).map_err(|e| format!("cannot read {}: {e}", done.display()))?;
        if fs::read_to_string(&made).is_ok_and(|made| made == unpacked) {
            return Ok(database);
        }
        if database.exists() {
            fs::remove_dir_all(&database).map_err(|e| format!("cannot remove {}: {e}", database.display()))?;
        }
        make(&database.join("info"))?;
        make(&database.join("updates"))?;
        write(&database.join("available"), "")?;
        let archives = packages_in(&self.place.join("archives"))?;
        let paragraphs = archives.iter().map(|archive| self.enter(archive, &database));
        write(&database.join("status"), &paragraphs.collect::<Result<String, _>>()?)?;
        write(&made, &unpacked)?;
        Ok(database)
    }

    /// Enters a package into the database, if it has libraries; returns what is said of it there.
    fn enter(&self, archive: &Path, database: &Path) -> Result<String, Failure> {
        let archive = archive.display().to_string();
        let ask = |question: &[&str]| self.context.command("dpkg-deb").args(question).output();
        let control = database.join("control");
        ask(&["--control", &archive, &control.display().to_string()])?;
        let name = ask(&["--field", &archive, "Package"])?;
        let info = |kind: &str| database.join(format!("info/{}.{kind}", name.trim()));
        let mut has_libraries = false;
        for kind in VERSIONS {
            has_libraries |= fs::rename(control.join(kind), info(kind)).is_ok();
        }
        fs::remove_dir_all(&control).map_err(|e| format!("cannot remove {}: {e}", control.display()))?;
        if !has_libraries {
            return Ok(String::new());
        }
        let tree = self.place.join("files").display().to_string();
        let contents = ask(&["--contents", &archive])?;
        write(
            &info("list"),
            &contents.lines().filter_map(path).map(|path| format!("{tree}/{path}\n")).collect::<String>(),
        )?;
        Ok(format!("{}Status: install ok installed\n\n", ask(&["--field", &archive])?))
    }
}

/// Returns the path in a line of a package's contents.
fn path(line: &str) -> Option<&str> {
    let (_, path) = line.split_once(" ./")?;
    let path = path.split(" -> ").next()?.trim_end_matches('/');
    (!path.is_empty()).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::path;

    #[test]
    fn paths_are_read() {
        let line = "lrwxrwxrwx root/root         0 2026-01-01 00:00 ./usr/lib/liba.so.1 -> liba.so.1.2";
        assert_eq!(path(line), Some("usr/lib/liba.so.1"));
        assert_eq!(path("-rw-r--r-- root/root 9 2026-01-01 00:00 ./usr/lib/liba.so.1.2"), Some("usr/lib/liba.so.1.2"));
        assert_eq!(path("drwxr-xr-x root/root         0 2026-01-01 00:00 ./"), None);
    }
}
