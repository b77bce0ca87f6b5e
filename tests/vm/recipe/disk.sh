# Build the disk OUT/disk.qcow2: a bootloader, a file system for /boot, one for the rest, and the image LAYOUT deployed
# with the kernel arguments ARGUMENTS. The origin names the image as REFERENCE, from which a host pulls it.
disk=$SCRATCH/disk.raw
builder=$BUILDER
boot_start=$((1024 * 1024)) boot_size=$((300 * 1024 * 1024))
root_start=$((boot_start + boot_size)) size=$((6 * 1024 * 1024 * 1024))
truncate --size=$size "$disk"
echo 'label: dos
start=1MiB, size=300MiB, type=83, bootable
start=301MiB, type=83' | of_builder usr/sbin/sfdisk --quiet "$disk"
dd if="$builder/usr/lib/syslinux/mbr/mbr.bin" of="$disk" bs=440 count=1 conv=notrunc status=none
# extlinux reads neither 64-bit block numbers nor checksummed metadata.
mkfs.ext4 -q -F -L boot -O '^64bit,^metadata_csum' -E "offset=$boot_start" "$disk" $((boot_size / 1024))k
mkfs.ext4 -q -F -L root -E "offset=$root_start" "$disk" $(((size - root_start) / 1024))k

root=$builder/mnt
mount -o "loop,offset=$root_start,sizelimit=$((size - root_start))" "$disk" "$root"
mkdir "$root/boot"
mount -o "loop,offset=$boot_start,sizelimit=$boot_size" "$disk" "$root/boot"
for name in dev proc; do mount --rbind "/$name" "$builder/$name"; done

mkdir -p "$root/boot/syslinux" "$root/boot/loader.0"
chroot "$builder" extlinux --install /mnt/boot/syslinux > /dev/null 2>&1
cp "$builder"/usr/lib/syslinux/modules/bios/{menu,libutil,libcom32}.c32 "$root/boot/syslinux/"
ln -s loader.0 "$root/boot/loader"
# libostree writes its own syslinux.cfg. It drops a DEFAULT line that names none of its labels; the menu needs none and
# starts the first label.
printf 'SERIAL 0 115200\nUI menu.c32\nPROMPT 0\nTIMEOUT 1\n' > "$root/boot/loader.0/syslinux.cfg"
ln -s ../loader/syslinux.cfg "$root/boot/syslinux/syslinux.cfg"

"$OSIMAGE" sysroot "$root" --version 1 --stateroot os --bootloader syslinux \
  --image "ostree-unverified-image:oci:$LAYOUT" --origin "ostree-unverified-registry:$REFERENCE" \
  --karg quiet --karg systemd.show_status=1 $(for argument in $ARGUMENTS; do echo "--karg $argument"; done)
deployment=$(echo "$root"/ostree/deploy/os/deploy/*.0)
if [ -e "$deployment/etc/selinux/config" ]; then
  # libostree labels files on any machine, but directories only where SELinux runs. What it creates in the guest is labelled.
  label() { chcon --no-dereference "system_u:object_r:$1:s0" "${@:2}"; }
  of_deployment() {
    "$deployment/usr/lib64/ld-linux-x86-64.so.2" --library-path "$deployment/usr/lib/x86_64-linux-gnu" "$deployment/usr/$1" "${@:2}"
  }
  contexts=$deployment/etc/selinux/default/contexts/files/file_contexts
  of_deployment sbin/setfiles -F -r "$deployment" "$contexts" "$deployment/etc"
  chattr -i "$root/boot/syslinux/ldlinux.sys"
  of_deployment sbin/setfiles -F -r "$root" "$contexts" "$root/boot"
  chattr +i "$root/boot/syslinux/ldlinux.sys"
  label root_t "$root"
  label usr_t "$root/ostree" "$root"/ostree/boot.* "$root/ostree/deploy" "$root"/ostree/deploy/{os,os/deploy}
  find "$root/ostree/repo" \( -type d -o -type f -not -name '*.file' \) -print0 | xargs -0 chcon --no-dereference system_u:object_r:usr_t:s0
fi
umount "$root/boot" "$root"
of_builder usr/bin/qemu-img convert -O qcow2 "$disk" "$OUT/disk.qcow2"
