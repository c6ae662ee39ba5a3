//! Attempts of code inside the confined switch to gain access, in every way that the kernel offers. A child of this test
//! confines itself as the switch does and tries them; the test checks the effects, not which call failed how.
#![allow(unsafe_code)] // Most attempts bypass every library.

use super::text;
use libc::{c_int, c_long, c_void, syscall};
use millrace::config::{Config, Reach};
use std::collections::BTreeSet;
use std::ffi::CString;
use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::ptr::{null, null_mut};

/// Environment variable with the child's directory.
const PLACE: &str = "MILLRACE_TEST_CONFINED_IN";

/// Makes a system call and returns its result.
macro_rules! call {
    ($number:expr $(, $argument:expr)* $(,)?) => {
        // SAFETY: arguments are numbers, null, or pointers to data that lives until the call returns; detecting what a call
        // that should have been refused does to this process is the purpose of the test.
        unsafe { syscall($number as c_long $(, $argument as usize)*) }
    };
}

fn c(path: &Path) -> CString {
    CString::new(path.to_str().unwrap()).unwrap()
}

#[test]
fn a_switch_that_was_taken_over_gains_nothing() {
    super::confinement::require_root();
    let directory = tempfile::tempdir().unwrap();
    let captures = directory.path().join("captures");
    fs::create_dir(&captures).unwrap();
    fs::write(captures.join("own"), "own").unwrap();
    fs::write(directory.path().join("elsewhere"), "secret").unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "capabilities::the_confined_child", "--ignored", "--nocapture"]);
    let output = child.env(PLACE, directory.path()).output().unwrap();
    let said = text(&output.stdout) + &text(&output.stderr);
    assert!(output.status.success() && said.contains("nothing was gained"), "{said}");
    // Check from outside as well.
    for entry in fs::read_dir(&captures).unwrap() {
        let metadata = entry.unwrap().metadata().unwrap();
        assert_eq!((metadata.mode() & 0o6000, metadata.uid(), metadata.nlink()), (0, 0, 1), "{metadata:?}");
    }
}

/// Child of the test above, in a separate process.
#[test]
#[ignore = "confines its process: the test above runs it"]
fn the_confined_child() {
    let place = PathBuf::from(std::env::var_os(PLACE).expect("the test above says where"));
    let file = place.join("m.toml");
    let ports = "port = [{name='a', driver='pcap', record='captures/a.pcap'}]";
    let (config, _) = Config::parse(&file, ports).unwrap_or_else(|report| panic!("{report}"));
    let reach = Reach::of(&config, &file).unwrap();
    let confined = millrace::confine::confine(&config.confinement, &reach).unwrap().finish();
    assert!(confined.seccomp.active && confined.landlock.active, "{confined:?}");
    let own = place.join("captures/own");
    let gained: Vec<String> = [
        files_with_set_id(&own),
        other_owners(&own),
        attributes(&own),
        other_times(&own),
        other_names(&place),
        files_elsewhere(&place),
        code(),
        processes(),
        other_processes(),
        views(),
        the_kernel(),
        privileges(),
    ]
    .concat();
    assert!(gained.is_empty(), "gained: {gained:#?}");
    println!("nothing was gained");
}

/// Returns the names of the attempts that succeeded.
fn gained(ways: &[(&str, bool)]) -> Vec<String> {
    ways.iter().filter(|(_, worked)| *worked).map(|(name, _)| (*name).to_owned()).collect()
}

