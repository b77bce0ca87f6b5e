# Convert the Debian tree DEBIAN into one that OSTree can commit, in OUT/tree: a kernel and its initramfs in
# /usr/lib/modules, /usr/etc instead of /etc, an empty /var, and top-level links to the directories of /var.
cp -a "$DEBIAN/tree" "$OUT/tree"
tree=$OUT/tree
release=$(ls "$tree/usr/lib/modules")
modules=$tree/usr/lib/modules/$release

mkdir -p "$tree/usr/lib/ostree"
printf '[sysroot]\nreadonly = true\n' > "$tree/usr/lib/ostree/prepare-root.conf"

# Files that these hosts do not use: an emulated boot would spend a third of its time on them, and an update, which
# links each file of the OS, would take longer.
rm -rf "$tree"/usr/lib/udev/hwdb* "$tree"/var/lib/dpkg "$tree"/usr/share/{bash-completion,bug,info,lintian,zoneinfo,zsh}
(cd "$tree/usr/lib/systemd/system-generators" && rm systemd-{debug,gpt-auto,hibernate-resume,rc-local,run,ssh}-generator \
  systemd-{system-update,sysv,tpm2}-generator)
# Trigger only the devices that a unit waits for or that need a driver.
coldplug=usr/lib/systemd/system/systemd-udev-trigger.service.d/few-devices.conf
mkdir -p "$tree/${coldplug%/*}"
printf '[Service]\nExecStart=\n%s\n%s\n' > "$tree/$coldplug" \
  "ExecStart=-udevadm trigger --action=add --subsystem-match=pci --subsystem-match=virtio --subsystem-match=virtio-ports \
--subsystem-match=block --subsystem-match=net" \
  "ExecStart=-udevadm trigger --action=add --subsystem-match=tty --sysname-match=ttyS0"

# Mounts are made in this script's own mount namespace and end with it.
for name in proc sys dev; do mount --rbind "/$name" "$tree/$name"; done
chroot "$tree" dracut --quiet --force --no-hostonly --no-hostonly-cmdline --reproducible --zstd --kver "$release" \
  --modules 'systemd systemd-initrd dracut-systemd base kernel-modules rootfs-block udev-rules usrmount fs-lib shutdown ostree' \
  --drivers 'virtio_blk virtio_net virtio_rng ext4 overlay loop' --include "/$coldplug" "/$coldplug" \
  "/usr/lib/modules/$release/initramfs.img"
# A second initramfs, whose Ignition provisions the machine. It reads the Ignition config from QEMU, without a network.
modules35=$tree/usr/lib/dracut/modules.d/35flameholder-test
mkdir "$modules35"
cat > "$modules35/module-setup.sh" << 'END'
check() { return 0; }
depends() { echo ignition ostree; }
installkernel() { instmods qemu_fw_cfg; }
install() {
  inst_multiple chown grep mkdir modprobe mount mountpoint rm sed umount
  for stage in mount files; do
    inst_simple "$moddir/$stage.conf" "/etc/systemd/system/ignition-$stage.service.d/flameholder-test.conf"
  done
  inst_script "$moddir/policy" /usr/sbin/flameholder-test-policy
  inst_script "$moddir/var" /usr/sbin/flameholder-test-var
  # Ignition runs setfiles on its files even without an SELinux policy.
  if [ -x /usr/sbin/setfiles ]; then inst_multiple setfiles; else inst_script "$moddir/setfiles" /usr/sbin/setfiles; fi
}
END
# Both stages run once per machine, in the deployment's root.
for stage in mount files; do
  cat > "$modules35/$stage.conf" << 'END'
[Unit]
ConditionPathExists=!/sysroot/etc/.ignition-result.json
After=ostree-prepare-root.service
[Service]
END
done
# The first stage that labels files is the first that reads which policy the OS has.
echo 'ExecStartPre=/usr/sbin/flameholder-test-policy' >> "$modules35/mount.conf"
cat >> "$modules35/files.conf" << 'END'
# The /var of the deployment, which ostree-system-generator mounts only later.
ExecStartPre=/usr/sbin/flameholder-test-var mount
ExecStartPost=/usr/sbin/flameholder-test-var umount
ExecStartPost=/usr/sbin/flameholder-test-policy remove
END
cat > "$modules35/policy" << 'END'
#!/bin/sh
set -e
if [ "$1" = remove ]; then
  if grep -q SELINUX=disabled /sysroot/etc/selinux/config; then rm /sysroot/etc/selinux/config; fi
elif [ ! -e /sysroot/etc/selinux/config ]; then
  mkdir -p /sysroot/etc/selinux
  printf 'SELINUX=disabled\nSELINUXTYPE=none\n' > /sysroot/etc/selinux/config
