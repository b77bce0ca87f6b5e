# Build five versions of the OS as container images, in the OCI layout OUT/layout, and their digests.
# Each is the tree TREE with the files OVERLAY. Versions 2 and 3 differ from 1 as real updates do: in files that a host
# has changed, and in added and removed files. 2 also has another initramfs, so that /boot changes. 3 has the fault that
# /var/fault names. 4 is the version that machines are installed with: its initramfs has Ignition. 5 is like 4, without
# Flameholder. With a folder POLICY, they have the SELinux policy in it, 2 one of its own.
for version in 1 2 3 4 5; do
  tree=$SCRATCH/tree
  rm -rf "$tree"
  # Hard links: files that differ are replaced below and never written in place.
  cp -al "$TREE/tree" "$tree"
  cp -a --remove-destination "$OVERLAY/tree/." "$tree/"
  if [ -n "$POLICY" ]; then
    policy=$POLICY/tree
    if [ "$version" = 2 ]; then
      policy=$POLICY/tree-2
      # It has a type that the policy of the other versions lacks.
      mkdir "$tree/usr/lib/next-os"
      echo 'in a type of its own' > "$tree/usr/lib/next-os/file"
    fi
    rm -rf "$tree/usr/etc/selinux"
    cp -a "$policy/." "$tree/"
  fi
  etc=$tree/usr/etc/os
  mkdir -p "$etc"
  echo "$version" > "$tree/usr/lib/os-version"
  echo 'the same in all versions' > "$etc/unchanged"
  echo "version $version" > "$etc/changed"
  echo "version $version" > "$etc/changed-in-both"
  echo "only in $version" > "$etc/only-in-$version"
  if [ "$version" = 2 ]; then
    # The kernel unpacks concatenated archives; the first may be uncompressed.
    initramfs=$(echo "$tree"/usr/lib/modules/*/initramfs.img)
    touch --date=@0 "$SCRATCH/version-2"
    (cd "$SCRATCH" && echo version-2 | of_builder usr/bin/cpio --quiet --create --format=newc --reproducible) > "$SCRATCH/initramfs"
    cat "$initramfs" >> "$SCRATCH/initramfs"
    cp --remove-destination "$SCRATCH/initramfs" "$initramfs"
  fi
  if [ "$version" = 3 ]; then touch --date=@0 "$tree/usr/lib/faulty-os"; fi
  if [ "$version" = 5 ]; then
    find "$tree/usr" -depth -name 'flameholder*' -not -path '*/flameholder-test*' -exec rm -rf {} +
    find "$tree/usr" -depth -name '*-flameholder.*' -delete
  fi
  if [ "$version" -ge 4 ]; then
    cp --remove-destination "$TREE/initramfs-with-ignition.img" "$(echo "$tree"/usr/lib/modules/*/initramfs.img)"
  fi
  "$OSIMAGE" encapsulate "$tree" --version "$version" --output "oci:$OUT/layout:$version" > "$OUT/digest-$version"
done
