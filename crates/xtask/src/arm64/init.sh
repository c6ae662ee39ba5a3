#!/usr/bin/busybox sh
# The machine's first process: mounts what programs need, loads the modules, runs the jobs one after the other and says how each ended.
/usr/bin/busybox mkdir -p /bin
/usr/bin/busybox --install -s /bin
export PATH=/usr/bin:/usr/sbin:/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mount -t tmpfs tmp /tmp
mount -t tmpfs run /run
mkdir -p /dev/net /dev/shm /var
ln -s /run /var/run
mount -t tmpfs shm /dev/shm
for module in /modules/*.ko; do
    insmod "$module"
done
ip link set lo up
echo "$pages_kib KiB are asked for, and the kernel has: $(grep -m 1 KernelPageSize /proc/self/smaps)"
grep -q "^KernelPageSize: *$pages_kib kB" /proc/self/smaps || poweroff -f
while read -r name command; do
    echo "@begin $name: $command"
    sh -c "$command" </dev/null 2>&1
    echo "@end $name $?"
done </jobs
poweroff -f