fi
END
cat > "$modules35/var" << 'END'
#!/bin/sh
set -e
stamp=/run/flameholder-test-var
if [ "$1" = umount ]; then
  if [ -e "$stamp" ]; then umount /sysroot/var; fi
  exit 0
fi
# A config may have its own file system there, which Ignition has mounted.
if ! mountpoint -q /sysroot/var; then
  stateroot=$(sed 's,.*ostree=/ostree/boot\.[01]/\([^/]*\)/.*,\1,' /proc/cmdline)
  mount --bind "/sysroot/sysroot/ostree/deploy/$stateroot/var" /sysroot/var
  : > "$stamp"
fi
for directory in home lib opt srv usrlocal; do mkdir -p "/sysroot/var/$directory"; done
mkdir -p -m 0700 /sysroot/var/roothome /sysroot/var/home/core
chown 1000:1000 /sysroot/var/home/core
END
printf '#!/bin/sh\nexit 0\n' > "$modules35/setfiles"
chmod 755 "$modules35"/{module-setup.sh,policy,setfiles,var}
chroot "$tree" dracut --quiet --force --no-hostonly --no-hostonly-cmdline --reproducible --zstd --kver "$release" \
  --modules 'systemd systemd-initrd dracut-systemd base kernel-modules rootfs-block udev-rules usrmount fs-lib shutdown ostree systemd-networkd network url-lib ignition flameholder-test' \
  --drivers 'virtio_blk virtio_net virtio_rng qemu_fw_cfg ext4 overlay loop' --include "/$coldplug" "/$coldplug" \
  /initramfs-with-ignition.img
mv "$tree/initramfs-with-ignition.img" "$OUT/"
chmod 644 "$OUT/initramfs-with-ignition.img"
rm -rf "$modules35" "$tree"/usr/lib/dracut/modules.d/*ignition* "$tree"/usr/{bin,sbin,libexec}/*ignition*
chroot "$tree" useradd --uid 1000 --user-group --home-dir /var/home/core --no-create-home --shell /bin/bash core
# The serial console of `vm run` has a root login without a password.
chroot "$tree" passwd --quiet --delete root
chroot "$tree" systemctl --quiet enable systemd-networkd.service qemu-guest-agent.service serial-getty@ttyS0.service
# After a restart of user space alone, udev does not apply its rule that starts the agent.
chroot "$tree" systemctl --quiet add-wants multi-user.target qemu-guest-agent.service
chroot "$tree" systemctl --quiet mask apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer \
  e2scrub_all.timer e2scrub_reap.service fstrim.timer systemd-networkd-wait-online.service getty@tty1.service \
  dracut-shutdown.service ldconfig.service modprobe@.service systemd-hwdb-update.service systemd-journal-catalog-update.service \
  systemd-tmpfiles-clean.timer systemd-update-done.service {dev-hugepages,dev-mqueue,run-lock}.mount \
  sys-{fs-fuse-connections,kernel-config,kernel-debug,kernel-tracing}.mount proc-sys-fs-binfmt_misc.automount
for name in dev sys proc; do umount --recursive --lazy "$tree/$name"; done

chmod 644 "$modules/initramfs.img"
mv "$tree/boot/vmlinuz-$release" "$modules/vmlinuz"
rm -rf "$tree"/boot/* "$tree"/vmlinuz* "$tree"/initrd.img*

rm -rf "$tree"/{dev,home,root,srv,opt,mnt,media,tmp,run}
mkdir "$tree"/{dev,run,sysroot}
# A directory, not a link: a tmpfs is mounted on it.
mkdir -m 1777 "$tree/tmp"
for link in home:var/home root:var/roothome srv:var/srv opt:var/opt mnt:var/mnt media:run/media ostree:sysroot/ostree; do
  ln -s "${link#*:}" "$tree/${link%%:*}"
done
rm -rf "$tree/usr/local"
ln -s ../var/usrlocal "$tree/usr/local"

# systemd-tmpfiles creates the content of /var at boot: usr/lib/tmpfiles.d in the guest's files.
rm -rf "$tree/var" "$tree/usr/lib/cni"
mkdir -m 755 "$tree/var"

: > "$tree/etc/machine-id"
rm -f "$tree"/etc/{resolv.conf,hostname,passwd-,group-,shadow-,gshadow-} "$tree/etc/systemd/system/default.target"
ln -s /run/systemd/resolve/resolv.conf "$tree/etc/resolv.conf"
mv "$tree/etc" "$tree/usr/etc"
