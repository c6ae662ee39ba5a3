//! System calls (seccomp(2)): a filter that refuses calls that a data plane never needs.
//!
//! It lists refused calls instead of allowed ones, and refuses with EPERM instead of killing. A list of allowed calls would
//! have to cover the C library, every kernel's vDSO fallback and every driver's error path, and one missing call stops a node's
//! traffic. The refused calls are those that lead further from a process that was taken over: new programs and processes, other
//! processes' memory, mounts and namespaces, the kernel's modules and keys, its rarely used corners, new executable memory, and
//! changes of a file's kind, owner or timestamps.
//!
//! The kernel caches which calls are allowed regardless of their arguments (`seccomp_cache_check_allow`, Linux 5.11): those on
//! the data path cost next to nothing more.

use api::confinement::Layer;
use rustix::process::{SpeculationFeature, SpeculationFeatureState, speculative_feature_state};
use seccompiler::SeccompCmpOp::{Eq, MaskedEq, Ne};
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, apply_filter_all_threads, sock_filter,
};
use std::collections::BTreeMap;

/// Calls refused regardless of their arguments.
const REFUSED: &[i64] = &[
    // Programs.
    libc::SYS_execve,
    libc::SYS_execveat,
    // Other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_process_mrelease,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_migrate_pages,
    libc::SYS_move_pages,
    // Memory and queues found by number or name (System V, POSIX).
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_semctl,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
    // Mode and owner of files: a file of the switch that others run with its rights, or with theirs.
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    FCHMODAT2,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    SETXATTRAT,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    REMOVEXATTRAT,
    FILE_SETATTR,
    libc::SYS_utimensat,
    libc::SYS_linkat,
    libc::SYS_symlinkat,
    // Mounts, roots and namespaces.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    OPEN_TREE_ATTR,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at,
    libc::SYS_mknodat,
    // The kernel itself.
    libc::SYS_kexec_load,
    KEXEC_FILE_LOAD,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_syslog,
    libc::SYS_vhangup,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    // Keys.
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    // Features that have helped attackers of kernels more often than a data plane.
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_personality,
    libc::SYS_remap_file_pages,
    libc::SYS_lookup_dcookie,
    libc::SYS_nfsservctl,
    libc::SYS_fanotify_init,
    // Users: all changes are done before.
    libc::SYS_setuid,
    libc::SYS_setgid,
    libc::SYS_setreuid,
    libc::SYS_setregid,
    libc::SYS_setresuid,
    libc::SYS_setresgid,
    libc::SYS_setfsuid,
    libc::SYS_setfsgid,
    libc::SYS_setgroups,
    libc::SYS_capset,
];

/// Refused calls that other processors do not have.
#[cfg(target_arch = "x86_64")]
const REFUSED_HERE: &[i64] = &[
    libc::SYS_fork,
    libc::SYS_vfork,
    libc::SYS_mknod,
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_lchown,
    libc::SYS_utime,
    libc::SYS_utimes,
    libc::SYS_futimesat,
    libc::SYS_link,
    libc::SYS_symlink,
    libc::SYS_iopl,
    libc::SYS_ioperm,
    libc::SYS_modify_ldt,
    libc::SYS_uselib,
    libc::SYS_ustat,
    libc::SYS_sysfs,
    libc::SYS__sysctl,
];
#[cfg(not(target_arch = "x86_64"))]
const REFUSED_HERE: &[i64] = &[];

/// Calls without names in the C library yet, or in not all of them (Linux 6.6, 6.13, 6.15 and 6.17). All architectures number them
/// alike.
const FCHMODAT2: i64 = 452;
const SETXATTRAT: i64 = 463;
const REMOVEXATTRAT: i64 = 466;
const OPEN_TREE_ATTR: i64 = 467;
const FILE_SETATTR: i64 = 469;

