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
if [ -e "$host/kernel/composefs" ]; then
    # Like composefs: the root is another file system, which shows the files of the deployment.
    mount -t overlay -o "ro,lowerdir=$host/sysroot/$deployment:$host/kernel/composefs" overlay "$root"
    mount --bind "$host/sysroot/$deployment/etc" "$root/etc"
else
    mount --bind "$host/sysroot/$deployment" "$root"
fi
agent=
if [ -e "$root/usr/bin/flameholder" ]; then agent=yes; fi
mount --bind "$root/etc" "$root/etc"
mount --bind "$host/sysroot" "$root/sysroot"
mount --bind "$host/sysroot/ostree/deploy/$stateroot/var" "$root/var"
mount --bind "$host/sysroot/boot" "$root/boot"
mount --bind "$host/run" "$root/run"
mount --bind "$host/programs" "$root/run/programs"
mount --bind "$host/media" "$root/run/media"
for original in "$host"/programs/*.at; do
    [ -e "$original" ] || continue
    mount --bind "$(cat "$original")" "$root/run/programs/$(basename "$original" .at)"
done
# A disk for container images, of this size in bytes, of which nothing is in use.
if [ -e "$host/kernel/image-disk" ]; then
    mount -t tmpfs -o "size=$(cat "$host/kernel/image-disk")" tmpfs "$root/var/lib/containers"
fi
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/tmp"
mount --bind "$host/kernel/cmdline" "$root/proc/cmdline"
# A kernel with FIPS mode: its file with the mode, and of all others the boot ID.
if [ -e "$host/kernel/fips_enabled" ]; then
    mount -t tmpfs tmpfs "$root/proc/sys"
    mkdir -p "$root/proc/sys/crypto" "$root/proc/sys/kernel/random"
    cp "$host/kernel/fips_enabled" "$root/proc/sys/crypto/fips_enabled"
    touch "$root/proc/sys/kernel/random/boot_id"
fi
mount --bind "$host/kernel/boot_id" "$root/proc/sys/kernel/random/boot_id"
for directory in usr/bin usr/sbin usr/lib64 usr/lib/x86_64-linux-gnu; do
    mount --bind "/$directory" "$root/$directory"
done
# An image that ships the agent has empty files in place of the executables. The one in /usr/bin stands beside
# links to the machine's programs.
if [ -n "$agent" ]; then
    mkdir "$root/tmp/bin"
    mount --bind /usr/bin "$root/tmp/bin"
    mount -t tmpfs tmpfs "$root/usr/bin"
    find /usr/bin -mindepth 1 -maxdepth 1 -printf '/tmp/bin/%f\0' | xargs -0 ln -s -t "$root/usr/bin"
    install -m 755 /dev/null "$root/usr/bin/flameholder"
    mount --bind "$(cat "$host/shipped/flameholder")" "$root/usr/bin/flameholder"
    mount --bind "$(cat "$host/shipped/flameholder-ostree")" "$root/usr/libexec/flameholder/flameholder-ostree"
fi
mount -o remount,bind,ro "$root"
# No exec: the first process of a PID namespace only gets signals for which it has a handler.
PATH=/run/programs:/usr/local/bin:/usr/sbin:/usr/bin chroot "$root" "$@"