/// Tries to make a file that runs with the rights of its owner or group.
fn files_with_set_id(own: &Path) -> Vec<String> {
    let directory = own.parent().unwrap();
    let handle = fs::OpenOptions::new().write(true).open(own).unwrap();
    let (fd, at, own) = (handle.as_raw_fd(), libc::AT_FDCWD, c(own));
    let new = |name: &str| c(&directory.join(name));
    let making = libc::O_CREAT | libc::O_WRONLY;
    // SAFETY: only changes this process's umask.
    unsafe { libc::umask(0) };
    for mode in [0o4755, 0o2755, 0o6777] {
        call!(libc::SYS_fchmod, fd, mode);
        call!(libc::SYS_fchmodat, at, own.as_ptr(), mode);
        call!(libc::SYS_fchmodat2, at, own.as_ptr(), mode, 0);
        call!(libc::SYS_fchmodat2, fd, c"".as_ptr(), mode, libc::AT_EMPTY_PATH);
        call!(libc::SYS_openat, at, new(&format!("openat{mode}")).as_ptr(), making, mode);
        let how = [making as u64, mode as u64, 0];
        call!(libc::SYS_openat2, at, new(&format!("openat2{mode}")).as_ptr(), how.as_ptr(), size_of_val(&how));
        let unnamed = call!(libc::SYS_openat, at, c(directory).as_ptr(), libc::O_TMPFILE | libc::O_WRONLY, mode);
        if unnamed >= 0 {
            let from = CString::new(format!("/proc/self/fd/{unnamed}")).unwrap();
            let to = new(&format!("unnamed{mode}"));
            call!(libc::SYS_linkat, at, from.as_ptr(), at, to.as_ptr(), libc::AT_SYMLINK_FOLLOW);
        }
        let node = mode as u32 | libc::S_IFREG;
        call!(libc::SYS_mknodat, at, new(&format!("mknodat{mode}")).as_ptr(), node, 0);
        #[cfg(target_arch = "x86_64")]
        {
            call!(libc::SYS_chmod, own.as_ptr(), mode);
            call!(libc::SYS_open, new(&format!("open{mode}")).as_ptr(), making, mode);
            call!(libc::SYS_creat, new(&format!("creat{mode}")).as_ptr(), mode);
            call!(libc::SYS_mknod, new(&format!("mknod{mode}")).as_ptr(), node, 0);
        }
    }
    // SAFETY: as above.
    unsafe { libc::umask(0o022) };
    // A switch does need this; it also proves that files can be created in the directory.
    fs::write(directory.join("new"), "").unwrap();
    let names = ["own", "new"].map(str::to_owned).into_iter().chain(
        ["openat", "openat2", "unnamed", "mknodat", "open", "creat", "mknod"]
            .iter()
            .flat_map(|way| [0o4755, 0o2755, 0o6777].map(|mode| format!("{way}{mode}"))),
    );
    let set_id = |name: &String| fs::metadata(directory.join(name)).is_ok_and(|metadata| metadata.mode() & 0o6000 != 0);
    names.filter(set_id).map(|name| format!("a file with set-id: {name}")).collect()
}

/// Tries to give a file to another user or group.
fn other_owners(own: &Path) -> Vec<String> {
    let handle = fs::File::create(own).unwrap();
    let (fd, at, path) = (handle.as_raw_fd(), libc::AT_FDCWD, c(own));
    call!(libc::SYS_fchown, fd, 1, 1);
    call!(libc::SYS_fchownat, at, path.as_ptr(), 1, 1, 0);
    #[cfg(target_arch = "x86_64")]
    {
        call!(libc::SYS_chown, path.as_ptr(), 1, 1);
        call!(libc::SYS_lchown, path.as_ptr(), 1, 1);
    }
    let metadata = handle.metadata().unwrap();
    gained(&[("a file of another user", (metadata.uid(), metadata.gid()) != (0, 0))])
}

