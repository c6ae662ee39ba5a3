#!/usr/bin/env bash
# Two switches, joined by a cable between two network namespaces (af_packet, af_xdp) or by a vhost-user socket
# (virtio-user): node A replays frames of VLAN 100 as fast as it can, node B counts packets. With and without
# aggregation in turn. Prints one line of JSON a run. Needs root, iproute2, jq, and `cargo build --release`.
#
# usage: bench/aggregation.sh [ROUNDS [SECONDS]] > runs.json
set -euo pipefail
cd "$(dirname "$0")/.."
millrace=$PWD/target/release/millrace
rounds=${1:-3} seconds=${2:-1}
work=$(mktemp -d) a="aggregation-$$-a" b="aggregation-$$-b"
pids=()
clean() {
    for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
    for pid in "${pids[@]}"; do wait "$pid" 2>/dev/null || true; done
    ip netns del "$a" 2>/dev/null || true
    ip netns del "$b" 2>/dev/null || true
    pids=()
}
trap 'clean; rm -rf "$work"' EXIT

# capture SIZE: 32 tagged frames, as pcap.
capture() {
    local length frame i
    length=$(printf '\\x%02x\\x%02x\\x00\\x00' $(($1 % 256)) $(($1 / 256)))
    frame='\x02\x00\x00\x00\x00\x02\x02\x00\x00\x00\x00\x01\x81\x00\x00\x64\x88\xb5'
    printf '\xd4\xc3\xb2\xa1\x02\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\x00\x00\x01\x00\x00\x00'
    for ((i = 0; i < 32; i++)); do
        printf '\x00\x00\x00\x00\x00\x00\x00\x00%b%b%b' "$length" "$length" "$frame"
        head -c $(($1 - 18)) /dev/zero
    done
}

# node NAME PORTS AGGREGATE OWN PEER CPU: the configuration of a node.
node() {
    printf '%s\n[[patch]]\nports = ["near", "wan"]\n[[worker]]\ncpu = %s\nidle = "poll"\n' "$2" "$6"
    printf '[control]\nsocket = "%s/%s.ctl"\n' "$work" "$1"
    if [ "$3" = true ]; then
        printf '[aggregation]\nmac = "02:00:00:00:01:0%s"\naddresses = ["192.0.2.%s"]\n' "$4" "$4"
        printf '[[aggregation.next-hop]]\nnfi = 7\nmac = "02:00:00:00:01:0%s"\nip = "192.0.2.%s"\n' "$5" "$5"
        printf '[[aggregation.flow]]\nsc = 100\nnfi = 7\n'
    fi
}

# run PATH SIZE AGGREGATE: one line of JSON.
run() {
    local path=$1 size=$2 aggregate=$3 before after far near_wan far_wan
    ip netns add "$a"
    ip netns add "$b"
    if [ "$path" = virtio-user ]; then
        near_wan="driver = \"virtio-user\"
socket = \"$work/cable.sock\""
        far_wan="driver = \"vhost-user\"
socket = \"$work/cable.sock\""
    else
        ip link add up0 netns "$a" type veth peer name up1 netns "$b"
        ip -n "$a" link set up0 up
        ip -n "$b" link set up1 up
        near_wan="driver = \"$path\"
interface = \"up0\""
        far_wan="driver = \"$path\"
interface = \"up1\""
    fi
    node a "[[port]]
name = \"near\"
driver = \"pcap\"
replay = \"$work/$size.pcap\"
loop = true
[[port]]
name = \"wan\"
$near_wan
aggregate = $aggregate" "$aggregate" 1 2 0 >"$work/a.toml"
    node b "[[port]]
name = \"near\"
driver = \"sink\"
[[port]]
name = \"wan\"
$far_wan
aggregate = $aggregate" "$aggregate" 2 1 1 >"$work/b.toml"
    ip netns exec "$b" "$millrace" run --log warn --config "$work/b.toml" 2>>"$work/log" &
    pids+=($!)
    sleep 0.5
    ip netns exec "$a" "$millrace" run --log warn --config "$work/a.toml" 2>>"$work/log" &
    pids+=($!)
    sleep 0.7
    before=$("$millrace" ctl --socket "$work/b.ctl" --json stats)
    sleep "$seconds"
    after=$("$millrace" ctl --socket "$work/b.ctl" --json stats)
    far=$("$millrace" ctl --socket "$work/a.ctl" --json stats)
    jq -nc --arg path "$path" --argjson size "$size" --argjson aggregate "$aggregate" --argjson before "$before" \
        --argjson after "$after" --argjson far "$far" --argjson seconds "$seconds" '
        def packets($s): [$s.ports[] | select(.name == "near") | .queues[].tx_packets] | add;
        def cycles($s): $s.workers[0] | .stage_cycles_per_packet;
        {$path, $size, $aggregate, mpps: ((packets($after) - packets($before)) / $seconds / 1e6),
         packets_a_frame: ($far.aggregation.next_hops[0] // null | if . then .packets / ([.frames, 1] | max) else 1 end),
         drops: [$after.ports[].drops, $far.ports[].drops] | map(to_entries) | add | from_entries,
         cycles_a: cycles($far), cycles_b: cycles($after)}'
    clean
}

for size in 64 256 512 1024 1400; do
    capture "$size" >"$work/$size.pcap"
    for path in af_packet af_xdp virtio-user; do
        for ((round = 0; round < rounds; round++)); do
            for aggregate in false true; do
                run "$path" "$size" "$aggregate"
            done
        done
    done
done
