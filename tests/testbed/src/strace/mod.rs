//! Executable under strace: the system calls of a run, and runs that are killed at one of them.
//!
//! strace counts the calls of each thread separately, and the distribution of flushes over threads varies.
//! These runs therefore have no threads: strace also refuses to create one, and the executable then does all
//! work in one thread, in a fixed order. Every run from the same state makes the same calls.

pub mod stopped;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use crate::model::run::{Outcome, launch, program};

/// Refuse every further thread.
const NO_THREADS: &str = "inject=clone,clone3:error=EAGAIN";

/// Calls without an effect that another process could see. Every other call counts as a change, known or not.
const HARMLESS: [&str; 58] = [
    "access",
    "arch_prctl",
    "brk",
    "clone",
    "clone3",
    "close",
    "dup",
    "dup2",
    "dup3",
    "execve",
    "exit",
    "exit_group",
    "faccessat",
    "faccessat2",
    "fadvise64",
    "fcntl",
    "fgetxattr",
    "fstat",
    "fstatfs",
    "futex",
    "getcwd",
    "getdents64",
    "getegid",
    "geteuid",
    "getgid",
    "getpid",
    "getrandom",
    "gettid",
    "getuid",
    "getxattr",
    "ioctl",
    "lgetxattr",
    "lseek",
    "madvise",
    "mmap",
    "mprotect",
    "mremap",
    "munmap",
    "newfstatat",
    "openat2",
    "poll",
    "pread64",
    "prlimit64",
    "read",
    "readlink",
    "readlinkat",
    "rseq",
    "rt_sigaction",
    "rt_sigprocmask",
    "rt_sigreturn",
    "sched_getaffinity",
    "sched_yield",
    "set_robust_list",
    "set_tid_address",
    "sigaltstack",
    "statfs",
    "statx",
    "uname",
];

/// System call of a run.
#[derive(Debug, Clone)]
pub struct Call {
    pub name: String,
    /// Counted from 1 among calls of the same name.
    pub number: usize,
    /// As strace prints it.
    pub text: String,
}

impl Call {
    /// True if another process could notice the call.
    pub fn is_change(&self) -> bool {
        match self.name.as_str() {
            // `openat2` only finds directories: the executable never creates a file with it.
            "open" | "openat" => self.text.contains("O_CREAT") || self.text.contains("O_TRUNC"),
            name => !HARMLESS.contains(&name),
        }
    }

    /// Injection of SIGKILL at this call, as an option of strace.
    pub fn kill_injection(&self) -> String {
        injection(&self.name, self.number, "KILL")
    }
}

/// Injection of a signal at the call with this name and number.
pub fn injection(name: &str, number: usize, signal: &str) -> String {
    format!("inject={name}:signal={signal}:when={number}")
}

/// Run to the end and list the system calls.
pub fn calls(arguments: &[&str]) -> Vec<Call> {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let log = folder.path().join("log");
    let traced = ["-o", log.to_str().expect("UTF-8"), "-e", NO_THREADS, &program()];
    let outcome = launch("strace", [&traced, arguments].concat());
    assert_eq!(outcome.code, Some(0), "{arguments:?}: {outcome:?}");
    let log = String::from_utf8_lossy(&fs::read(log).expect("the log of strace")).into_owned();
    parse(&log)
}

/// System calls in a log. With `-f` its lines begin with the process; each process or thread has its own
/// numbers, and a call that several of them make is listed once.
pub fn parse(log: &str) -> Vec<Call> {
    let mut counts = BTreeMap::new();
    let mut seen = BTreeSet::new();
    let mut calls = Vec::new();
    for line in log.lines() {
        let digits = line.len() - line.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (process, text) = line.split_at(digits);
        let text = text.trim_start();
        let Some((name, _)) = text.split_once('(') else { continue };
        if !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            continue;
        }
        let number = counts.entry((process.to_owned(), name.to_owned())).or_insert(0);
        *number += 1;
        if seen.insert((name.to_owned(), *number)) {
            calls.push(Call { name: name.to_owned(), number: *number, text: text.to_owned() });
        }
    }
    calls
}

/// Run without threads until the call of `injection`, where the run is killed before the call takes effect,
/// or to the end.
pub fn run_single_threaded(injection: &str, arguments: &[&str]) -> Outcome {
    let traced_calls = format!("{},clone,clone3", trace_option(injection));
    let traced = ["-o", "/dev/null", "-e", &traced_calls, "-e", NO_THREADS, "-e", injection, &program()];
    launch("strace", [&traced, arguments].concat())
}

/// The same with threads; the number of the call counts in each of them.
pub fn run_threaded(injection: &str, arguments: &[&str]) -> Outcome {
    let traced = ["-f", "-o", "/dev/null", "-e", &trace_option(injection), "-e", injection, &program()];
    launch("strace", [&traced, arguments].concat())
}

/// Option that traces only the call of `injection`: strace injects at traced calls only, and tracing more
/// takes longer.
fn trace_option(injection: &str) -> String {
    let name = injection.split(['=', ':']).nth(1).expect("an injection begins with `inject=NAME:`");
    format!("trace={name}")
}
