//! Boot entries as libostree writes them.

use crate::writelog::BootEntry;

const SYSLINUX: &str = "SERIAL 0 115200\nUI menu.c32\nPROMPT 0\nTIMEOUT 1\nLABEL Debian 2\n\tKERNEL /boot/ostree/os-1/vmlinuz\n\
    \tINITRD /boot/ostree/os-1/initramfs.img\n\tAPPEND root=LABEL=root rw ostree=/ostree/boot.1/os/b/0 gen=2\n\
    LABEL Debian 1\n\tKERNEL /boot/ostree/os-0/vmlinuz\n\tAPPEND ostree=/ostree/boot.1/os/a/0\n";

#[test]
fn first_syslinux_label_is_the_default_entry() {
    let entry = BootEntry::of_syslinux(SYSLINUX).unwrap();
    assert_eq!(entry.kernel, "/boot/ostree/os-1/vmlinuz");
    assert_eq!(entry.initrds, ["/boot/ostree/os-1/initramfs.img"]);
    assert_eq!(entry.arguments, ["root=LABEL=root", "rw", "ostree=/ostree/boot.1/os/b/0", "gen=2"]);
    assert_eq!(entry.argument("root"), Some("LABEL=root"));
    assert_eq!(entry.argument("rw"), None);
    let (header, _) = SYSLINUX.split_once("LABEL").unwrap();
    assert_eq!(BootEntry::of_syslinux(header), None);
}

#[test]
fn loader_entry_is_read_with_its_version() {
    let text = "title Debian\nversion 12\noptions root=LABEL=root ostree=/ostree/boot.0/os/b/0\n\
                linux /ostree/os-1/vmlinuz\ninitrd /ostree/os-1/initramfs.img\n";
    let (version, entry) = BootEntry::of_bls(text).unwrap();
    assert_eq!(version, 12);
    assert_eq!(entry.kernel, "/ostree/os-1/vmlinuz");
    assert_eq!(entry.argument("ostree"), Some("/ostree/boot.0/os/b/0"));
    assert_eq!(BootEntry::of_bls("title Debian\n"), None);
}
