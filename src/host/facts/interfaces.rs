//! The host's own network interfaces, as far as they are a matter of this host: whether anybody answers is not.

use std::path::Path;

const INTERFACES: &str = "/sys/class/net";
/// Below an interface that is a device, and not made by software.
const DEVICE: &str = "device";
/// `IFF_UP`: somebody on this host has taken it into use.
const UP: u32 = 1;

/// Whether an interface that is a device is up.
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
    fn software_does_not_count_and_neither_does_what_is_down() {
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
