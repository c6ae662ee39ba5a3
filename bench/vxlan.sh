#!/usr/bin/env bash
# A virtio NIC that sends frames inside of VXLAN, the switch that takes them out, and a network function that sends them
# back: received into the function's buffers (mapped) and copied, in turn; without a tunnel too. Prints one line of JSON a
# run. Needs root for huge pages, jq, and `cargo build --release`, once more with `-p millrace-testbed`. Programs to compare
# are named by MILLRACES, as "name=path name=path".
#
# usage: bench/vxlan.sh [ROUNDS [SECONDS]] > runs.json
set -euo pipefail
cd "$(dirname "$0")/.."
testbed=${TESTBED:-$PWD/target/release/testbed}
millraces=${MILLRACES:-millrace=$PWD/target/release/millrace}
rounds=${1:-3} seconds=${2:-0.8}
work=$(mktemp -d)
pids=()
clean() {
    for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
    for pid in "${pids[@]}"; do wait "$pid" 2>/dev/null || true; done
    pids=()
    rm -f "$work"/*.sock "$work"/ctl
}
trap 'clean; rm -rf "$work"' EXIT

# run NAME PROGRAM MODE TUNNEL RING SIZE: one line of JSON.
run() {
    local name=$1 program=$2 mode=$3 tunnel=$4 ring=$5 size=$6 packed=() vxlan=() load stats
    [ "$ring" = packed ] && packed=(--packed)
    [ "$tunnel" = true ] && vxlan=(--vxlan)
    {
        printf '[[port]]\nname = "wan"\ndriver = "virtio-user"\nsocket = "%s/nic.sock"\n' "$work"
        [ "$ring" = packed ] && printf 'packed = true\n'
        if [ "$tunnel" = true ]; then
            printf '[port.vxlan]\nvni = 100\nlocal = { mac = "02:00:00:00:01:01", ip = "192.0.2.1" }\n'
            printf 'remote = { mac = "02:00:00:00:01:02", ip = "192.0.2.2" }\n'
        fi
        printf '[[port]]\nname = "fw"\ndriver = "vhost-user"\nsocket = "%s/fw.sock"\n' "$work"
        if [ "$mode" = mapped ]; then
            printf '[[mapping]]\nfrom = "wan"\nto = "fw"\nmode = "pass-through"\n'
        else
            printf '[[patch]]\nports = ["wan", "fw"]\n'
        fi
        printf '[[worker]]\ncpu = 0\nidle = "poll"\n[control]\nsocket = "%s/ctl"\n' "$work"
    } >"$work/m.toml"
    "$program" run --log warn --config "$work/m.toml" 2>>"$work/log" &
    pids+=($!)
    while [ ! -S "$work/fw.sock" ]; do sleep 0.05; done
    "$testbed" wire "$work/nic.sock" "$work/fw.sock" --cpu 1 --size "$size" --seconds "$seconds" --json \
        "${packed[@]}" "${vxlan[@]}" >"$work/load" 2>>"$work/log" &
    load=$!
    pids+=("$load")
    sleep 2
    stats=$("$program" ctl --socket "$work/ctl" --json stats)
    wait "$load"
    jq -nc --arg name "$name" --arg mode "$mode" --argjson tunnel "$tunnel" --arg ring "$ring" --argjson size "$size" \
        --argjson stats "$stats" --slurpfile load "$work/load" '
        $stats.workers[0] as $worker | $load[0] as $load |
        {$name, $mode, $tunnel, $ring, $size, mpps: $load.mpps, load_idle: $load.idle_cycles, load_cpu: $load.cpu_share,
         errors: ($load.lost + $load.corrupt + $load.late),
         cycles: ($worker.busy_cycles / $worker.packets), stages: $worker.stage_cycles_per_packet,
         mapping: ($stats.mappings[0] // null | if . then {zero_copy, in_place, copied, elsewhere} else null end),
         drops: ([$stats.ports[].drops] | add)}'
    clean
}

for ring in ${RINGS:-split packed}; do
    for size in ${SIZES:-64 512 1400}; do
        for ((round = 0; round < rounds; round++)); do
            for tunnel in ${TUNNELS:-false true}; do
                for mode in mapped copied; do
                    for millrace in $millraces; do
                        run "${millrace%%=*}" "${millrace#*=}" "$mode" "$tunnel" "$ring" "$size"
                    done
                done
            done
        done
    done
done
