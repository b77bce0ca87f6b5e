//! Hook programs: executables that administrators install in drop-in directories, such as health checks, run
//! with a deadline, by systemd where it is running.

use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::io::PipeWriter;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use crate::host::memory_file::MemoryFile;
use crate::host::systemd::transient_unit::{ServiceResult, TransientService};
use crate::host::trusted_path::ensure_only_root_writes;

/// Bytes kept of a program's output: its end.
const KEPT: usize = 2048;
/// Time to wait for remaining output after the program has exited.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// The `PATH` that systemd gives to services.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin";

/// Program in a drop-in directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookProgram {
    /// File name.
    pub name: String,
    pub path: PathBuf,
}

/// Purpose of a run of hook programs.
#[derive(Debug)]
pub struct ProgramPurpose {
    /// Name of one program, in descriptions of units.
    label: &'static str,
    /// Begin of the names of their units.
    unit_prefix: &'static str,
    /// Unit that runs the programs.
    owner: &'static str,
    /// Environment variables, `NAME=VALUE`.
    environment: Vec<String>,
    /// Standard input; `None` for an empty one.
    input: Option<MemoryFile>,
}

impl ProgramPurpose {
    /// Health checks of the boot check.
    #[must_use]
    pub fn health_check() -> Self {
        Self {
            label: "health check",
            unit_prefix: "flameholder-check",
            owner: "flameholder-confirm-boot.service",
            environment: Vec::new(),
            input: None,
        }
    }

    /// Hooks of the daemon, with environment variables (`NAME=VALUE`) and their standard input, which is empty for `None`.
    #[must_use]
    pub fn hook(environment: Vec<String>, input: Option<MemoryFile>) -> Self {
        Self {
            label: "hook",
            unit_prefix: "flameholder-hook",
            owner: "flameholder-daemon.service",
            environment,
            input,
        }
    }
}

/// Failure of a hook program.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProgramError {
    /// Users other than root can write the file.
    #[error("{0}")]
    Unsafe(String),
    #[error("cannot be started: {0}")]
    NotStarted(String),
    /// The program exited with an error or was killed by a signal.
    #[error("failed with {status}")]
    Failed {
        status: String,
        /// End of its output.
        output: String,
    },
    /// The program exceeded the deadline and was killed, including its child processes.
    #[error("timed out after {} seconds", deadline.as_secs())]
    TimedOut {
        deadline: Duration,
        /// End of its output.
        output: String,
    },
}

impl ProgramError {
    /// Return the end of the program's output, which can hold secrets; empty if it did not run.
    #[must_use]
    pub fn output(&self) -> &str {
        match self {
            Self::Unsafe(_) | Self::NotStarted(_) => "",
            Self::Failed { output, .. } | Self::TimedOut { output, .. } => output,
        }
    }
}

/// List the programs in `directories`, sorted by name. A name in a later directory overrides the same name in
/// an earlier one; an empty file or a link to `/dev/null` masks it. Hidden files and files without execute
/// permission are skipped.
#[must_use]
pub fn list(directories: &[&Path]) -> Vec<HookProgram> {
    let mut found = BTreeMap::new();
    for directory in directories {
        let Ok(entries) = directory.read_dir() else { continue };
        for entry in entries.flatten() {
            let Ok(name) = entry.file_name().into_string() else { continue };
            let path = entry.path();
            let is_program = path.metadata().is_ok_and(|file| is_executable(&file));
            let takes_away =
                path.metadata().is_ok_and(|file| file.len() == 0 && !file.is_dir()) || is_masked(&path);
            if !name.starts_with('.') && (is_program || takes_away) {
                found.insert(name, path);
            }
        }
    }
    let programs = found.into_iter().filter(|(_, path)| {
        !is_masked(path) && path.metadata().is_ok_and(|file| file.len() > 0 && is_executable(&file))
    });
    programs.map(|(name, path)| HookProgram { name, path }).collect()
}

fn is_executable(file: &Metadata) -> bool {
    file.is_file() && file.permissions().mode() & 0o111 != 0
}

fn is_masked(path: &Path) -> bool {
    path.read_link().is_ok_and(|target| target == Path::new("/dev/null"))
}

