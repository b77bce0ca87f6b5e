//! Process of skopeo's image proxy, to which several threads talk.

use std::ffi::OsString;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde_json::Value;

use super::message::{MessageSocket, ProxyAnswer, ProxyMessage, ProxyRequest};

/// Time that skopeo gets to end after it closed its socket.
const LAST_WORDS: Duration = Duration::from_secs(5);
/// Most bytes kept of its standard error.
const MOST_PRINTED: u64 = 16 * 1024;

/// Running proxy. Requests are answered one after the other; pipes transfer at the same time.
#[derive(Debug)]
pub(super) struct SkopeoProxy {
    socket: Mutex<MessageSocket>,
    process: Mutex<SkopeoProcess>,
}

#[derive(Debug)]
struct SkopeoProcess {
    child: Child,
    /// Thread that reads the standard error of the process.
    printed: Option<JoinHandle<String>>,
}

impl SkopeoProxy {
    /// Start the program with these arguments.
    pub(super) fn start(command: &[OsString]) -> Result<Self, String> {
        let (program, arguments) = command.split_first().ok_or("no program to start")?;
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
                .map_err(|error| format!("cannot create a socket for skopeo: {error}"))?;
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("failed to execute {}: {error}", program.display()))?;
        let printed = child.stderr.take().map(|stderr| std::thread::spawn(move || read_all(stderr)));
        Ok(Self {
            socket: Mutex::new(MessageSocket::new(ours)),
            process: Mutex::new(SkopeoProcess { child, printed }),
        })
    }

    /// Pass a request on, and wait for its answer.
    pub(super) fn exchange(&self, request: &ProxyMessage) -> Result<ProxyMessage, String> {
        let socket = self.socket.lock().unwrap_or_else(PoisonError::into_inner);
        let answered = socket.send(request).and_then(|()| socket.receive());
        drop(socket);
        match answered {
            Ok(Some(answer)) => Ok(answer),
            Ok(None) => Err(self.obituary("it closed its connection")),
            Err(error) => Err(self.obituary(&error.to_string())),
        }
    }

    /// Call a method. Returns the number of the pipe with the pipe, if one comes with the answer.
    pub(super) fn call(&self, method: &str, args: Vec<Value>) -> Result<Option<(u32, OwnedFd)>, String> {
        let request = ProxyRequest { method: method.to_owned(), args };
        let request = ProxyMessage::encode(&request, None).map_err(|error| error.to_string())?;
        let answer = self.exchange(&request)?;
        let decoded: ProxyAnswer = serde_json::from_slice(&answer.body)
            .map_err(|error| format!("decoding skopeo's answer to {method}: {error}"))?;
        if !decoded.success {
            return Err(decoded.error);
        }
        Ok(answer.pipe.map(|pipe| (decoded.pipeid, pipe)))
    }

    /// End the process after a request that has no answer, and return its status with its output.
    pub(super) fn shut_down(&self, request: &ProxyMessage) -> std::io::Result<(ExitStatus, String)> {
        let socket = self.socket.lock().unwrap_or_else(PoisonError::into_inner);
        // A process that is gone already has its status.
        let _ = socket.send(request);
        let mut process = self.process.lock().unwrap_or_else(PoisonError::into_inner);
        let status = process.child.wait()?;
        Ok((status, process.last_words()))
    }

    /// Report the end of the process, with its status and its output.
    fn obituary(&self, cause: &str) -> String {
        let mut process = self.process.lock().unwrap_or_else(PoisonError::into_inner);
        match process.wait() {
            Ok(status) => format!("skopeo ended early ({status}): {}", process.last_words()),
            Err(error) => format!("skopeo does not answer: {cause}; {error}"),
        }
    }
}

impl SkopeoProcess {
    /// Wait for the end of a process that closed its socket, and kill it if it goes on.
    fn wait(&mut self) -> std::io::Result<ExitStatus> {
        if let Some(status) = self.child.try_wait()? {
            return Ok(status);
        }
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let process = pidfd_open(pid.ok_or(std::io::ErrorKind::NotFound)?, PidfdFlags::empty())?;
        let mut waited = [PollFd::new(&process, PollFlags::IN)];
        let deadline = Timespec::try_from(LAST_WORDS).map_err(std::io::Error::other)?;
        if poll(&mut waited, Some(&deadline))? == 0 {
            self.child.kill()?;
        }
        self.child.wait()
    }

    fn last_words(&mut self) -> String {
        let printed = self.printed.take().and_then(|thread| thread.join().ok());
        printed.unwrap_or_default().trim().to_owned()
    }
}

fn read_all(mut from: ChildStderr) -> String {
    let mut printed = Vec::new();
    // What can be read is returned.
    let _ = from.by_ref().take(MOST_PRINTED).read_to_end(&mut printed);
    // Its writer blocks if the rest is not read.
    let _ = std::io::copy(&mut from, &mut std::io::sink());
    String::from_utf8_lossy(&printed).into_owned()
}
