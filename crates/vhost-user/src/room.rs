//! Free memory of the machine and of this process's control groups. Pages that a guest has never touched are allocated from
//! it.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::OnceLock;

/// Share of the initially free memory that is kept from guests, as a divisor; and its limit in bytes.
const RESERVED: u64 = 4;
const LARGEST_RESERVE: u64 = 1 << 30;

/// Files that tell it, opened before the process gives up the right to.
pub(crate) struct Room {
    /// /proc/meminfo.
    machine: Option<File>,
    groups: Vec<Group>,
    reserve: u64,
}

/// A control group with memory accounts.
struct Group {
    limit: File,
    used: File,
}

/// Names of the files of a group: limit and use. The second line is of cgroups v1.
const VERSIONS: [(&str, [&str; 2]); 2] =
    [("", ["memory.max", "memory.current"]), ("memory", ["memory.limit_in_bytes", "memory.usage_in_bytes"])];

impl Room {
    /// Returns the process's only one.
    pub(crate) fn get() -> &'static Room {
        static ONLY: OnceLock<Room> = OnceLock::new();
        ONLY.get_or_init(|| Room::of(Path::new("/proc"), Path::new("/sys/fs/cgroup")))
    }

    fn of(proc: &Path, cgroups: &Path) -> Room {
        let own = fs::read_to_string(proc.join("self/cgroup")).unwrap_or_default();
        // A line is `0::/path`, or `4:memory:/path` of cgroups v1. In a container the path may be one of the host.
        let groups = own.lines().filter_map(|line| {
            let (_, line) = line.split_once(':')?;
            let (controllers, path) = line.split_once(':')?;
            let (root, names) = VERSIONS.iter().find(|(name, _)| controllers.split(',').any(|one| one == *name))?;
            Some((cgroups.join(root), path.trim_start_matches('/').to_owned(), names))
        });
        let groups = groups.flat_map(|(root, path, names)| {
            let all = Path::new(&path).ancestors().map(|path| root.join(path)).collect::<Vec<_>>();
            all.into_iter().filter_map(|group| {
                let [limit, used] = names.map(|name| File::open(group.join(name)).ok());
                Some(Group { limit: limit?, used: used? })
            })
        });
        let groups = groups.collect();
        Room::between(File::open(proc.join("meminfo")).ok(), groups)
    }

    fn between(machine: Option<File>, groups: Vec<Group>) -> Room {
        let room = Room { machine, groups, reserve: 0 };
        let reserve = (room.left() / RESERVED).min(LARGEST_RESERVE);
        Room { reserve, ..room }
    }

    /// Returns how many bytes are not for guests: a part of the memory that was free when the process started. Each guest
    /// gets at most half of what is left, but many halves are nearly all.
    pub(crate) fn reserve(&self) -> u64 {
        self.reserve
    }

    /// Returns how many bytes can be allocated. Those of a file that can't be read count as infinite.
    pub(crate) fn left(&self) -> u64 {
        let machine = self.machine.as_ref().and_then(|file| available(&read(file)?));
        let groups = self.groups.iter().filter_map(Group::left);
        machine.into_iter().chain(groups).min().unwrap_or(u64::MAX)
    }
}

impl Group {
    /// Returns how many bytes are left; `None` without a limit.
    fn left(&self) -> Option<u64> {
        let number = |file| read(file)?.trim().parse::<u64>().ok();
        Some(number(&self.limit)?.saturating_sub(number(&self.used)?))
    }
}

/// Reads a short file from its start.
fn read(file: &File) -> Option<String> {
    let mut bytes = [0; 4096];
    let len = file.read_at(&mut bytes, 0).ok()?;
    Some(String::from_utf8_lossy(&bytes[..len]).into_owned())
}

/// Returns the memory that /proc/meminfo calls available.
fn available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Room {
        /// Returns room for `bytes` bytes.
        pub(crate) fn with(directory: &Path, bytes: u64) -> Room {
            let [limit, used] = [bytes, 0].map(|number| {
                let path = directory.join(number.to_string());
                fs::write(&path, number.to_string()).unwrap();
                File::open(path).unwrap()
            });
            Room::between(None, vec![Group { limit, used }])
        }
    }

    /// Returns the room of a machine with 1 MiB, and these files of groups.
    fn room(own: &str, files: &[(&str, &str)]) -> (Room, tempfile::TempDir) {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("proc/self/cgroup", own);
        write("proc/meminfo", "MemTotal:  9999 kB\nMemAvailable:   1024 kB\n");
        files.iter().for_each(|(path, text)| write(&format!("cgroup/{path}"), text));
        (Room::of(&root.path().join("proc"), &root.path().join("cgroup")), root)
    }

    #[test]
    fn the_limit_is_that_of_the_machine_or_of_a_group() {
        let of = |own, files: &[_]| room(own, files).0.left();
        assert_eq!(of("", &[]), 1 << 20);
        let slice = [("a/memory.max", "5000\n"), ("a/memory.current", "1000\n")];
        let service = [("a/b/memory.max", "max\n"), ("a/b/memory.current", "10\n")];
        let both = [slice, service].concat();
        assert_eq!(of("0::/a/b\n", &both), 4000, "the slice has less than the machine");
        assert_eq!(of("0::/c\n", &both), 1 << 20);
        let old = [("memory/a/memory.limit_in_bytes", "300\n"), ("memory/a/memory.usage_in_bytes", "400\n")];
        assert_eq!(of("5:cpu:/a\n4:hugetlb,memory:/a\n", &old), 0, "it has more than it may");
    }

    #[test]
    fn the_limits_are_read_again_each_time() {
        let (room, root) = room("0::/\n", &[("memory.max", "100"), ("memory.current", "10")]);
        assert_eq!(room.left(), 90);
        fs::write(root.path().join("cgroup/memory.current"), "60").unwrap();
        assert_eq!(room.left(), 40);
    }
}
