#!/bin/sh
# Becomes a generated OSTree host, and runs a program there. It is started in mount and process ID namespaces of
# its own, so nothing that it mounts is seen by others, and nothing that it starts outlives it.
#
# What is mounted where is what ostree-prepare-root and systemd do on such a host: the deployment is the root and
# read-only, /etc is the deployment's own and /var the stateroot's. Only /sysroot and /boot are not read-only:
# libostree would make them writable by remounting the whole file system, which here is that of the machine that runs
# the tests. Programs and libraries are that machine's.
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
# Not replaced by it: the first process of a namespace gets no signals that it does not ask for.
PATH=/run/programs:/usr/sbin:/usr/bin chroot "$root" "$@"
