#!/usr/bin/env bash
# How many packets are joined at which rate, and how long a packet takes that is alone. Prints one line of JSON a run.
#
# ratio: a port makes packets of 64 bytes of VLAN 100 at a steady rate; they leave by af_packet, joined.
# latency: ping from one kernel to another, 500 a second, through a switch, a second one, and nf-forward behind that; all
#          of them sleep in between. Aggregates travel between the first switch, which puts on tags, and the second or the
#          function, as bench/placement.sh says; they have a tag as well, as the bridges beside the function want one.
#
# Needs root, iproute2, iputils-ping, jq, and `cargo build --release`.
# usage: bench/joining.sh [ROUNDS [PINGS]] > runs.json
set -euo pipefail
cd "$(dirname "$0")/.."
programs=${PROGRAMS:-$PWD/target/release}
rounds=${1:-2} pings=${2:-1500}
work=$(mktemp -d)
namespaces=("joining-$$-p" "joining-$$-b" "joining-$$-c" "joining-$$-a")
pids=()
clean() {
    for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
    for pid in "${pids[@]}"; do wait "$pid" 2>/dev/null || true; done
    for name in "${namespaces[@]}"; do ip netns del "$name" 2>/dev/null || true; done
    pids=()
}
trap 'clean; rm -rf "$work"' EXIT

# rules OWN PEER LINES: the section [aggregation] of a node with one next hop, of which LINES say more.
rules() {
    printf '[aggregation]\nmac = "02:00:00:00:01:0%s"\naddresses = ["192.0.2.%s"]\n' "$1" "$1"
    printf '[[aggregation.next-hop]]\nnfi = 7\nmac = "02:00:00:00:01:0%s"\nip = "192.0.2.%s"\n%b' "$2" "$2" "$3"
    printf '[[aggregation.flow]]\nsc = 100\nnfi = 7\n'
}

# cable HERE NAME THERE NAME
cable() {
    ip link add "$2" netns "$1" type veth peer name "$4" netns "$3"
    ip -n "$1" link set "$2" up
    ip -n "$3" link set "$4" up
}

# switch NAMESPACE FILE
switch() {
    ip netns exec "${namespaces[$1]}" "$programs/millrace" run --log warn --config "$2" 2>>"$work/log" &
    pids+=($!)
    sleep 0.3
}

# port NAME LINES: a port of a switch.
port() { printf '[[port]]\nname = "%s"\n%b\n' "$1" "$2"; }

ratio() {
    local rate=$1
    for name in "${namespaces[@]}"; do ip netns add "$name"; done
    cable "${namespaces[1]}" up1 "${namespaces[0]}" up0
    {
        printf '[[port]]\nname = "near"\ndriver = "generator"\nsize = 60\nrate = %s\nvlan = 100\n' "$rate"
        printf '[[port]]\nname = "wan"\ndriver = "af_packet"\ninterface = "up1"\naggregate = true\ntrunk = [100]\n'
        printf '[[bridge]]\nname = "br0"\nports = ["near", "wan"]\n[[worker]]\ncpu = 0\nidle = "poll"\n'
        printf '[control]\nsocket = "%s/b.ctl"\n' "$work"
        rules 1 2 ''
    } >"$work/b.toml"
    switch 1 "$work/b.toml"
    sleep 0.5
    "$programs/millrace" ctl --socket "$work/b.ctl" --json stats | jq -c --argjson rate "$rate" \
        '.aggregation.ports[0].sent | {what: "ratio", $rate, packets, frames, percent: (100 * .frames / .packets)}'
    clean
}

latency() {
    local placement=$1 here=false there=true function=("$programs/nf-forward")
    [ "$placement" = vhost ] && here=true
    [ "$placement" = none ] && there=false
    for name in "${namespaces[@]}"; do ip netns add "$name"; done
    cable "${namespaces[0]}" up0 "${namespaces[3]}" up4
    cable "${namespaces[3]}" up5 "${namespaces[1]}" up1
    cable "${namespaces[2]}" up2 "${namespaces[1]}" up3
    for end in 0 2; do
        ip -n "${namespaces[$end]}" address add "198.51.100.$((end + 1))/24" dev "up$end"
    done
    {
        port lan 'driver = "af_packet"\ninterface = "up4"\nvlan = 100'
        port wan "driver = \"af_packet\"\ninterface = \"up5\"\ntrunk = [100]\naggregate = $there"
        printf '[[bridge]]\nname = "a"\nports = ["lan", "wan"]\n[[worker]]\nidle = "sleep"\n'
        printf '[control]\nsocket = "%s/a.ctl"\n' "$work"
        if [ "$there" = true ]; then rules 2 1 'vlan = 100\n'; fi
    } >"$work/a.toml"
    {
        port wan "driver = \"af_packet\"\ninterface = \"up1\"\ntrunk = [100]\naggregate = $here"
        port lan 'driver = "af_packet"\ninterface = "up3"\nvlan = 100'
        for side in left right; do
            port $side "driver = \"vhost-user\"\nsocket = \"$work/$side.sock\"\ntrunk = [100]"
        done
        printf '[[bridge]]\nname = "a"\nports = ["wan", "left"]\n[[bridge]]\nname = "c"\nports = ["right", "lan"]\n'
        printf '[[worker]]\nidle = "sleep"\n'
        printf '[control]\nsocket = "%s/b.ctl"\n' "$work"
        if [ "$here" = true ]; then rules 1 2 'vlan = 100\n'; fi
    } >"$work/b.toml"
    rules 1 2 'vlan = 100\nport = "left"\n' >"$work/nf.toml"
    case $placement in
    nf) function+=(--aggregation "$work/nf.toml") ;;
    native) function+=(--aggregation "$work/nf.toml" --native) ;;
    esac
    switch 3 "$work/a.toml"
    switch 1 "$work/b.toml"
    "${function[@]}" "$work/left.sock" "$work/right.sock" 2>"$work/nf.log" &
    pids+=($!)
    sleep 0.5
    ip netns exec "${namespaces[0]}" ping -q -c 3 -i 0.1 198.51.100.3 >/dev/null
    ip netns exec "${namespaces[0]}" ping -n -c "$pings" -i 0.002 198.51.100.3 |
        sed -n 's/^.*time=\([0-9.]*\) ms$/\1/p' | sort -n |
        jq -sc --arg placement "$placement" 'def at($p): .[(length * $p | floor)] * 1000;
            {what: "latency", $placement, replies: length, us: {p10: at(0.1), p50: at(0.5), p90: at(0.9), p99: at(0.99), p999: at(0.999), mean: (add / length * 1000)}}'
    clean
}

for rate in 100000 250000 500000 1000000 2000000 4000000 8000000; do ratio "$rate"; done
for ((round = 0; round < rounds; round++)); do
    for placement in none vhost nf native; do latency "$placement"; done
done
