//! Programs of a few instructions, that need no library of the OS.

/// Address at which the program is loaded.
const BASE: u64 = 0x40_0000;
/// Sizes of the headers of the file and of its only segment.
const HEADERS: usize = 64 + 56;

/// Return a static ELF executable that exits with this code.
pub(crate) fn exiting_with(code: u8) -> Vec<u8> {
    let instructions = exit(code);
    let size = u64::try_from(HEADERS + instructions.len()).unwrap_or(u64::MAX);
    let machine: u16 = if cfg!(target_arch = "aarch64") { 183 } else { 62 };
    let mut file = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    for half in [2, machine] {
        file.extend(half.to_le_bytes());
    }
    file.extend(1u32.to_le_bytes());
    for word in [BASE + HEADERS as u64, 64, 0] {
        file.extend(word.to_le_bytes());
    }
    file.extend(0u32.to_le_bytes());
    for half in [64u16, 56, 1, 64, 0, 0] {
        file.extend(half.to_le_bytes());
    }
    // A loadable segment, readable and executable.
    for half in [1u32, 5] {
        file.extend(half.to_le_bytes());
    }
    for word in [0, BASE, BASE, size, size, 0x1000] {
        file.extend(word.to_le_bytes());
    }
    file.extend(instructions);
    file
}

/// Instructions of the system call `exit`.
fn exit(code: u8) -> Vec<u8> {
    if cfg!(target_arch = "aarch64") {
        // mov x0, #code; mov x8, #93; svc #0
        let words = [0xd280_0000 | u32::from(code) << 5, 0xd280_0ba8, 0xd400_0001];
        return words.into_iter().flat_map(u32::to_le_bytes).collect();
    }
    // mov edi, code; mov eax, 60; syscall
    vec![0xbf, code, 0, 0, 0, 0xb8, 60, 0, 0, 0, 0x0f, 0x05]
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::process::Command;

    use super::*;

    #[test]
    fn program_exits_with_its_code() {
        for code in [0, 1, 7] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("program");
            std::fs::write(&path, exiting_with(code)).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
            assert_eq!(Command::new(&path).status().unwrap().code(), Some(i32::from(code)));
        }
    }
}
