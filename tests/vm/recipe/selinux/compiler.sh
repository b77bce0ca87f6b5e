# Unpack the policy of the Debian release SUITE, and what compiles and links modules of it, in OUT/tree. No script of a
# package runs. The keyring of Debian 12 verifies Debian 13 as well, so both releases can run this.
mmdebstrap --quiet --mode=root --variant=extract --format=directory \
  --aptopt='APT::Install-Recommends "false"' \
  --dpkgopt='path-exclude=/usr/share/man/*' \
  --dpkgopt='path-exclude=/usr/share/doc/*' \
  --dpkgopt='path-exclude=/usr/share/locale/*' \
  --include="$(paste -sd, "$PACKAGES")" \
  "$SUITE" "$OUT/tree" \
  "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian $SUITE main"
tree=$OUT/tree
# Links that the packages' scripts would make.
ln -s bash "$tree/bin/sh"
ln -s gawk "$tree/usr/bin/awk"
rm -rf "$tree/dev"
mkdir -p "$tree/dev" "$tree/proc" "$tree"/etc/selinux/default/{contexts/files,policy} "$tree/var/lib/selinux/default"
printf 'SELINUX=permissive\nSELINUXTYPE=default\n' > "$tree/etc/selinux/config"
# neverallow rules are checked only if this file says so.
printf 'module-store = direct\nexpand-check = 1\nignore-module-cache = false\n' > "$tree/etc/selinux/semanage.conf"
