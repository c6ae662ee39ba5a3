#!/usr/bin/env bash
# The node that hosts a network function, with packets joined nowhere (none), or split and joined in its switch (vhost),
# in the function's library (nf), or read as aggregates by the function itself (native). A port replays packets of VLAN
# 100 or ready-made aggregates of them as fast as it can, nf-forward takes them from port `left` to `right`, and a sink
# counts what comes out. Prints one line of JSON a run. Needs root, iproute2, jq, and `cargo build --release`.
#
# paths: rings: the switch on CPU 0, which replays, too, and the function on CPU 1, both polling
#        veth: another switch on CPU 1 sends over a cable of the kernel (af_packet), switch and function share CPU 0
#
# Under more load than it can carry a node spends its time on what it drops, most of all where aggregates are split before
# they are dropped. So each is run at several loads (the port that replays drops that part of its frames at random), and
# the best one counts.
#
# usage: bench/placement.sh [ROUNDS [SECONDS [PATHS [SIZES [DROPPED]]]]] > runs.json
set -euo pipefail
cd "$(dirname "$0")/.."
programs=${PROGRAMS:-$PWD/target/release}
rounds=${1:-1} seconds=${2:-0.3} paths=${3:-rings veth} sizes=${4:-64 128 256 512 1024 1498} loads=${5:-0 0.6 0.85 0.95}
work=$(mktemp -d) a="placement-$$-a" b="placement-$$-b"
pids=()
clean() {
    for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
    for pid in "${pids[@]}"; do wait "$pid" 2>/dev/null || true; done
    ip netns del "$a" 2>/dev/null || true
    ip netns del "$b" 2>/dev/null || true
    pids=()
}
trap 'clean; rm -rf "$work"' EXIT

# bytes NUMBER: two bytes, big-endian, for printf.
bytes() { printf '\\x%02x\\x%02x' $(($1 / 256)) $(($1 % 256)); }

# packet SIZE: one tagged packet.
packet() {
    printf '\x02\x00\x00\x00\x00\x02\x02\x00\x00\x00\x00\x01\x81\x00\x00\x64\x88\xb5'
    head -c $(($1 - 18)) /dev/zero
}

# fit SIZE: how many packets of this size are in one aggregate at MTU 1500; 1 if none can be joined.
fit() {
    local n=$(((1500 - 32) / (2 + $1 + $1 % 2)))
    echo $((n < 1 ? 1 : n))
}

# aggregate SIZE: an aggregate from 192.0.2.9 to 192.0.2.1.
aggregate() {
    local n udp sum i
    n=$(fit "$1")
    udp=$((8 + 4 + n * (2 + $1 + $1 % 2)))
    sum=$((0x4500 + udp + 20 + 0x4000 + 0x4011 + 0xc000 + 0x0209 + 0xc000 + 0x0201))
    sum=$((sum % 65536 + sum / 65536))
    sum=$((65535 - (sum % 65536 + sum / 65536)))
    printf '\x02\x00\x00\x00\x01\x01\x02\x00\x00\x00\x01\x09\x08\x00'
    printf "\x45\x00$(bytes $((udp + 20)))\x00\x00\x40\x00\x40\x11$(bytes $sum)\xc0\x00\x02\x09\xc0\x00\x02\x01"
    printf "\xc0\x00\xc4\x55$(bytes $udp)\x00\x00\x01\x01$(bytes "$n")"
    for ((i = 0; i < n; i++)); do
        printf "$(bytes "$1")"
        packet "$1"
        if (($1 % 2)); then printf '\x00'; fi
    done
}

# capture FILE: 32 times the frame in FILE, as pcap.
capture() {
    local size length i
    size=$(stat -c %s "$1")
    length=$(printf '\\x%02x\\x%02x\\x00\\x00' $((size % 256)) $((size / 256)))
    printf '\xd4\xc3\xb2\xa1\x02\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\x00\x00\x01\x00\x00\x00'
    for ((i = 0; i < 32; i++)); do
        printf "\x00\x00\x00\x00\x00\x00\x00\x00$length$length"
        cat "$1"
    done
}

# rules PORT: the section [aggregation]; the next hop is behind this port.
rules() {
    printf '[aggregation]\nmac = "02:00:00:00:01:01"\naddresses = ["192.0.2.1"]\n'
    printf '[[aggregation.next-hop]]\nnfi = 7\nmac = "02:00:00:00:01:02"\nip = "192.0.2.2"\nport = "%s"\n' "$1"
    printf '[[aggregation.flow]]\nsc = 100\nnfi = 7\n'
}

# port NAME AGGREGATE LINES: [port.fault], if any, has to come last.
port() { printf '[[port]]\nname = "%s"\naggregate = %s\n%s\n' "$1" "$2" "$3"; }

