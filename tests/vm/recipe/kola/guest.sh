# Give the finished tree what kola asks of a guest, besides the packages: see tests/kola/README.md.
etc=$tree/usr/etc
# kola logs in as core with the key that it has Ignition write, works with sudo, and reads the journal of its test.
mkdir -p "$etc/systemd/system/multi-user.target.wants"
ln -sf /usr/lib/systemd/system/ssh.service "$etc/systemd/system/sshd.service"
ln -sf /usr/lib/systemd/system/ssh.service "$etc/systemd/system/multi-user.target.wants/ssh.service"
printf 'AuthorizedKeysFile .ssh/authorized_keys .ssh/authorized_keys.d/ignition\nUseDNS no\n' > "$etc/ssh/sshd_config.d/10-kola.conf"
printf 'core ALL=(ALL) NOPASSWD: ALL\n' > "$etc/sudoers.d/core"
chmod 440 "$etc/sudoers.d/core"
sed -i 's/^systemd-journal:.*:$/&core/' "$etc/group"
# sudo looks up the name of the host.
echo '127.0.0.1 localhost flameholder-test' > "$etc/hosts"
# kola asks whether this is CoreOS, and which systemd it has, of RPM.
echo 'VARIANT_ID=coreos' >> "$tree/usr/lib/os-release"
version=$(sed -n '/^Package: systemd$/,/^$/s/^Version: \([0-9]*\).*/\1/p' "$DEBIAN/tree/var/lib/dpkg/status")
printf '#!/bin/sh\necho %s\n' "$version" > "$tree/usr/bin/rpm"
chmod 755 "$tree/usr/bin/rpm"
# Ignition enables units by presets, which systemd applies to a machine ID that was never set.
echo uninitialized > "$etc/machine-id"
echo 'disable *' > "$tree/usr/lib/systemd/system-preset/99-default-disable.preset"
# kola's machine has no port for the guest agent, and the boot would wait for it. Where there is one, udev starts the agent.
find "$etc/systemd/system" -name qemu-guest-agent.service -delete
