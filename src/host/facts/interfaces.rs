//! State of this host's network interfaces. Reachability of other hosts is out of scope: it says nothing
//! about this host.

use std::path::Path;

const INTERFACES: &str = "/sys/class/net";
/// Exists below a hardware interface, not below a virtual one.
const DEVICE: &str = "device";
/// `IFF_UP`: the interface is administratively up.
const UP: u32 = 1;

/// Return true if a hardware interface is up.
#[must_use]
pub fn any_up() -> bool {
    any_up_in(Path::new(INTERFACES))
}

fn any_up_in(directory: &Path) -> bool {
    let Ok(interfaces) = directory.read_dir() else { return false };
    interfaces.flatten().any(|interface| {
        let flags = std::fs::read_to_string(interface.path().join("flags")).unwrap_or_default();
        let flags = u32::from_str_radix(flags.trim().trim_start_matches("0x"), 16).unwrap_or(0);
        flags & UP != 0 && interface.path().join(DEVICE).exists()
    })
}

#[cfg(test)]
mod tests {
    use super::any_up_in;

    #[test]
    fn only_hardware_interfaces_that_are_up_count() {
        for (flags, has_device, expected) in [
            ("0x1003\n", true, true),
            ("0x1002\n", true, false),
            ("0x1003\n", false, false),
            ("", true, false),
        ] {
            let directory = tempfile::tempdir().unwrap();
            let interface = directory.path().join("eth0");
            std::fs::create_dir_all(interface.join(if has_device { "device" } else { "queues" })).unwrap();
            std::fs::write(interface.join("flags"), flags).unwrap();
            assert_eq!(any_up_in(directory.path()), expected, "{flags:?} {has_device}");
        }
        assert!(!any_up_in(std::path::Path::new("/nowhere")));
    }
}
