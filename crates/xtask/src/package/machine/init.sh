#!/busybox sh
# The machine's first process: unpacks its files into memory, and starts its systemd.
/busybox mkdir /system
/busybox mount -t tmpfs -o size=100% system /system
/busybox tar -xf /root.tar -C /system
/busybox mv /test /system/test
/busybox cp /busybox /system/test/
/busybox cp /system/test/check.service /system/etc/systemd/system/
/busybox mkdir -p /system/etc/systemd/system/multi-user.target.wants
/busybox ln -s ../check.service /system/etc/systemd/system/multi-user.target.wants/
/busybox rm /root.tar
exec /busybox switch_root /system /sbin/init
