//! Hook programs as transient services of a real systemd.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use flameholder::host::memory_file::MemoryFile;
use flameholder::host::programs::{HookProgram, ProgramPurpose};
use testbed::dbus::real_systemd::RealSystemd;

use crate::as_service;

/// Time for a program that ends by itself.
const LONG: Duration = Duration::from_secs(60);
/// Environment variable with the directory of the programs.
const DIRECTORY: &str = "FLAMEHOLDER_TEST_PROGRAMS";

/// Programs with the result that each is to have, as [`result_of`] prints it.
const PROGRAMS: [(&str, &str, &str); 11] = [
    ("succeeds", "#!/bin/sh\necho done\n", "succeeded"),
    // With the same descriptors, and with everything that an earlier one left behind.
    ("again", "#!/bin/sh\n", "succeeded"),
    (
        "fails",
        "#!/bin/sh\necho first\necho the disk is full >&2\nexit 3\n",
        "failed with exit code 3: first|the disk is full|",
    ),
    ("is-killed", "#!/bin/sh\nkill -9 $$\n", "failed with signal: 9 (SIGKILL): "),
    // More than the capacity of a pipe.
    (
        "is-loud",
        "#!/bin/sh\nhead -c 1000000 /dev/zero | tr '\\0' x; echo; echo last; exit 1\n",
        "failed with exit code 1: …last|",
    ),
    ("hangs", "#!/bin/sh\necho begun\nsleep 1000 & sleep 1000\n", "timed out after 1 seconds: begun|"),
    (
        "has-no-format",
        "no interpreter",
        "cannot be started: systemd cannot execute it; see `journalctl -b -u 'flameholder-check-*'`: ",
    ),
    ("is-told-nothing", "#!/bin/sh\n[ -z \"$(cat)\" ]\n", "succeeded"),
    // More than the capacity of a pipe; and each program reads from the beginning.
    ("is-told", "#!/bin/sh\n[ \"$(wc -c)\" = 100000 ]\n", "succeeded"),
    ("is-told-again", "#!/bin/sh\n[ \"$(wc -c)\" = 100000 ]\n", "succeeded"),
    // The service that starts the program may do none of this.
    (
        "is-free",
        "#!/bin/sh\nmount -t tmpfs none /mnt && umount /mnt && [ \"$(cat /proc/self/oom_score_adj)\" = 500 ] && [ \"$(ulimit -c)\" = 0 ]\n",
        "succeeded",
    ),
];

fn result_of(program: &HookProgram, socket: &Path, told: &ProgramPurpose) -> String {
    let deadline = if program.name == "hangs" { Duration::from_secs(1) } else { LONG };
    let check = ProgramPurpose::health_check();
    let purpose = if ["is-told", "is-told-again"].contains(&program.name.as_str()) { told } else { &check };
    match program.run(Some(socket), deadline, purpose) {
        Ok(()) => "succeeded".to_owned(),
        Err(error) => {
            let output = error.output().replace('\n', "|");
            let end = output.trim_start_matches('x').trim_start_matches('|');
            format!("{error}: {}{end}", if end == output { "" } else { "…" })
        }
    }
}

/// Run the programs and report their results.
#[test]
#[ignore = "service: the systemd of another test runs it"]
fn run_programs_as_a_service() {
    let (socket, directory) = (as_service::socket(), PathBuf::from(std::env::var_os(DIRECTORY).unwrap()));
    let status = MemoryFile::of("status", "x".repeat(100_000).as_bytes()).unwrap();
    let told = ProgramPurpose::hook(Vec::new(), Some(status));
    let run = |(name, ..): (&str, &str, &str)| {
        result_of(&HookProgram { name: name.to_owned(), path: directory.join(name) }, &socket, &told)
    };
    as_service::report(&PROGRAMS.map(run));
}

#[test]
fn programs_run_outside_the_sandbox_of_the_agent() {
    let real = RealSystemd::start(&[]);
    let directory = real.file("programs");
    fs::create_dir(&directory).unwrap();
    for (name, text, _) in PROGRAMS {
        let path = directory.join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let sandbox = format!(
        "Environment={DIRECTORY}={}\nNoNewPrivileges=yes\nSystemCallFilter=~@mount\nSystemCallErrorNumber=EPERM\n",
        directory.display()
    );
    let name = "hook_programs::run_programs_as_a_service";
    let answers = as_service::answers_of(&real, name, &sandbox, PROGRAMS.len());
    for ((name, _, expected), answer) in PROGRAMS.iter().zip(&answers) {
        assert_eq!(answer, expected, "{name}");
    }
}
