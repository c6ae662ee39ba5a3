#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Builds a small Linux 6.1 that checks memory accesses and locks (KASAN, lockdep), and runs the module's tests with it.
# Downloads Debian's sources of the kernel and installs nothing. Usage, from the top of the repository, on Debian 12:
#
#     kmod/zcopy/debug-kernel.sh DIRECTORY
#
# It takes half an hour on four processors, and 4 GB in DIRECTORY, which keeps what was built.
set -eu

[ $# = 1 ] || { echo "usage: $0 DIRECTORY" >&2; exit 2; }
mkdir -p "$1"
work=$(cd "$1" && pwd)
kernel=$work/linux-image-debug

fetch() {
	cd "$work"
	apt-get -q download linux-source-6.1 flex bison m4 libfl2
	for package in ./*.deb; do
		dpkg -x "$package" tools
	done
	tar xJf tools/usr/src/linux-source-6.1.tar.xz
	mv linux-source-6.1 source
}

configure() {
	make -C "$work/source" O="$work/build" tinyconfig
	# The smallest kernel that runs the tests: two serial lines, an initramfs, modules, KVM on processors of AMD.
	for option in 64BIT SMP MODULES MODULE_UNLOAD BLK_DEV_INITRD BINFMT_ELF BINFMT_SCRIPT TTY SERIAL_8250 \
		SERIAL_8250_CONSOLE PRINTK DEVTMPFS PROC_FS PROC_SYSCTL PROC_PAGE_MONITOR SYSFS SYSCTL MULTIUSER FUTEX \
		EPOLL EVENTFD SIGNALFD TIMERFD POSIX_TIMERS SHMEM TMPFS MEMFD_CREATE FILE_LOCKING ADVISE_SYSCALLS \
		MEMBARRIER AIO NET UNIX INET CGROUPS MEMCG BUG KALLSYMS HIGH_RES_TIMERS HPET_TIMER ACPI PCI \
		VIRTUALIZATION CPU_SUP_AMD CPU_SUP_INTEL RANDOM_TRUST_CPU CC_OPTIMIZE_FOR_PERFORMANCE SLUB SLUB_DEBUG \
		DEBUG_KERNEL KASAN KASAN_GENERIC KASAN_OUTLINE KASAN_VMALLOC PROVE_LOCKING DEBUG_ATOMIC_SLEEP DEBUG_VM \
		DEBUG_VM_RB DEBUG_LIST DEBUG_PAGEALLOC PAGE_POISONING DEBUG_PREEMPT PREEMPT PAGE_TABLE_CHECK \
		PAGE_TABLE_CHECK_ENFORCED DETECT_HUNG_TASK; do
		echo "CONFIG_$option=y"
	done >>"$work/build/.config"
	printf 'CONFIG_SLOB=n\nCONFIG_KVM=m\nCONFIG_KVM_AMD=m\n' >>"$work/build/.config"
	make -C "$work/source" O="$work/build" olddefconfig
	for option in KASAN PROVE_LOCKING DEBUG_ATOMIC_SLEEP PAGE_TABLE_CHECK; do
		grep -q "^CONFIG_$option=y" "$work/build/.config" || { echo "no $option" >&2; exit 1; }
	done
}

build() {
	nice make -C "$work/source" O="$work/build" -j"$(nproc)" bzImage modules
	mkdir -p "$kernel/usr/src"
	cp "$work/build/arch/x86/boot/bzImage" "$kernel/vmlinux"
	cp "$work/build/virt/lib/irqbypass.ko" "$work/build/arch/x86/kvm/kvm.ko" "$work/build/arch/x86/kvm/kvm-amd.ko" "$kernel"
	ln -sfn "$work/build" "$kernel/usr/src/linux-headers-debug"
}

[ -d "$work/source" ] || (fetch)
export PATH="$work/tools/usr/bin:$PATH" BISON_PKGDATADIR="$work/tools/usr/share/bison" M4="$work/tools/usr/bin/m4"
[ -e "$work/build/.config" ] || configure
build
E2E_KERNEL=$kernel cargo test -p millrace-e2e --test exchange checking_kernel -- --ignored --nocapture