/// Tries to set extended attributes (which include ACLs and file capabilities) and flags.
fn attributes(own: &Path) -> Vec<String> {
    let handle = fs::File::create(own).unwrap();
    let (fd, path) = (handle.as_raw_fd(), c(own));
    let names = [c"user.x", c"security.capability", c"system.posix_acl_access", c"trusted.x"];
    // A file capability (revision 2): all capabilities, effective.
    let capability = [0x0200_0001u32, u32::MAX, 0, u32::MAX, 0];
    let (value, len) = (capability.as_ptr(), size_of_val(&capability));
    for name in names {
        call!(libc::SYS_setxattr, path.as_ptr(), name.as_ptr(), value, len, 0);
        call!(libc::SYS_lsetxattr, path.as_ptr(), name.as_ptr(), value, len, 0);
        call!(libc::SYS_fsetxattr, fd, name.as_ptr(), value, len, 0);
        let arguments = [value as u64, len as u64];
        call!(463, libc::AT_FDCWD, path.as_ptr(), 0, name.as_ptr(), arguments.as_ptr(), 16);
    }
    let has = call!(libc::SYS_flistxattr, fd, null_mut::<u8>(), 0) > 0;
    let mut flags: c_int = 0;
    let known = call!(libc::SYS_ioctl, fd, 0x8008_6601u64, &raw mut flags) == 0;
    // FS_NODUMP_FL needs no privilege.
    let wanted = flags | 0x40;
    call!(libc::SYS_ioctl, fd, 0x4008_6602u64, &raw const wanted);
    let extended = [0x80u32, 0, 0, 0, 0, 0, 0];
    call!(libc::SYS_ioctl, fd, 0x401c_5820u64, extended.as_ptr());
    let attributes = [0x80u64, 0, 0];
    call!(469, libc::AT_FDCWD, path.as_ptr(), attributes.as_ptr(), size_of_val(&attributes), 0);
    let mut now: c_int = 0;
    let changed = known && call!(libc::SYS_ioctl, fd, 0x8008_6601u64, &raw mut now) == 0 && now != flags;
    gained(&[("an extended attribute", has), ("a flag of a file", changed)])
}

/// Tries to backdate a file.
fn other_times(own: &Path) -> Vec<String> {
    let handle = fs::File::create(own).unwrap();
    let (fd, at, path) = (handle.as_raw_fd(), libc::AT_FDCWD, c(own));
    let before = handle.metadata().unwrap().mtime();
    let times = [1i64, 0, 1, 0];
    call!(libc::SYS_utimensat, at, path.as_ptr(), times.as_ptr(), 0);
    call!(libc::SYS_utimensat, fd, null::<u8>(), times.as_ptr(), 0);
    #[cfg(target_arch = "x86_64")]
    {
        call!(libc::SYS_utime, path.as_ptr(), times.as_ptr());
        call!(libc::SYS_utimes, path.as_ptr(), times.as_ptr());
        call!(libc::SYS_futimesat, at, path.as_ptr(), times.as_ptr());
    }
    gained(&[("a file of another time", handle.metadata().unwrap().mtime() != before)])
}

/// Tries to make a foreign file accessible under a permitted name, and to make devices.
fn other_names(place: &Path) -> Vec<String> {
    let at = libc::AT_FDCWD;
    let secret = c(&place.join("elsewhere"));
    let name = |name: &str| place.join("captures").join(name);
    let names = ["linked", "symlinked", "renamed", "device", "directory"].map(name);
    let [linked, symlinked, renamed, device, directory] = names.each_ref().map(|name| c(name));
    call!(libc::SYS_linkat, at, secret.as_ptr(), at, linked.as_ptr(), 0);
    call!(libc::SYS_symlinkat, secret.as_ptr(), at, symlinked.as_ptr());
    call!(libc::SYS_renameat2, at, secret.as_ptr(), at, renamed.as_ptr(), 0);
    call!(libc::SYS_mknodat, at, device.as_ptr(), libc::S_IFCHR | 0o666, libc::makedev(1, 1));
    call!(libc::SYS_mkdirat, at, directory.as_ptr(), 0o777);
    #[cfg(target_arch = "x86_64")]
    {
        call!(libc::SYS_link, secret.as_ptr(), linked.as_ptr());
        call!(libc::SYS_symlink, secret.as_ptr(), symlinked.as_ptr());
        call!(libc::SYS_rename, secret.as_ptr(), renamed.as_ptr());
        call!(libc::SYS_mknod, device.as_ptr(), libc::S_IFCHR | 0o666, libc::makedev(1, 1));
        call!(libc::SYS_mkdir, directory.as_ptr(), 0o777);
    }
    let there = |name: &&PathBuf| name.symlink_metadata().is_ok();
    names.iter().filter(there).map(|name| format!("a name: {}", name.display())).collect()
}

