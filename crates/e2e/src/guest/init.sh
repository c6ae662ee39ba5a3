#!/bin/sh
# The guest's first process: mounts what busybox needs, loads the modules and runs the agent.
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
exec </dev/console >/dev/console 2>&1
while read -r module; do
    insmod "/modules/$module.ko" || echo "init: module $module was not loaded"
done </modules/order
ip link set lo up
sh /agent
echo "init: the agent ended"
poweroff -f
