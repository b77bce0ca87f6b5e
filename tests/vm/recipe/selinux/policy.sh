# Build the policy of the guest's OS from the tree DEBIAN: in OUT/tree for all versions, in OUT/tree-2 for version 2, which
# has one type more. The compiled modules are those of the folder MODULE.
tree=$SCRATCH/tree
cp -a "$DEBIAN/tree" "$tree"
for name in dev proc; do mount --rbind "/$name" "$tree/$name"; done
# The store belongs to the OS, as in Fedora: libostree's finalization rebuilds the policy from it.
store=$tree/etc/selinux/default/active
rm -rf "$store" "$tree/var/lib/selinux/default"/*
mkdir -p "$store"
printf 'store-root = /etc/selinux\nmodule-store = direct\nexpand-check = 1\n' > "$tree/etc/selinux/semanage.conf"
printf 'SELINUX=enforcing\nSELINUXTYPE=default\n' > "$tree/etc/selinux/config"
mkdir "$tree/modules"
cp "$MODULE"/*.pp "$PERMISSIVE" "$tree/modules/"
install_modules() { chroot "$tree" /bin/bash -c "cd /modules && semodule --noreload --store default --install $1"; }
keep() {
  mkdir -p "$1/usr/etc"
  cp -a "$tree/etc/selinux" "$1/usr/etc/selinux"
  # The journal has every audit record; the kernel's log drops some.
  for wants in sockets.target.wants systemd-journald.service.wants; do
    mkdir -p "$1/usr/lib/systemd/system/$wants"
    ln -s ../systemd-journald-audit.socket "$1/usr/lib/systemd/system/$wants/"
  done
  mkdir -p "$1/usr/lib/systemd/journald.conf.d"
  printf '[Journal]\nAudit=yes\n' > "$1/usr/lib/systemd/journald.conf.d/20-audit.conf"
}
install_modules '/usr/share/selinux/default/*.pp.bz2 flameholder.pp flameholder_test.pp permissive.cil'
keep "$OUT/tree"
install_modules next_os.pp
keep "$OUT/tree-2"