impl HookProgram {
    /// Run the program until it exits or `deadline` passes: as a transient service of the systemd with this private `socket`,
    /// or as a child process where there is none.
    pub fn run(
        &self,
        socket: Option<&Path>,
        deadline: Duration,
        purpose: &ProgramPurpose,
    ) -> Result<(), ProgramError> {
        self.ensure_trusted()?;
        let input = match &purpose.input {
            Some(input) => input.reopened(),
            None => File::open("/dev/null"),
        };
        let input = input.map_err(|error| ProgramError::NotStarted(error.to_string()))?;
        let (mut reader, writer) =
            std::io::pipe().map_err(|error| ProgramError::NotStarted(error.to_string()))?;
        let output = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&output);
        let (tell, read) = mpsc::channel();
        std::thread::spawn(move || {
            keep_end(&mut reader, &kept);
            // The receiver may have given up.
            let _ = tell.send(());
        });
        let ended = match socket {
            Some(socket) => self.run_as_service(socket, (input, writer), deadline, purpose),
            None => self.run_as_child((input, writer), deadline, purpose),
        }?;
        // With a limit: a process that left the program's process group may keep the pipe open.
        let _ = read.recv_timeout(LAST_WORDS);
        let text = || {
            let kept = output.lock().map(|kept| kept.clone()).unwrap_or_default();
            String::from_utf8_lossy(&kept).into_owned()
        };
        match ended {
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(ProgramError::Failed { status: in_words(status), output: text() }),
            None => Err(ProgramError::TimedOut { deadline, output: text() }),
        }
    }

    /// Run the program as a service; `None` if it was stopped at the deadline.
    fn run_as_service(
        &self,
        socket: &Path,
        (input, output): (File, PipeWriter),
        deadline: Duration,
        purpose: &ProgramPurpose,
    ) -> Result<Option<ExitStatus>, ProgramError> {
        let ProgramPurpose { label, unit_prefix, owner, environment, .. } = purpose;
        let description = format!("Flameholder: {label} {}", self.name);
        let service = TransientService {
            prefix: unit_prefix,
            description,
            owner,
            environment,
            program: &self.path,
            deadline,
        };
        match service.run(socket, &input.into(), output.into()) {
            Ok(ServiceResult::Exited(status)) => Ok(Some(status)),
            Ok(ServiceResult::TimedOut) => Ok(None),
            Ok(ServiceResult::NotExecuted) => Err(ProgramError::NotStarted(format!(
                "systemd cannot execute it; see `journalctl -b -u '{unit_prefix}-*'`"
            ))),
            Err(error) => Err(ProgramError::NotStarted(format!("systemd: {error}"))),
        }
    }

    /// Run the program as a child process; `None` if it was killed at the deadline.
    fn run_as_child(
        &self,
        (input, output): (File, PipeWriter),
        deadline: Duration,
        purpose: &ProgramPurpose,
    ) -> Result<Option<ExitStatus>, ProgramError> {
        let spawned = output.try_clone().and_then(|second| {
            let mut command = Command::new(&self.path);
            let variables = purpose.environment.iter().filter_map(|variable| variable.split_once('='));
            command.env_clear().env("PATH", PATH).envs(variables).current_dir("/").process_group(0);
            command.stdin(input).stdout(output).stderr(second).spawn()
        });
        let mut child = spawned.map_err(|error| ProgramError::NotStarted(error.to_string()))?;
        Ok(wait(&mut child, deadline))
    }

    /// Refuse a file that users other than root can write: it runs as root.
    fn ensure_trusted(&self) -> Result<(), ProgramError> {
        let file = self.path.metadata().map_err(|error| ProgramError::NotStarted(error.to_string()))?;
        ensure_only_root_writes(&self.path, &file)
            .map_err(|error| ProgramError::Unsafe(format!("is not run: {error}")))
    }
}

/// Read to the end of the output and keep its last part.
fn keep_end(reader: &mut impl std::io::Read, kept: &Mutex<Vec<u8>>) {
    let mut buffer = [0; 4096];
    while let Ok(read @ 1..) = reader.by_ref().read(&mut buffer) {
        let Ok(mut kept) = kept.lock() else { return };
        kept.extend_from_slice(buffer.get(..read).unwrap_or_default());
        let excess = kept.len().saturating_sub(KEPT);
        kept.drain(..excess);
    }
}

