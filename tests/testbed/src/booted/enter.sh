#!/bin/sh
# Set up the mounts of a generated OSTree host and run a program on it. The script must be started in new
# mount and process ID namespaces, so that its mounts are invisible outside and its processes end with it.
#
# The mounts are those of ostree-prepare-root and systemd on such a host: the deployment is the root and
# read-only, /etc is that of the deployment and /var that of the stateroot. /sysroot and /boot are writable
# from the beginning: libostree would make them so by remounting the whole file system, which here is that of
# the machine that runs the tests. Programs and libraries are those of that machine.
set -eu
host=$1 deployment=$2 stateroot=$3
shift 3
root=$host/root
mount --bind "$host/sysroot/$deployment" "$root"
mount --bind "$root/etc" "$root/etc"
mount --bind "$host/sysroot" "$root/sysroot"
mount --bind "$host/sysroot/ostree/deploy/$stateroot/var" "$root/var"
mount --bind "$host/sysroot/boot" "$root/boot"
mount --bind "$host/run" "$root/run"
mount --bind "$host/programs" "$root/run/programs"
mount --bind "$host/media" "$root/run/media"
for original in "$host"/programs/*.at; do
    mount --bind "$(cat "$original")" "$root/run/programs/$(basename "$original" .at)"
done
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/tmp"
mount --bind "$host/kernel/cmdline" "$root/proc/cmdline"
mount --bind "$host/kernel/boot_id" "$root/proc/sys/kernel/random/boot_id"
for directory in usr/bin usr/sbin usr/lib64 usr/lib/x86_64-linux-gnu; do
    mount --bind "/$directory" "$root/$directory"
done
mount -o remount,bind,ro "$root"
# No exec: the first process of a PID namespace only gets signals for which it has a handler.
PATH=/run/programs:/usr/sbin:/usr/bin chroot "$root" "$@"
