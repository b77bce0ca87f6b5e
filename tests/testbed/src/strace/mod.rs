//! The executable under strace: the system calls of a run, and a run that ends at one of them.
//!
//! strace counts the calls of each thread by themselves, and which thread flushes which file is chance. So
//! these runs get no threads: the kernel's refusal to make one is injected too, and the executable then does
//! alone, in one order, what it does with others at its best. Every run from one state makes the same calls.

pub mod held;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use crate::model::run::{Outcome, launch, program};

/// Refuses every further thread.
const ALONE: &str = "inject=clone,clone3:error=EAGAIN";

/// Calls that leave nothing for another process to see. Every other one counts as a change, known or not.
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

/// One system call of a run.
#[derive(Debug, Clone)]
pub struct Call {
    pub name: String,
    /// Counted from 1 among those of the same name.
    pub number: usize,
    /// As strace prints it.
    pub text: String,
}

impl Call {
    /// Whether another process could see that it was made.
    pub fn is_change(&self) -> bool {
        match self.name.as_str() {
            // `openat2` only finds directories: it is never asked to make a file.
            "open" | "openat" => self.text.contains("O_CREAT") || self.text.contains("O_TRUNC"),
            name => !HARMLESS.contains(&name),
        }
    }

    /// What strace is told to inject there.
    pub fn place(&self) -> String {
        place(&self.name, self.number, "KILL")
    }
}

/// A signal at the call of this name and number.
pub fn place(name: &str, number: usize, signal: &str) -> String {
    format!("inject={name}:signal={signal}:when={number}")
}

/// Runs to its end and lists its system calls.
pub fn calls(arguments: &[&str]) -> Vec<Call> {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let log = folder.path().join("log");
    let traced = ["-o", log.to_str().expect("UTF-8"), "-e", ALONE, &program()];
    let outcome = launch("strace", [&traced, arguments].concat());
    assert_eq!(outcome.code, Some(0), "{arguments:?}: {outcome:?}");
    let log = String::from_utf8_lossy(&fs::read(log).expect("what strace wrote")).into_owned();
    parse(&log)
}

/// The calls of a log. With `-f` its lines begin with the process; each process or thread has its own numbers, and
/// a call that several of them make is there once.
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

/// Runs until `place`, which is reached before the call there takes effect, or to its end.
pub fn alone(place: &str, arguments: &[&str]) -> Outcome {
    let only = only(place);
    let traced =
        ["-o", "/dev/null", "-e", &format!("{only},clone,clone3"), "-e", ALONE, "-e", place, &program()];
    launch("strace", [&traced, arguments].concat())
}

/// The same with as many threads as there are; the number counts in each of them.
pub fn together(place: &str, arguments: &[&str]) -> Outcome {
    let traced = ["-f", "-o", "/dev/null", "-e", &only(place), "-e", place, &program()];
    launch("strace", [&traced, arguments].concat())
}

/// Nothing is injected into calls that are not traced, and tracing more takes longer.
fn only(place: &str) -> String {
    let name = place.split(['=', ':']).nth(1).expect("a place begins with `inject=NAME:`");
    format!("trace={name}")
}