/// `kexec_file_load`, which the `libc` crate lacks for musl on arm64.
const KEXEC_FILE_LOAD: i64 = if cfg!(target_arch = "x86_64") { 320 } else { 294 };

/// Requests of ioctl(2) that type into the terminal that the switch was started from (`TIOCSTI`, `TIOCLINUX`): each C library has them in
/// a type of its own.
const TYPING: [u64; 2] = [0x5412, 0x541c];

/// Requests of ioctl(2) that change attributes of files (`FS_IOC_SETFLAGS`, `FS_IOC_FSSETXATTR`).
const FILE_FLAGS: [u64; 2] = [0x4008_6602, 0x401c_5820];

/// Target of ioprio_set(2): one process.
const IOPRIO_WHO_PROCESS: u64 = 1;

/// Mode bits that make a program run with the rights of the file's user or group.
const SET_ID: [u64; 2] = [libc::S_ISUID as u64, libc::S_ISGID as u64];

/// Socket families used by ports, the control socket, metrics and OpenFlow.
const FAMILIES: [i32; 6] =
    [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK, libc::AF_PACKET, libc::AF_XDP];

/// Bit of a system call's number that marks the x32 ABI on x86-64 kernels (`__X32_SYSCALL_BIT`).
#[cfg(target_arch = "x86_64")]
const X32: u32 = 0x4000_0000;

/// Installs the filter for all threads; `bpf` keeps bpf(2) usable.
pub(super) fn install(bpf: bool) -> Layer {
    let bypass = store_bypass();
    let program = match program(bpf) {
        Ok(program) => program,
        Err(error) => return Layer::absent(error),
    };
    if let Err(error) = apply_filter_all_threads(&program) {
        return Layer::absent(error);
    }
    // Kernels before 5.16 assume that a process with a filter runs foreign code, and turn off store bypass for safety.
    if bypass != store_bypass() {
        return Layer::active(
            "some system calls refused; this kernel turns store bypass off with it, which costs throughput: the kernel \
             parameter spec_store_bypass_disable=prctl prevents that",
        );
    }
    Layer::active("system calls that a switch does not need are refused")
}

fn store_bypass() -> Option<SpeculationFeatureState> {
    speculative_feature_state(SpeculationFeature::SpeculativeStoreBypass).ok().flatten()
}

fn program(bpf: bool) -> Result<BpfProgram, BackendError> {
    let refused = REFUSED.iter().chain(REFUSED_HERE).chain((!bpf).then_some(&libc::SYS_bpf));
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = refused.map(|&call| (call, Vec::new())).collect();
    let executable = |argument| rule(&[(argument, MaskedEq(libc::PROT_EXEC as u64), libc::PROT_EXEC as u64)]);
    rules.extend([
        // Threads, but no processes: a new process starts as a copy of this one, in whichever namespace.
        (libc::SYS_clone, vec![rule(&[(0, MaskedEq(libc::CLONE_THREAD as u64), 0)])?]),
        (libc::SYS_socket, vec![rule(&FAMILIES.map(|family| (0, Ne, family as u64)))?]),
        // New executable memory.
        (libc::SYS_mmap, vec![executable(2)?]),
        (libc::SYS_mprotect, vec![executable(2)?]),
        (libc::SYS_pkey_mprotect, vec![executable(2)?]),
        // Limits, processors and priorities of other processes; 0 is this one, or this thread.
        (libc::SYS_prlimit64, vec![rule(&[(0, Ne, 0)])?]),
        (libc::SYS_sched_setaffinity, vec![rule(&[(0, Ne, 0)])?]),
        (libc::SYS_sched_setscheduler, vec![rule(&[(0, Ne, 0)])?]),
        (libc::SYS_sched_setparam, vec![rule(&[(0, Ne, 0)])?]),
        (libc::SYS_sched_setattr, vec![rule(&[(0, Ne, 0)])?]),
        (libc::SYS_setpriority, vec![rule(&[(0, Ne, libc::PRIO_PROCESS as u64)])?, rule(&[(1, Ne, 0)])?]),
        (libc::SYS_ioprio_set, vec![rule(&[(0, Ne, IOPRIO_WHO_PROCESS)])?, rule(&[(1, Ne, 0)])?]),
        (libc::SYS_openat, creating_set_id(2, 3)?),
        (
            libc::SYS_ioctl,
            TYPING.into_iter().chain(FILE_FLAGS).map(|request| rule(&[(1, Eq, request)])).collect::<Result<_, _>>()?,
        ),
    ]);
    #[cfg(target_arch = "x86_64")]
    rules.extend([
        (libc::SYS_open, creating_set_id(1, 2)?),
        (libc::SYS_creat, SET_ID.iter().map(|bit| rule(&[(1, MaskedEq(*bit), *bit)])).collect::<Result<_, _>>()?),
    ]);
    let (allow, refuse) = (SeccompAction::Allow, SeccompAction::Errno(libc::EPERM as u32));
    let compiled: BpfProgram =
        SeccompFilter::new(rules, allow, refuse, std::env::consts::ARCH.try_into()?)?.try_into()?;
    Ok(preamble().into_iter().chain(compiled).collect())
}

