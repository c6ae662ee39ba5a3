//! System calls (seccomp(2)): a filter that refuses what a data plane never needs.
//!
//! It lists what is refused rather than what is allowed, and refuses with EPERM rather than death. A list of allowed
//! calls would have to name those of the C library, of every kernel's vDSO fallback and of every driver's error path,
//! and the one that is missing stops a node's traffic. What is listed is what leads further from a process that has
//! been taken over: new programs and processes, other processes' memory, mounts and namespaces, the kernel's modules
//! and keys, its rarely used corners, and new executable memory.
//!
//! The kernel remembers which calls are allowed whatever their arguments are (`seccomp_cache_check_allow`, Linux 5.11):
//! those that the data path makes cost next to nothing more.

use super::Layer;
use rustix::process::{SpeculationFeature, SpeculationFeatureState, speculative_feature_state};
use seccompiler::SeccompCmpOp::{Eq, MaskedEq, Ne};
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, apply_filter_all_threads, sock_filter,
};
use std::collections::BTreeMap;

/// Calls that are refused whatever their arguments are.
const REFUSED: &[i64] = &[
    // Programs.
    libc::SYS_execve,
    libc::SYS_execveat,
    // Other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    // Mounts, roots and namespaces.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
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
    libc::SYS_kexec_file_load,
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
    // Corners that have helped to take over kernels more often than they have helped a data plane.
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_personality,
    libc::SYS_lookup_dcookie,
    libc::SYS_nfsservctl,
    libc::SYS_fanotify_init,
    // Users: what there was to change was changed before.
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

/// The same, for calls that other processors do not have.
#[cfg(target_arch = "x86_64")]
const REFUSED_HERE: &[i64] = &[
    libc::SYS_fork,
    libc::SYS_vfork,
    libc::SYS_mknod,
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

/// Families of sockets that ports, the control socket, metrics and OpenFlow are made of.
const FAMILIES: [i32; 6] =
    [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK, libc::AF_PACKET, libc::AF_XDP];

/// Bit of a system call's number by which x86-64 kernels tell the x32 ABI (`__X32_SYSCALL_BIT`).
#[cfg(target_arch = "x86_64")]
const X32: u32 = 0x4000_0000;

/// Installs the filter for all threads; `bpf` leaves bpf(2) usable.
pub(super) fn install(bpf: bool) -> Layer {
    let bypass = store_bypass();
    let program = match program(bpf) {
        Ok(program) => program,
        Err(error) => return Layer::absent(error),
    };
    if let Err(error) = apply_filter_all_threads(&program) {
        return Layer::absent(error);
    }
    // Kernels before 5.16 think that whoever filters calls runs foreign code, and slow it down for safety's sake.
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
    let executable = || MaskedEq(libc::PROT_EXEC as u64);
    rules.extend([
        // Threads, and no processes: those begin with a copy of this one, whatever namespace they are to be in.
        (libc::SYS_clone, vec![rule(0, &[(MaskedEq(libc::CLONE_THREAD as u64), 0)])?]),
        (libc::SYS_socket, vec![rule(0, &FAMILIES.map(|family| (Ne, family as u64)))?]),
        // Code that was not in the program when it started.
        (libc::SYS_mmap, vec![rule(2, &[(executable(), libc::PROT_EXEC as u64)])?]),
        (libc::SYS_mprotect, vec![rule(2, &[(executable(), libc::PROT_EXEC as u64)])?]),
        (libc::SYS_pkey_mprotect, vec![rule(2, &[(executable(), libc::PROT_EXEC as u64)])?]),
        // Typing into the terminal that the switch was started from.
        (libc::SYS_ioctl, vec![rule(1, &[(Eq, libc::TIOCSTI)])?, rule(1, &[(Eq, libc::TIOCLINUX)])?]),
    ]);
    let (allow, refuse) = (SeccompAction::Allow, SeccompAction::Errno(libc::EPERM as u32));
    let compiled: BpfProgram =
        SeccompFilter::new(rules, allow, refuse, std::env::consts::ARCH.try_into()?)?.try_into()?;
    Ok(preamble().into_iter().chain(compiled).collect())
}

/// All of `conditions` on one argument, of which the kernel looks at 32 bits in all calls here.
fn rule(argument: u8, conditions: &[(SeccompCmpOp, u64)]) -> Result<SeccompRule, BackendError> {
    let condition = |(operator, value): &(SeccompCmpOp, u64)| {
        SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator.clone(), *value)
    };
    SeccompRule::new(conditions.iter().map(condition).collect::<Result<_, _>>()?)
}

/// What comes before the list, because it is answered otherwise: with ENOSYS, as if the kernel did not know the call.
fn preamble() -> Vec<sock_filter> {
    let [load, jump_if_equal, answer] = [
        libc::BPF_LD | libc::BPF_W | libc::BPF_ABS,
        libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
        libc::BPF_RET | libc::BPF_K,
    ]
    .map(|code| code as u16);
    let unknown = sock_filter { code: answer, jt: 0, jf: 0, k: libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32 };
    // `nr` is the first field of struct seccomp_data. What the number means depends on the architecture, which the
    // compiled list checks: a call of another one than this program's ends the process.
    let mut code = vec![sock_filter { code: load, jt: 0, jf: 0, k: 0 }];
    // Its flags are in memory, where a filter cannot look. The C library then uses clone, as on older kernels.
    code.extend([sock_filter { code: jump_if_equal, jt: 0, jf: 1, k: libc::SYS_clone3 as u32 }, unknown.clone()]);
    #[cfg(target_arch = "x86_64")]
    {
        // The calls of this ABI have other numbers than those of the list, and nobody uses it.
        let jump_if_not_below = (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16;
        code.extend([sock_filter { code: jump_if_not_below, jt: 0, jf: 1, k: X32 }, unknown]);
    }
    code
}

#[cfg(test)]
mod tests;
