//! Running processes of the host.

use std::path::{Path, PathBuf};
use std::{fs, io};

const PROCESSES: &str = "/proc";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningProcess {
    /// Process ID in the PID namespace of the mounted `/proc`.
    pub pid: u32,
    /// Command line, starting with the program's name.
    pub arguments: Vec<String>,
}

/// List all other processes whose executable, or first argument, has this file name.
pub fn processes_named(name: &str) -> io::Result<Vec<RunningProcess>> {
    let mut found = Vec::new();
    for pid in process_ids()?.filter(|pid| *pid != std::process::id()) {
        let directory = process_directory(pid);
        // The process may have exited meanwhile.
        let Ok(line) = fs::read(directory.join("cmdline")) else { continue };
        let arguments: Vec<String> =
            line.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect();
        let executable = fs::read_link(directory.join("exe")).ok();
        let started_as = arguments.first().map(PathBuf::from);
        if [executable, started_as].iter().flatten().any(|path| is_named(path, name)) {
            found.push(RunningProcess { pid, arguments });
        }
    }
    Ok(found)
}

/// List the IDs of all processes.
pub(crate) fn process_ids() -> io::Result<impl Iterator<Item = u32>> {
    let entries = fs::read_dir(PROCESSES)?.flatten();
    Ok(entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()))
}

/// Return the directory with the facts about a process.
pub(crate) fn process_directory(pid: u32) -> PathBuf {
    Path::new(PROCESSES).join(pid.to_string())
}

/// Compare the file name. The kernel appends ` (deleted)` to an executable that was replaced.
fn is_named(path: &Path, name: &str) -> bool {
    let file = path.file_name().map(|file| file.to_string_lossy().into_owned()).unwrap_or_default();
    file.strip_suffix(" (deleted)").unwrap_or(&file) == name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_is_found_by_its_executable() {
        let mut child =
            std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let found = processes_named("cat").unwrap();
        assert!(found.iter().any(|found| found.pid == child.id()), "{found:?}");
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(is_named(Path::new("/run/bin/machine-config-daemon (deleted)"), "machine-config-daemon"));
        assert!(!is_named(Path::new("/usr/bin/machine-config-daemonx"), "machine-config-daemon"));
    }
}