/// Wait for the program to exit. Kills its process group at the deadline, or if waiting fails.
fn wait(child: &mut Child, deadline: Duration) -> Option<ExitStatus> {
    let pid = Pid::from_child(child);
    let end = Instant::now() + deadline;
    let is_over = pidfd_open(pid, PidfdFlags::empty()).is_ok_and(|process| {
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let timeout = Timespec::try_from(left).ok();
            let mut events = [PollFd::new(&process, PollFlags::IN)];
            match poll(&mut events, timeout.as_ref()) {
                Ok(0) => return false,
                Err(rustix::io::Errno::INTR) => {}
                ended => return ended.is_ok(),
            }
        }
    });
    if is_over {
        return child.wait().ok();
    }
    // The program may have exited meanwhile.
    let _ = kill_process_group(pid, Signal::KILL);
    let _ = child.wait();
    None
}

fn in_words(status: ExitStatus) -> String {
    match status.code() {
        Some(code) => format!("exit code {code}"),
        None => status.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(directory: &Path, name: &str, text: &str) -> PathBuf {
        let path = directory.join(name);
        // Another process writes the file: if this process did, a child forked meanwhile by a parallel test
        // would inherit the open file, and executing it would fail with "text file busy".
        let mut write = Command::new("sh");
        write.args(["-c", "printf '%s' \"$2\" > \"$1\" && chmod 755 \"$1\"", "sh"]).arg(&path).arg(text);
        assert!(write.status().unwrap().success());
        path
    }

    #[test]
    fn later_directories_override_and_mask_programs() {
        let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for name in ["a", "b", "c", ".hidden"] {
            put(first.path(), name, "#!/bin/sh\n");
        }
        std::fs::write(first.path().join("notes"), "no program").unwrap();
        let replaced = put(second.path(), "a", "#!/bin/sh\nfalse\n");
        std::fs::write(second.path().join("b"), "").unwrap();
        std::os::unix::fs::symlink("/dev/null", second.path().join("c")).unwrap();
        let found = list(&[first.path(), second.path(), Path::new("/nowhere")]);
        assert_eq!(found, [HookProgram { name: "a".into(), path: replaced }]);
    }

    #[test]
    fn failure_timeout_and_unsafe_files_are_distinguished() {
        let directory = tempfile::tempdir().unwrap();
        let long = Duration::from_secs(60);
        let run = |text: &str, deadline| {
            let program = HookProgram { name: "check".into(), path: put(directory.path(), "check", text) };
            program
                .run(None, deadline, &ProgramPurpose::health_check())
                .map_err(|error| (error.to_string(), error.output().to_owned()))
        };
        if !rustix::process::geteuid().is_root() {
            eprintln!("SKIPPED: needs root, because only programs owned by root are run");
            return;
        }
        assert_eq!(run("#!/bin/sh\nexit 0\n", long), Ok(()));
        let failed = run("#!/bin/sh\necho first\necho the disk is full >&2\nexit 3\n", long).unwrap_err();
        let output = "first\nthe disk is full\n".to_owned();
        assert_eq!(failed, ("failed with exit code 3".to_owned(), output));
        let hung = run("#!/bin/sh\nsleep 1000 & sleep 1000\n", Duration::from_millis(300)).unwrap_err();
        assert!(hung.0.starts_with("timed out after"), "{hung:?}");
        assert!(run("no interpreter", long).unwrap_err().0.starts_with("cannot be started"));
        // More than the capacity of a pipe.
        assert_eq!(run("#!/bin/sh\nhead -c 1000000 /dev/zero\n", long), Ok(()));
        std::fs::set_permissions(directory.path().join("check"), std::fs::Permissions::from_mode(0o777))
            .unwrap();
        let program = HookProgram { name: "check".into(), path: directory.path().join("check") };
        assert!(matches!(
            program.run(None, long, &ProgramPurpose::health_check()),
            Err(ProgramError::Unsafe(_))
        ));
    }
}
