#!/bin/bash
# Installs, uses, reloads, upgrades and purges the packages, as an operator would. The line @passed comes last.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 HOME=/root
trap 'echo "@failed at line $LINENO: $BASH_COMMAND"; sleep 2; systemctl status --no-pager --full millrace || true; journalctl --no-pager -n 40 -u millrace || true' ERR

say() { echo "@ $(cut -d. -f1 /proc/uptime) s: $*"; }
value() { systemctl show --value --property "$1" millrace; }
differs() { test "$(value "$1")" != "$2"; }
has() { test "$(value "$1")" = "$2"; }
# Waits until a command succeeds.
until_true() { for _ in $(seq 600); do if "$@" >/dev/null 2>&1; then return; fi; sleep 0.5; done; echo "never: $*"; false; }
files() { find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /tmp -o -path '/run/systemd' -o -path /run/udev -o -path /var/lib/dpkg \
    -o -path /var/log -o -path /run/log -o -path /run/dbus -o -path /var/cache -o -path /test -o -path /var/lib/systemd \) -prune -o -print; \
    find /run /etc /var/lib/systemd -name '*millrace*'; getent passwd; getent group; }

for module in /test/*.ko; do /test/busybox insmod "$module"; done
files | sort -u >/test/before

say "install"
dpkg -i /test/first.deb
test "$(systemctl is-active millrace)" = active
test "$(systemctl is-enabled millrace)" = enabled
test "$(value Type) $(value NotifyAccess)" = "notify main"
until_true has StatusText "ports: 0, workers: 1"
test "$(ps -o user= -p "$(value MainPID)")" = millrace
test "$(stat -c '%U %a' /run/millrace /run/millrace/millrace.sock | paste -sd' ')" = "millrace 755 millrace 600"
millrace ctl ports
millrace ctl confinement
millrace ctl --json confinement >/test/confinement
grep -q '"seccomp":{"active":true' /test/confinement
# Ambient capabilities that are needed only at the start are gone.
if grep -q CAP_CHOWN /test/confinement; then echo "CAP_CHOWN is left"; false; fi
grep -q 'CAP_NET_ADMIN' /test/confinement

say "two taps, an interface and a guest's socket, by a reload"
ip netns add other
ip link add nic type veth peer name far
ip link set far netns other
ip link set nic up
ip -n other address add 10.0.0.3/24 dev far
ip -n other link set far up
cat >>/etc/millrace/millrace.toml <<'END'
[[port]]
name = "left"
driver = "tap"
interface = "left"

[[port]]
name = "right"
driver = "tap"
interface = "right"

[[port]]
name = "nic"
driver = "af_xdp"
interface = "nic"

[[port]]
name = "vm1"
driver = "vhost-user"
socket = "/run/millrace/vm1.sock"
socket-mode = "0660"
record-to = "/var/lib/millrace/vm1.pcap"

[[bridge]]
name = "br0"
ports = ["left", "right", "nic", "vm1"]
END
millrace check /etc/millrace/millrace.toml
before=$(value MainPID)
systemctl reload millrace
test "$(value MainPID)" = "$before"
until_true sh -c 'systemctl show --value -p StatusText millrace | grep -q "ports: 4"'
millrace ctl ports
test -S /run/millrace/vm1.sock
test -f /var/lib/millrace/vm1.pcap

say "ping from one tap to the other, and to what is behind the interface"
ip netns add second
ip link set right netns second
ip address add 10.0.0.1/24 dev left
ip link set left up
ip -n second address add 10.0.0.2/24 dev right
ip -n second link set right up
until_true ping -c 1 -W 10 10.0.0.2
ping -c 3 -i 0.2 -W 60 10.0.0.2
until_true ping -c 1 -W 10 10.0.0.3
ping -c 3 -i 0.2 -W 60 10.0.0.3
millrace ctl stats

say "a network function answers at a guest's socket, with the package of the tools"
dpkg -i /test/tools.deb
for program in nf-forward nf-macswap nf-proxy nf-responder nf-router millrace-testbed; do "$program" --help | grep -q "^Usage: $program "; done
millrace-testbed list >/test/list
grep -q '^ *millrace  *yes ' /test/list
nf-responder --ip 10.0.0.5 /run/millrace/vm1.sock &
function=$!
until_true sh -c "ping -c 1 -W 10 10.0.0.5 || ! kill -0 $function"
ping -c 3 -i 0.2 -W 60 10.0.0.5
kill "$function"
wait "$function"

say "a reload that is refused leaves all as it is"
cp /etc/millrace/millrace.toml /test/good.toml
echo 'port = 1' >>/etc/millrace/millrace.toml
if systemctl reload millrace; then echo "it was not refused"; false; fi
test "$(systemctl is-active millrace) $(value MainPID)" = "active $before"
ping -c 1 -W 60 10.0.0.2
cp /test/good.toml /etc/millrace/millrace.toml

say "upgrade: the running switch goes on, and the changed configuration stays"
dpkg -i /test/second.deb
test "$(systemctl is-active millrace) $(value MainPID)" = "active $before"
ping -c 1 -W 60 10.0.0.2
cmp /test/good.toml /etc/millrace/millrace.toml

say "restart: a socket gets its group"
sed -i 's/^socket-mode.*/&\nsocket-group = "audio"/' /etc/millrace/millrace.toml
ip netns delete second
ip netns delete other
systemctl restart millrace
test "$(value MainPID)" != "$before"
test "$(stat -c '%U %G %a' /run/millrace/vm1.sock)" = "millrace audio 660"

