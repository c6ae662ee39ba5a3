# The commands of a page run after this, in namespaces of their own and in a directory with the page's files. What would
# run for ever runs until it has shown that it works.
set -euo pipefail

ip link set lo up
ip link add eth1 type veth peer name peer0
ip link set eth1 up
ip link set peer0 up

# until CONDITION...: waits for it.
await() {
    for _ in $(seq 600); do
        if "$@" >/dev/null 2>&1; then return 0; fi
        sleep 0.1
    done
    echo "not within a minute: $*" >&2
    if [ -e switch.log ]; then tail -n 20 switch.log >&2; fi
    return 1
}

# A switch goes on until the page's commands have run, and is there when the next one comes.
millrace() {
    if [ "$*" = top ]; then
        command millrace top --count 1
        return
    fi
    if [ "${1:-}" != run ]; then
        command millrace "$@"
        return
    fi
    command millrace "$@" 2>>switch.log &
    await grep -q "started" switch.log
}

guests() {
    grep -c "a vhost-user frontend connected" switch.log || true
}

more_guests_than() {
    [ "$(guests)" -gt "$1" ]
}

# guest PROGRAM ARGUMENTS...: it has to connect to the switch, and is ended then.
guest() {
    local before
    before=$(guests)
    command "$@" >guest.log 2>&1 </dev/null &
    local pid=$!
    if ! await more_guests_than "$before"; then
        cat guest.log >&2
        return 1
    fi
    kill "$pid"
    wait "$pid" || true
}

nf-forward() { guest nf-forward "$@"; }
nf-macswap() { guest nf-macswap "$@"; }
qemu-system-x86_64() { guest qemu-system-x86_64 "$@" -display none -serial none -monitor none; }

# An application that takes commands: told to quit, it has to end well, having been connected.
quits() {
    local before
    before=$(guests)
    echo quit | timeout 120 "$@" >guest.log 2>&1 || { cat guest.log >&2; return 1; }
    more_guests_than "$before"
}

# DPDK's files are in the page's directory: other pages have their own.
dpdk-testpmd() {
    if [[ "$*" != *--no-huge* ]]; then huge_pages; fi
    RUNTIME_DIRECTORY=$PWD quits dpdk-testpmd "$@"
}
bwrap() { quits bwrap "$@"; }

# 256 MiB of huge pages, which are left to others who test.
huge_pages() {
    local free
    free() { awk '/HugePages_Free/ {print $2}' /proc/meminfo; }
    if [ "$(free)" -lt 128 ]; then echo 256 >/proc/sys/vm/nr_hugepages || true; fi
    if [ "$(free)" -lt 128 ]; then
        echo "this needs 128 huge pages, and the kernel has $(free): echo 256 > /proc/sys/vm/nr_hugepages" >&2
        return 1
    fi
}
