# Build a minimal Debian tree with the packages of the list PACKAGES in OUT/tree. The keyring of Debian 12 verifies
# Debian 13 as well, so both releases can run this.
mmdebstrap --quiet --mode=root --variant=minbase --format=directory \
  --aptopt='APT::Install-Recommends "false"' \
  --dpkgopt='path-exclude=/usr/share/man/*' \
  --dpkgopt='path-exclude=/usr/share/doc/*' \
  --dpkgopt='path-exclude=/usr/share/locale/*' \
  --include="$(paste -sd, "$PACKAGES")" \
  trixie "$OUT/tree" \
  'deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian trixie main'
# No device nodes: chroots in the tree get the /dev of the build machine.
rm -rf "$OUT/tree/dev"
mkdir "$OUT/tree/dev"