say "a port of a driver of DPDK, with the package of the plugin"
dpkg -i /test/dpdk.deb
ip netns add other
ip link add device type veth peer name far
ip link set far netns other
ip link set device up
ip -n other address add 10.0.0.4/24 dev far
ip -n other link set far up
sed -i 's/"nic", "vm1"/"nic", "vm1", "device"/' /etc/millrace/millrace.toml
cat >>/etc/millrace/millrace.toml <<'END'
[dpdk]
devices = ["net_af_packet0,iface=device"]
memory = "64M"

[[port]]
name = "device"
driver = "dpdk"
device = "net_af_packet0"
END
millrace check /etc/millrace/millrace.toml
systemctl restart millrace
millrace ctl ports
ip address add 10.0.0.1/24 dev left
ip link set left up
until_true ping -c 1 -W 10 10.0.0.4
ping -c 3 -i 0.2 -W 60 10.0.0.4

say "a switch that stands still is started again"
mkdir -p /run/systemd/system/millrace.service.d
printf '[Service]\nWatchdogSec=60\nTimeoutAbortSec=1\n' >/run/systemd/system/millrace.service.d/watchdog.conf
systemctl daemon-reload
systemctl restart millrace
before=$(value MainPID)
# Each message to the watchdog has its time: it goes on for several, and the limit is long, as the machine may be busy.
for _ in 1 2 3; do
    told=$(value WatchdogTimestampMonotonic)
    until_true differs WatchdogTimestampMonotonic "$told"
done
test "$(value MainPID) $(value NRestarts)" = "$before 0"
kill -STOP "$before"
until_true sh -c 'test "$(systemctl show --value -p NRestarts millrace)" = 1 && systemctl is-active millrace'
test "$(value MainPID)" != "$before"
rm -r /run/systemd/system/millrace.service.d
systemctl daemon-reload

say "stop"
systemctl stop millrace
ip netns delete other
test "$(value Result)" = success
test ! -e /run/millrace/millrace.sock

say "remove: the configuration stays"
systemctl start millrace
dpkg -r millrace-tools millrace-dpdk millrace
test -f /etc/millrace/millrace.toml
if pgrep -x millrace; then echo "it still runs"; false; fi

say "purge: nothing is left"
dpkg -P millrace-tools millrace-dpdk millrace
files | sort -u >/test/after
diff /test/before /test/after
say "done"
echo @passed