/// Matches the creation of a file, named or not, with a set-ID bit in its initial mode.
fn creating_set_id(flags: u8, mode: u8) -> Result<Vec<SeccompRule>, BackendError> {
    // O_TMPFILE is this bit plus O_DIRECTORY.
    let unnamed = libc::O_TMPFILE & !libc::O_DIRECTORY;
    let making = [libc::O_CREAT, unnamed].map(|flag| flag as u64);
    let cases = making.into_iter().flat_map(|flag| SET_ID.map(|bit| (flag, bit)));
    cases.map(|(flag, bit)| rule(&[(flags, MaskedEq(flag), flag), (mode, MaskedEq(bit), bit)])).collect()
}

/// Builds a rule from conditions that must all hold; in all calls here the kernel uses 32 bits of an argument.
fn rule(conditions: &[(u8, SeccompCmpOp, u64)]) -> Result<SeccompRule, BackendError> {
    let condition = |(argument, operator, value): &(u8, SeccompCmpOp, u64)| {
        SeccompCondition::new(*argument, SeccompCmpArgLen::Dword, operator.clone(), *value)
    };
    SeccompRule::new(conditions.iter().map(condition).collect::<Result<_, _>>()?)
}

/// Returns the code before the list, for calls answered with ENOSYS, as if the kernel did not know them.
fn preamble() -> Vec<sock_filter> {
    let [load, jump_if_equal, answer] = [
        libc::BPF_LD | libc::BPF_W | libc::BPF_ABS,
        libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
        libc::BPF_RET | libc::BPF_K,
    ]
    .map(|code| code as u16);
    let unknown = sock_filter { code: answer, jt: 0, jf: 0, k: libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32 };
    // `nr` is the first field of struct seccomp_data. The meaning of the number depends on the architecture, which the compiled
    // list checks: a call of another architecture than this program's ends the process.
    let mut code = vec![sock_filter { code: load, jt: 0, jf: 0, k: 0 }];
    // Their flags are in memory, which a filter cannot read. Libraries fall back to clone and openat, as on older kernels.
    for call in [libc::SYS_clone3, libc::SYS_openat2] {
        code.extend([sock_filter { code: jump_if_equal, jt: 0, jf: 1, k: call as u32 }, unknown.clone()]);
    }
    #[cfg(target_arch = "x86_64")]
    {
        // Calls of this ABI are numbered differently from those of the list, and nothing uses it.
        let jump_if_not_below = (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16;
        code.extend([sock_filter { code: jump_if_not_below, jt: 0, jf: 1, k: X32 }, unknown]);
    }
    code
}

#[cfg(test)]
mod tests;
