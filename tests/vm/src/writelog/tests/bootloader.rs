//! Boot entries as libostree writes them.

use crate::writelog::Choice;

const SYSLINUX: &str = "SERIAL 0 115200\nUI menu.c32\nPROMPT 0\nTIMEOUT 1\nLABEL Debian 2\n\tKERNEL /boot/ostree/os-1/vmlinuz\n\
    \tINITRD /boot/ostree/os-1/initramfs.img\n\tAPPEND root=LABEL=root rw ostree=/ostree/boot.1/os/b/0 gen=2\n\
    LABEL Debian 1\n\tKERNEL /boot/ostree/os-0/vmlinuz\n\tAPPEND ostree=/ostree/boot.1/os/a/0\n";

#[test]
fn the_first_label_counts() {
    let choice = Choice::of_syslinux(SYSLINUX).unwrap();
    assert_eq!(choice.kernel, "/boot/ostree/os-1/vmlinuz");
    assert_eq!(choice.initrds, ["/boot/ostree/os-1/initramfs.img"]);
    assert_eq!(choice.arguments, ["root=LABEL=root", "rw", "ostree=/ostree/boot.1/os/b/0", "gen=2"]);
    assert_eq!(choice.argument("root"), Some("LABEL=root"));
    assert_eq!(choice.argument("rw"), None);
    let (header, _) = SYSLINUX.split_once("LABEL").unwrap();
    assert_eq!(Choice::of_syslinux(header), None);
}

#[test]
fn an_entry_has_a_version() {
    let text = "title Debian\nversion 12\noptions root=LABEL=root ostree=/ostree/boot.0/os/b/0\n\
                linux /ostree/os-1/vmlinuz\ninitrd /ostree/os-1/initramfs.img\n";
    let (version, choice) = Choice::of_entry(text).unwrap();
    assert_eq!(version, 12);
    assert_eq!(choice.kernel, "/ostree/os-1/vmlinuz");
    assert_eq!(choice.argument("ostree"), Some("/ostree/boot.0/os/b/0"));
    assert_eq!(Choice::of_entry("title Debian\n"), None);
}