# run PATH SIZE PLACEMENT DROPPED: one line of JSON.
run() {
    local path=$1 size=$2 placement=$3 dropped=$4 here=false source=aggregate idle=poll log before after sent frames
    local function=(taskset -c 1 "$programs/nf-forward" --poll --queue-size 1024)
    [ "$placement" = vhost ] && here=true
    [ "$placement" = none ] && source=packet
    [ "$(fit "$size")" = 1 ] && source=packet
    local near="driver = \"pcap\"
replay = \"$work/$source-$size.pcap\"
loop = true
[port.fault]
drop = $dropped"
    ip netns add "$b"
    if [ "$path" = veth ]; then
        ip netns add "$a"
        ip link add up0 netns "$a" type veth peer name up1 netns "$b"
        ip -n "$a" link set up0 arp off up
        ip -n "$b" link set up1 arp off up
        {
            port near false "$near"
            port wan false $'driver = "af_packet"\ninterface = "up0"'
            printf '[[patch]]\nports = ["near", "wan"]\n[[worker]]\ncpu = 1\nidle = "poll"\n'
            printf '[control]\nsocket = "%s/a.ctl"\n' "$work"
        } >"$work/a.toml"
        near=$'driver = "af_packet"\ninterface = "up1"'
        idle=sleep
        function=(taskset -c 0 "$programs/nf-forward" --queue-size 1024)
    fi
    {
        port wan "$here" "$near"
        port left false "driver = \"vhost-user\"
socket = \"$work/left.sock\""
        port right false "driver = \"vhost-user\"
socket = \"$work/right.sock\""
        port out "$here" 'driver = "sink"'
        printf '[[patch]]\nports = ["wan", "left"]\n[[patch]]\nports = ["right", "out"]\n'
        printf '[[worker]]\ncpu = 0\nidle = "%s"\n[control]\nsocket = "%s/b.ctl"\n' "$idle" "$work"
        if [ "$here" = true ]; then rules out; fi
    } >"$work/b.toml"
    rules right >"$work/nf.toml"
    case $placement in
    nf) function+=(--aggregation "$work/nf.toml") ;;
    native) function+=(--aggregation "$work/nf.toml" --native) ;;
    esac
    ip netns exec "$b" "$programs/millrace" run --log warn --config "$work/b.toml" 2>>"$work/log" &
    pids+=($!)
    sleep 0.2
    "${function[@]}" "$work/left.sock" "$work/right.sock" 2>"$work/nf.log" &
    local nf=$!
    sleep 0.2
    if [ "$path" = veth ]; then
        ip netns exec "$a" "$programs/millrace" run --log warn --config "$work/a.toml" 2>>"$work/log" &
        pids+=($!)
    fi
    sleep 0.3
    before=$("$programs/millrace" ctl --socket "$work/b.ctl" --json stats)
    sleep "$seconds"
    after=$("$programs/millrace" ctl --socket "$work/b.ctl" --json stats)
    kill "$nf"
    wait "$nf" || true
    # What the function sent by `right`: packets, and the frames that they went in.
    sent=$(sed -n 's/^.*right.sock: .* received, \([0-9]*\) sent, .*$/\1/p' "$work/nf.log")
    frames=$(sed -n 's/^.* frames received, \([0-9]*\) frames sent$/\1/p' "$work/nf.log" | tail -1)
    jq -nc --arg path "$path" --argjson size "$size" --arg placement "$placement" --argjson dropped "$dropped" --argjson before "$before" \
        --argjson after "$after" --argjson sent "${sent:-1}" --argjson frames "${frames:-${sent:-1}}" '
        def tx($s): [$s.ports[] | select(.name == "out") | .queues[].tx_packets] | add;
        def lost($s): [$s.ports[].drops[]] | add // 0;
        {$path, $size, $placement, $dropped, packets_a_frame: (if $frames > 0 then $sent / $frames else 1 end),
         tx: (tx($after) - tx($before)), drops: (lost($after) - lost($before)),
         cycles: $after.workers[0].stage_cycles_per_packet}'
    clean
}

for size in $sizes; do
    for source in packet aggregate; do
        "$source" "$size" >"$work/frame"
        capture "$work/frame" >"$work/$source-$size.pcap"
    done
    for path in $paths; do
        for ((round = 0; round < rounds; round++)); do
            for placement in none vhost nf native; do
                for dropped in $loads; do
                    run "$path" "$size" "$placement" "$dropped" |
                        jq -c --argjson seconds "$seconds" '. + {mpps: (.tx * .packets_a_frame / $seconds / 1e6)}'
                done
            done
        done
    done
done