/// Tries to access files that the configuration does not name.
fn files_elsewhere(place: &Path) -> Vec<String> {
    let at = libc::AT_FDCWD;
    let mut ways = Vec::new();
    for path in [Path::new("/etc/shadow"), Path::new("/proc/1/maps"), Path::new("/dev/mem"), Path::new("/dev/kmsg")] {
        let path = c(path);
        ways.push(("a file elsewhere", call!(libc::SYS_openat, at, path.as_ptr(), libc::O_RDONLY) >= 0));
        let how = [libc::O_RDONLY as u64, 0, 0];
        ways.push(("a file elsewhere, openat2", call!(libc::SYS_openat2, at, path.as_ptr(), how.as_ptr(), 24) >= 0));
    }
    let elsewhere = c(&place.join("elsewhere"));
    ways.push(("writing elsewhere", call!(libc::SYS_openat, at, elsewhere.as_ptr(), libc::O_WRONLY) >= 0));
    ways.push(("cutting a file elsewhere", call!(libc::SYS_truncate, elsewhere.as_ptr(), 0) == 0));
    ways.push(("removing a file elsewhere", call!(libc::SYS_unlinkat, at, elsewhere.as_ptr(), 0) == 0));
    let mut handle = [0u32; 34];
    handle[0] = 128;
    let mut mount: c_int = 0;
    let named = call!(libc::SYS_name_to_handle_at, at, elsewhere.as_ptr(), handle.as_mut_ptr(), &raw mut mount, 0) == 0;
    ways.push(("a handle of a file", named));
    ways.push(("a file by its handle", call!(libc::SYS_open_by_handle_at, at, handle.as_ptr(), libc::O_RDONLY) >= 0));
    gained(&ways)
}

/// Returns the executable mappings of this process.
fn executable() -> BTreeSet<String> {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let code = maps.lines().filter(|line| line.split_whitespace().nth(1).is_some_and(|mode| mode.contains('x')));
    code.map(str::to_owned).collect()
}

/// Tries to run code that was not in the program.
fn code() -> Vec<String> {
    const LEN: usize = 4096;
    const ALL: c_int = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
    const RUN: c_int = libc::PROT_READ | libc::PROT_EXEC;
    let before = executable();
    let nowhere = null_mut::<c_void>();
    let map =
        |protection: c_int, flags: c_int, fd: c_long| call!(libc::SYS_mmap, nowhere, LEN, protection, flags, fd, 0);
    let anonymous = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    let memory = call!(libc::SYS_memfd_create, c"code".as_ptr(), 0);
    call!(libc::SYS_ftruncate, memory, LEN);
    map(ALL, anonymous, -1);
    map(RUN, libc::MAP_SHARED, memory);
    map(RUN, libc::MAP_PRIVATE, memory);
    let plain = map(libc::PROT_READ | libc::PROT_WRITE, anonymous, -1);
    assert!(plain > 0, "memory can be mapped");
    call!(libc::SYS_mprotect, plain, LEN, RUN);
    call!(libc::SYS_pkey_mprotect, plain, LEN, RUN, -1i64);
    call!(libc::SYS_remap_file_pages, plain, LEN, 0, 0, 0);
    let segment = call!(libc::SYS_shmget, libc::IPC_PRIVATE, LEN, libc::IPC_CREAT | 0o700);
    for segment in [segment, 0] {
        call!(libc::SYS_shmat, segment, nowhere, libc::SHM_EXEC);
        call!(libc::SYS_shmat, segment, nowhere, libc::SHM_EXEC | libc::SHM_RDONLY);
    }
    const READ_IMPLIES_EXEC: c_int = 0x040_0000;
    call!(libc::SYS_personality, READ_IMPLIES_EXEC);
    map(libc::PROT_READ, anonymous, -1);
    call!(libc::SYS_mprotect, plain, LEN, libc::PROT_READ);
    let grown: Vec<String> = executable().difference(&before).map(|line| format!("code: {line}")).collect();
    // The kernel writes there even where the program may not.
    let written = fs::OpenOptions::new().write(true).open("/proc/self/mem").is_ok();
    [grown, gained(&[("writing over code", written), ("System V memory", segment >= 0)])].concat()
}

