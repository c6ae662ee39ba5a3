use super::*;
use seccompiler::apply_filter;
use std::io;

/// Runs `check` on a thread with the filter. (Filters cannot be removed, and are per thread.)
fn filtered(check: impl FnOnce() + Send + 'static) {
    let confined = std::thread::spawn(move || {
        apply_filter(&program(false).unwrap()).unwrap();
        check();
    });
    confined.join().unwrap();
}

/// Returns the error of a system call whose arguments do no harm if it is allowed.
fn errno(call: i64, arguments: [i64; 4]) -> Option<i32> {
    let [a, b, c, d] = arguments;
    // SAFETY: arguments are -1 or small numbers: as pointers they are invalid, so the kernel answers with EFAULT; as
    // descriptors and addresses to map they are refused. The calls below create at most a descriptor, which leaks.
    let result = unsafe { libc::syscall(call, a, b, c, d, -1_i64, 0_i64) };
    (result < 0).then(|| io::Error::last_os_error().raw_os_error().unwrap())
}

const NOWHERE: [i64; 4] = [-1; 4];

#[test]
fn everything_that_is_listed_is_refused() {
    filtered(|| {
        // Without the filter -1 gives EFAULT, EBADF or EINVAL, but a missing capability gives EPERM first. These three need no
        // capability, so they show that the filter works.
        for call in [libc::SYS_execve, libc::SYS_pidfd_getfd, libc::SYS_name_to_handle_at] {
            assert_eq!(errno(call, NOWHERE), Some(libc::EPERM));
        }
        for &call in REFUSED.iter().chain(&[libc::SYS_bpf]) {
            assert_eq!(errno(call, NOWHERE), Some(libc::EPERM), "system call {call}");
        }
    });
}

#[test]
fn bpf_is_allowed_only_with_the_capability() {
    let is_listed = |bpf| program(bpf).unwrap().iter().any(|code| i64::from(code.k) == libc::SYS_bpf);
    assert!(!is_listed(true) && is_listed(false));
}

#[test]
fn threads_start_and_processes_do_not() {
    filtered(|| {
        assert_eq!(std::thread::spawn(|| 7).join().unwrap(), 7);
        let error = std::process::Command::new("/bin/true").status().unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EPERM));
        assert_eq!(errno(libc::SYS_clone3, [0; 4]), Some(libc::ENOSYS));
    });
}

#[test]
fn sockets_are_of_known_families() {
    filtered(|| {
        for family in FAMILIES {
            assert_ne!(errno(libc::SYS_socket, [family.into(), -1, -1, 0]), Some(libc::EPERM), "family {family}");
        }
        for family in [libc::AF_VSOCK, libc::AF_ALG, libc::AF_BLUETOOTH, libc::AF_TIPC] {
            assert_eq!(errno(libc::SYS_socket, [family.into(), -1, -1, 0]), Some(libc::EPERM), "family {family}");
        }
    });
}

#[test]
fn memory_can_be_mapped_but_not_executed() {
    filtered(|| {
        let private = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS).into();
        let map = |protection: i32| errno(libc::SYS_mmap, [0, 4096, protection.into(), private]);
        assert_eq!(map(libc::PROT_READ | libc::PROT_WRITE), None);
        assert_eq!(map(libc::PROT_READ | libc::PROT_EXEC), Some(libc::EPERM));
        // Page 0 is not mapped: without the filter the kernel answers ENOMEM.
        assert_eq!(errno(libc::SYS_mprotect, [0, 4096, libc::PROT_EXEC.into(), 0]), Some(libc::EPERM));
        assert_eq!(errno(libc::SYS_mprotect, [0, 4096, libc::PROT_READ.into(), 0]), Some(libc::ENOMEM));
    });
}

#[test]
fn nothing_can_be_typed_into_the_terminal() {
    filtered(|| {
        assert_eq!(errno(libc::SYS_ioctl, [-1, libc::TIOCSTI as i64, 0, 0]), Some(libc::EPERM));
        assert_eq!(errno(libc::SYS_ioctl, [-1, libc::FIONREAD as i64, 0, 0]), Some(libc::EBADF));
    });
}

#[cfg(target_arch = "x86_64")]
#[test]
fn another_abi_is_no_way_around_the_list() {
    // execve of x32 (`__X32_SYSCALL_BIT` + 520), and a call with the same number in both ABIs.
    filtered(|| {
        for call in [520, libc::SYS_setns] {
            assert_eq!(errno(call + i64::from(X32), NOWHERE), Some(libc::ENOSYS));
        }
    });
}
