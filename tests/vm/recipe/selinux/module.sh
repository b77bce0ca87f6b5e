# Compile the modules of the folder MODULES with the tree COMPILER, as OUT/*.pp, and link them with every module of Debian's
# policy, which checks the neverallow rules. A module of VIOLATIONS breaks one of those rules: it must not link.
tree=$SCRATCH/tree
cp -a "$COMPILER/tree" "$tree"
for name in dev proc; do mount --rbind "/$name" "$tree/$name"; done
compile() {
  for module in "$@"; do
    make --quiet -f /usr/share/selinux/devel/Makefile "$module.pp"
  done
}
link() { semodule --noreload --store default --install "$@"; }
in_tree() { chroot "$tree" /bin/bash -euo pipefail -c "$(declare -f compile link); cd /modules; $1" 2>&1; }

mkdir "$tree/modules"
for file in "$MODULES"/*; do cp "$file" "$tree/modules/"; done
names=$(basename -s .te "$tree"/modules/*.te)
in_tree "compile $(echo $names)"
in_tree "link /usr/share/selinux/default/*.pp.bz2 $(printf '%s.pp ' $names)"
cp "$tree"/modules/*.pp "$OUT/"

shopt -s nullglob
for file in "$VIOLATIONS"/*.te; do
  cp "$file" "$tree/modules/"
  name=$(basename -s .te "$file")
  in_tree "compile $name"
  if said=$(in_tree "link $name.pp"); then
    echo "$name links, although it breaks a neverallow rule"
    exit 1
  fi
  if ! grep -q 'neverallow check failed' <<< "$said"; then
    echo "$name is refused for another reason than a neverallow rule: $said"
    exit 1
  fi
done