/// Tries to start processes, with this program or another one.
fn processes() -> Vec<String> {
    let shell = c"/bin/true";
    let arguments = [shell.as_ptr(), null()];
    // If a child is ever created, it must do nothing but exit.
    let is_child = |result: c_long| {
        if result == 0 {
            call!(libc::SYS_exit_group, 0);
        }
        result > 0
    };
    let mut ways = vec![
        ("clone", is_child(call!(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0))),
        (
            "clone into a user namespace",
            is_child(call!(libc::SYS_clone, libc::CLONE_NEWUSER | libc::SIGCHLD, 0, 0, 0, 0)),
        ),
    ];
    let mut new = [0u64; 11];
    new[4] = libc::SIGCHLD as u64;
    ways.push(("clone3", is_child(call!(libc::SYS_clone3, new.as_ptr(), size_of_val(&new)))));
    #[cfg(target_arch = "x86_64")]
    ways.push(("fork", is_child(call!(libc::SYS_fork))));
    // These would end the test without its last line.
    call!(libc::SYS_execve, shell.as_ptr(), arguments.as_ptr(), null::<u8>());
    call!(libc::SYS_execveat, libc::AT_FDCWD, shell.as_ptr(), arguments.as_ptr(), null::<u8>(), 0);
    gained(&ways)
}

/// Tries to access the parent process, which has the same user.
fn other_processes() -> Vec<String> {
    let parent = std::os::unix::process::parent_id() as c_int;
    let mut here = [0u8; 8];
    let local = [here.as_mut_ptr() as u64, 8];
    // Both processes have the program at the same address, unless it is relocated: the call must be refused for any address.
    let remote = [executable().iter().next().map_or(0, |line| u64::from_str_radix(&line[..12], 16).unwrap()), 8];
    let pidfd = call!(libc::SYS_pidfd_open, parent, 0);
    let of = |file: &str| fs::File::open(format!("/proc/{parent}/{file}")).is_ok();
    let moved = |number: c_long| call!(number, parent, local.as_ptr(), 1, remote.as_ptr(), 1, 0) >= 0;
    gained(&[
        ("ptrace", call!(libc::SYS_ptrace, libc::PTRACE_SEIZE, parent, 0, 0) == 0),
        ("reading memory", moved(libc::SYS_process_vm_readv)),
        ("writing memory", moved(libc::SYS_process_vm_writev)),
        ("mem", of("mem")),
        ("environ", of("environ")),
        ("a descriptor", call!(libc::SYS_pidfd_getfd, pidfd, 0, 0) >= 0),
        ("comparing", call!(libc::SYS_kcmp, parent, parent, 0, 0, 0) >= 0),
        ("advice", call!(libc::SYS_process_madvise, pidfd, remote.as_ptr(), 1, libc::MADV_COLD, 0) >= 0),
        ("moving pages", call!(libc::SYS_move_pages, parent, 0, 0, 0, 0, 0) >= 0),
        ("limits", call!(libc::SYS_prlimit64, parent, libc::RLIMIT_NOFILE, 0, local.as_ptr()) == 0),
        ("processors", call!(libc::SYS_sched_setaffinity, parent, 8, [u64::MAX].as_ptr()) == 0),
        ("scheduler", call!(libc::SYS_sched_setscheduler, parent, libc::SCHED_OTHER, [0i32].as_ptr()) == 0),
        ("scheduler's parameters", call!(libc::SYS_sched_setparam, parent, [0i32].as_ptr()) == 0),
        ("scheduler's attributes", call!(libc::SYS_sched_setattr, parent, [48u64, 0, 0, 0, 0, 0].as_ptr(), 0) == 0),
        ("priority", call!(libc::SYS_setpriority, libc::PRIO_PROCESS, parent, 0) == 0),
        ("priority of all of a user", call!(libc::SYS_setpriority, libc::PRIO_USER, 0, 0) == 0),
        ("priority of a group", call!(libc::SYS_setpriority, libc::PRIO_PGRP, 0, 0) == 0),
        ("priority of transfers", call!(libc::SYS_ioprio_set, 1, parent, 0) == 0),
        ("signals", call!(libc::SYS_kill, parent, 0) == 0),
        ("signals by descriptor", call!(libc::SYS_pidfd_send_signal, pidfd, 0, 0, 0) == 0),
    ])
}

