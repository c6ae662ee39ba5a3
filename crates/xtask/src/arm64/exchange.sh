#!/usr/bin/busybox sh
# Two dpdk-testpmd on the two ports of a patch: one sends frames of many flows, and the other sends them back, until each port of the
# switch has received and sent thousands.
cd /tmp || exit 1
for port in a b; do
    printf '[[port]]\nname = "%s"\ndriver = "vhost-user"\nsocket = "%s.sock"\n' "$port" "$port"
done >pair.toml
printf '[[patch]]\nports = ["a", "b"]\n' >>pair.toml
/programs/millrace run --config pair.toml &
switch=$!
until [ -S a.sock ] && [ -S b.sock ]; do
    kill -0 "$switch" || exit 1
    sleep 1
done

# testpmd ends at the end of its input.
testpmd() {
    (until [ -e done ]; do sleep 1; done) | dpdk-testpmd --lcores 0,1 --no-pci --no-telemetry --no-huge -m 128 --file-prefix "$1" \
        --vdev "net_virtio_user0,path=/tmp/$1.sock" -- --total-num-mbufs 2048 --forward-mode "$2" >"$1.log" 2>&1
}
testpmd a flowgen &
a=$!
testpmd b io &
b=$!
seconds=0
until [ "$(/programs/millrace ctl stats --json | grep -oE '"[rt]x_packets": *[0-9]{4,}' | wc -l)" = 4 ]; do
    seconds=$((seconds + 1))
    [ "$seconds" -lt 600 ] || { cat a.log b.log; exit 1; }
    sleep 1
done
/programs/millrace ctl ports
touch done
for one in "$a" "$b"; do
    wait "$one" || { cat a.log b.log; exit 1; }
done
kill "$switch"
wait "$switch" || exit 1
grep -h -E 'EAL: RTE Version|RX-packets: [1-9]' a.log b.log