/// Tries to change the view of the system.
fn views() -> Vec<String> {
    let (root, at) = (c"/", libc::AT_FDCWD);
    let own = fs::File::open("/proc/self/status").unwrap();
    gained(&[
        ("unshare user", call!(libc::SYS_unshare, libc::CLONE_NEWUSER) == 0),
        ("unshare mounts", call!(libc::SYS_unshare, libc::CLONE_NEWNS) == 0),
        ("setns", call!(libc::SYS_setns, own.as_raw_fd(), 0) == 0),
        ("chroot", call!(libc::SYS_chroot, root.as_ptr()) == 0),
        ("mount", call!(libc::SYS_mount, c"x".as_ptr(), root.as_ptr(), c"tmpfs".as_ptr(), 0, 0) == 0),
        ("fsopen", call!(libc::SYS_fsopen, c"tmpfs".as_ptr(), 0) >= 0),
        ("open_tree", call!(libc::SYS_open_tree, at, root.as_ptr(), 1) >= 0),
        ("open_tree_attr", call!(467, at, root.as_ptr(), 1, 0, 0) >= 0),
    ])
}

/// Tries rarely used kernel features.
fn the_kernel() -> Vec<String> {
    let mut ring = [0u32; 30];
    let event = [0u64; 16];
    gained(&[
        ("io_uring", call!(libc::SYS_io_uring_setup, 1, ring.as_mut_ptr()) >= 0),
        ("perf events", call!(libc::SYS_perf_event_open, event.as_ptr(), 0, -1i64, -1i64, 0) >= 0),
        ("userfaultfd", call!(libc::SYS_userfaultfd, 1) >= 0),
        ("userfaultfd by its device", fs::File::open("/dev/userfaultfd").is_ok()),
        ("keys", call!(libc::SYS_keyctl, 0, -3i64, 1) >= 0),
        ("a key", call!(libc::SYS_add_key, c"user".as_ptr(), c"x".as_ptr(), c"x".as_ptr(), 1, -3i64) >= 0),
        ("fanotify", call!(libc::SYS_fanotify_init, 0, 0) >= 0),
        ("the log", call!(libc::SYS_syslog, 10, 0, 0) >= 0),
        ("a hypervisor's sockets", call!(libc::SYS_socket, libc::AF_VSOCK, libc::SOCK_STREAM, 0) >= 0),
        ("the kernel's ciphers", call!(libc::SYS_socket, libc::AF_ALG, libc::SOCK_SEQPACKET, 0) >= 0),
        ("message queues", call!(libc::SYS_mq_open, c"x".as_ptr(), libc::O_CREAT, 0o600, 0) >= 0),
        ("System V queues", call!(libc::SYS_msgget, libc::IPC_PRIVATE, libc::IPC_CREAT) >= 0),
    ])
}

/// Tries to change users and capabilities.
fn privileges() -> Vec<String> {
    let status = || -> Vec<String> {
        let text = fs::read_to_string("/proc/thread-self/status").unwrap();
        let keys = ["Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp:"];
        text.lines().filter(|line| keys.iter().any(|key| line.starts_with(key))).map(str::to_owned).collect()
    };
    let before = status();
    let header = [0x2008_0522u32, 0];
    call!(libc::SYS_capset, header.as_ptr(), [u32::MAX; 6].as_ptr());
    for user in [0, 1] {
        call!(libc::SYS_setresuid, user, user, user);
        call!(libc::SYS_setresgid, user, user, user);
        call!(libc::SYS_setfsuid, user);
        call!(libc::SYS_setgroups, 1, [user].as_ptr());
    }
    for capability in 0..64 {
        call!(libc::SYS_prctl, libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_RAISE, capability, 0, 0);
    }
    call!(libc::SYS_prctl, libc::PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0);
    gained(&[("privileges", status() != before)])
}
