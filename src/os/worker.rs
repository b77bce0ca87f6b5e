//! Client of `flameholder-ostree`: starts the worker and sends it requests over
//! [`protocol`](super::protocol).

mod artifact_pull;
mod program;

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout};
use std::thread::JoinHandle;

pub use program::{FETCH_TIMEOUT, IMAGE_SIGNATURE, PARALLEL_FETCHES, WorkerProgram};
use serde::de::DeserializeOwned;

use crate::core::etc_merge::SpecialFiles;
use crate::core::image_policy::SignatureVerdict;
use crate::core::plan::FetchSize;
use crate::core::values::identifiers::BootId;
use crate::core::values::image::ImageRef;
use crate::os::protocol::{SysrootAccess, VERSION, WorkerGreeting, WorkerReply, WorkerRequest};
use crate::os::{
    DeployRequest, Deployment, DeploymentId, ImportRequest, ImportedCommit, OsError, PullProgress,
    RedactedCause, Sysroot,
};

/// Number of last lines of the worker's standard error that an error quotes.
const STDERR_LINES: usize = 20;

/// Longer lines are split, in bytes.
const STDERR_LINE_LENGTH: u64 = 1000;

/// Session with a worker of its own. Dropping it ends the worker, which releases the sysroot's lock, and
/// waits for its exit.
#[derive(Debug)]
pub struct WorkerSession {
    child: Child,
    /// `None` after the end of the session: closing its standard input makes the worker exit.
    requests: Option<ChildStdin>,
    replies: BufReader<ChildStdout>,
    stderr: Option<JoinHandle<String>>,
    special_files: SpecialFiles,
    prunes_boot_early: bool,
}

impl WorkerSession {
    /// Start a worker and open the sysroot at `path`.
    pub fn open(program: &WorkerProgram, path: &Path, access: SysrootAccess) -> Result<Self, OsError> {
        let mut session = Self::start(program)?;
        session.check_greeting()?;
        session.request_done(&WorkerRequest::Open { path: path.to_owned(), access })?;
        Ok(session)
    }

    /// Start a worker for its greeting alone.
    pub fn greeting(program: &WorkerProgram) -> Result<WorkerGreeting, OsError> {
        Self::start(program)?.receive()
    }

    fn start(program: &WorkerProgram) -> Result<Self, OsError> {
        let mut child = program.start()?;
        let (Some(requests), Some(replies), Some(stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(protocol_error("the pipes to the worker are missing"));
        };
        Ok(Self {
            child,
            requests: Some(requests),
            replies: BufReader::new(replies),
            stderr: Some(std::thread::spawn(move || last_lines(stderr))),
            special_files: SpecialFiles::Refused,
            prunes_boot_early: false,
        })
    }

    /// Process ID of the worker, for logs.
    #[must_use]
    pub fn process_id(&self) -> u32 {
        self.child.id()
    }

    /// Find an imported image by its manifest digest.
    pub fn find(&mut self, digest: &str) -> Result<Option<ImportedCommit>, OsError> {
        match self.request(&WorkerRequest::Find(digest.to_owned()))? {
            WorkerReply::Imported(imported) => Ok(Some(imported)),
            WorkerReply::Done => Ok(None),
            other => Err(unexpected(&other)),
        }
    }

    /// Fail unless skopeo verifies the signature that the reference or the settings demand, if they demand one. Returns the
    /// verdict on a pull of the image.
    pub fn require_policy(&mut self, image: &ImageRef) -> Result<Option<SignatureVerdict>, OsError> {
        match self.request(&WorkerRequest::RequirePolicy(image.clone()))? {
            WorkerReply::Signature(verdict) => Ok(verdict),
            other => Err(unexpected(&other)),
        }
    }

    /// Read the version of a package in a commit; `None` if the commit has no such package or no package
    /// database.
    pub fn package_version(&mut self, commit: &str, package: &str) -> Result<Option<String>, OsError> {
        let (commit, package) = (commit.to_owned(), package.to_owned());
        match self.request(&WorkerRequest::PackageVersion { commit, package })? {
            WorkerReply::PackageVersion(version) => Ok(version),
            other => Err(unexpected(&other)),
        }
    }

    fn check_greeting(&mut self) -> Result<(), OsError> {
        let WorkerGreeting { protocol, ignores_special_files, prunes_boot_early, .. } = self.receive()?;
        self.prunes_boot_early = prunes_boot_early;
        if ignores_special_files {
            self.special_files = SpecialFiles::Ignored;
        }
        if protocol == VERSION {
            return Ok(());
        }
        Err(protocol_error(&format!(
            "the worker has protocol version {protocol}, this program has version {VERSION}; install both from one release"
        )))
    }

    fn request(&mut self, request: &WorkerRequest) -> Result<WorkerReply, OsError> {
        self.request_with_progress(request, &mut |_| ())
    }

    fn request_done(&mut self, request: &WorkerRequest) -> Result<(), OsError> {
        match self.request(request)? {
            WorkerReply::Done => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    fn request_with_progress(
        &mut self,
        request: &WorkerRequest,
        progress: &mut dyn FnMut(PullProgress),
    ) -> Result<WorkerReply, OsError> {
        self.send(request)?;
        loop {
            match self.receive()? {
                WorkerReply::Progress(step) => progress(step),
                WorkerReply::Failed(error) => return Err(error),
                reply => return Ok(reply),
            }
        }
    }

    fn send(&mut self, request: &WorkerRequest) -> Result<(), OsError> {
        let mut line = serde_json::to_vec(request)
            .map_err(|source| protocol_error(&format!("request cannot be encoded as JSON: {source}")))?;
        line.push(b'\n');
        let sent = match &mut self.requests {
            Some(pipe) => pipe.write_all(&line),
            None => Err(std::io::ErrorKind::BrokenPipe.into()),
        };
        sent.map_err(|_broken_pipe| self.post_mortem())
    }

    fn receive<T: DeserializeOwned>(&mut self) -> Result<T, OsError> {
        let mut line = String::new();
        match self.replies.read_line(&mut line) {
            Ok(1..) if line.ends_with('\n') => serde_json::from_str(&line).map_err(|source| {
                protocol_error(&format!(
                    "the worker's reply cannot be decoded ({source}); install both programs from one release"
                ))
            }),
            // A worker that dies while writing leaves an incomplete line.
            _ => Err(self.post_mortem()),
        }
    }

    /// End the session after the worker failed and return its exit status and standard error as an error.
    fn post_mortem(&mut self) -> OsError {
        let (status, stderr) = self.end();
        OsError::WorkerDied { status, stderr }
    }

    /// End the session. Returns exit status and last lines of standard error.
    fn end(&mut self) -> (String, RedactedCause) {
        self.requests = None;
        let status = match self.child.wait() {
            Ok(status) => status.to_string(),
            Err(error) => format!("exit status unknown: {error}"),
        };
        let stderr = self.stderr.take().and_then(|lines| lines.join().ok());
        let last_words = stderr.filter(|text| !text.trim().is_empty());
        (status, RedactedCause::new(last_words.as_deref().unwrap_or("no output on standard error")))
    }
}

impl Drop for WorkerSession {
    fn drop(&mut self) {
        if self.requests.is_none() {
            return;
        }
        let (status, stderr) = self.end();
        log::debug!(status:%, stderr:%; "flameholder-ostree ended");
    }
}

impl Sysroot for WorkerSession {
    fn deployments(&mut self) -> Result<Vec<Deployment>, OsError> {
        match self.request(&WorkerRequest::Deployments)? {
            WorkerReply::Deployments(deployments) => Ok(deployments),
            other => Err(unexpected(&other)),
        }
    }

    fn import(
        &mut self,
        wanted: &ImportRequest,
        progress: &mut dyn FnMut(PullProgress),
    ) -> Result<ImportedCommit, OsError> {
        let ImportRequest { image: Some(image), packages } = wanted else {
            return Err(protocol_error("import request without an image"));
        };
        if !packages.is_empty() {
            return Err(protocol_error("import request with packages, which only rpm-ostreed can change"));
        }
        match self.request_with_progress(&WorkerRequest::Import(image.clone()), progress)? {
            WorkerReply::Imported(imported) => Ok(imported),
            other => Err(unexpected(&other)),
        }
    }

    fn measure(&mut self, image: &ImageRef) -> Result<FetchSize, OsError> {
        match self.request(&WorkerRequest::Measure(image.clone()))? {
            WorkerReply::Measured(size) => Ok(size),
            other => Err(unexpected(&other)),
        }
    }

    fn unpack(&mut self, image: &ImageRef, within: &Path, to: &Path) -> Result<(), OsError> {
        let (image, within, to) = (image.clone(), within.to_owned(), to.to_owned());
        self.request_done(&WorkerRequest::Unpack { image, within, to })
    }

    fn deploy(&mut self, request: &DeployRequest) -> Result<Deployment, OsError> {
        match self.request(&WorkerRequest::Deploy(request.clone()))? {
            WorkerReply::Deployed(deployment) => Ok(deployment),
            other => Err(unexpected(&other)),
        }
    }

    fn labels(&mut self, paths: &[(String, u32)]) -> Result<Vec<Option<String>>, OsError> {
        match self.request(&WorkerRequest::Labels(paths.to_vec()))? {
            WorkerReply::Labels(labels) if labels.len() == paths.len() => Ok(labels),
            other => Err(unexpected(&other)),
        }
    }

    fn special_files(&self) -> SpecialFiles {
        self.special_files
    }

    fn prunes_boot_early(&self) -> bool {
        self.prunes_boot_early
    }

    fn check_out_etc(&mut self, commit: &str) -> Result<PathBuf, OsError> {
        match self.request(&WorkerRequest::CheckOutEtc(commit.to_owned()))? {
            WorkerReply::EtcCheckedOut(root) => Ok(root),
            other => Err(unexpected(&other)),
        }
    }

    fn finish(&mut self) -> Result<(), OsError> {
        self.request_done(&WorkerRequest::Finish)
    }

    fn set_default(&mut self, deployment: &DeploymentId) -> Result<(), OsError> {
        self.request_done(&WorkerRequest::SetDefault(deployment.clone()))
    }

    fn stage(&mut self, request: &DeployRequest, boot_id: &BootId) -> Result<Deployment, OsError> {
        let (request, boot_id) = (request.clone(), boot_id.clone());
        match self.request(&WorkerRequest::Stage { request, boot_id })? {
            WorkerReply::Deployed(deployment) => Ok(deployment),
            other => Err(unexpected(&other)),
        }
    }

    fn set_pinned(&mut self, deployment: &DeploymentId, pinned: bool) -> Result<(), OsError> {
        self.request_done(&WorkerRequest::SetPinned { deployment: deployment.clone(), pinned })
    }

    fn unlock(&mut self, staged: &DeploymentId) -> Result<(), OsError> {
        self.request_done(&WorkerRequest::Unlock(staged.clone()))
    }

    fn unstage(&mut self, staged: &DeploymentId) -> Result<(), OsError> {
        self.request_done(&WorkerRequest::Unstage(staged.clone()))
    }

    fn clean_up(&mut self) -> Result<(), OsError> {
        self.request_done(&WorkerRequest::CleanUp)
    }
}

fn unexpected(reply: &WorkerReply) -> OsError {
    protocol_error(&format!("unexpected reply {:?}; install both programs from one release", reply.name()))
}

fn protocol_error(problem: &str) -> OsError {
    OsError::Protocol { problem: problem.to_owned() }
}

/// Read to the end and keep the last lines. Reading on is necessary: a full pipe would block the worker.
fn last_lines(stderr: impl Read) -> String {
    let mut kept: VecDeque<String> = VecDeque::with_capacity(STDERR_LINES);
    let mut reader = BufReader::new(stderr);
    let mut line = Vec::new();
    // A read error ends the output like its end does.
    while let Ok(1..) = reader.by_ref().take(STDERR_LINE_LENGTH).read_until(b'\n', &mut line) {
        if kept.len() == STDERR_LINES {
            kept.pop_front();
        }
        kept.push_back(String::from_utf8_lossy(&line).trim_end().to_owned());
        line.clear();
    }
    Vec::from(kept).join("\n")
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn last_lines_of_standard_error_are_kept() {
        let said: Vec<String> = (0..50).map(|n| format!("line {n}")).collect();
        let kept = last_lines(said.join("\n").as_bytes());
        assert!(kept.starts_with("line 30\n") && kept.ends_with("line 49"), "{kept}");
    }

    #[test]
    fn overlong_line_is_split() {
        let kept = last_lines("x".repeat(100_000).as_bytes());
        assert_eq!(kept.lines().count(), STDERR_LINES);
    }

    fn scripted(script: &str) -> OsError {
        let directory = tempfile::tempdir().unwrap();
        let source = directory.path().join("script");
        std::fs::write(&source, format!("#!/bin/sh\n{script}\n")).unwrap();
        let path = directory.path().join("worker");
        // Another process writes the executable: if this process did, a child forked meanwhile by a parallel
        // test would inherit the open file, and executing it would fail with "text file busy".
        let installed = Command::new("install").arg(&source).arg(&path).status();
        assert!(installed.unwrap().success());
        WorkerSession::open(&WorkerProgram::at(&path), Path::new("/"), SysrootAccess::Read).unwrap_err()
    }

    #[test]
    fn worker_with_another_protocol_version_is_refused() {
        let later = VERSION + 1;
        let error = scripted(&format!("echo '{{\"protocol\": {later}, \"new\": true}}'; exec cat"));
        let named = format!("version {later}");
        assert!(matches!(&error, OsError::Protocol { problem } if problem.contains(&named)), "{error}");
    }

    #[test]
    fn worker_with_undecodable_reply_is_refused() {
        let error = scripted("echo 'Usage: something'; exec cat");
        assert!(matches!(&error, OsError::Protocol { .. }), "{error}");
    }

    #[test]
    fn standard_error_of_a_dead_worker_is_quoted() {
        let error = scripted("echo 'no libostree-1.so.1 at https://u:secret@h/' >&2; exit 127");
        let OsError::WorkerDied { status, stderr } = error else {
            panic!("{error}");
        };
        assert_eq!(status, "exit status: 127");
        assert_eq!(stderr.to_string(), "no libostree-1.so.1 at https://[redacted]@h/");
    }

    #[test]
    fn missing_worker_executable_is_reported() {
        let missing = WorkerProgram::at("/nonexistent/worker");
        let error = WorkerSession::open(&missing, Path::new("/"), SysrootAccess::Read).unwrap_err();
        assert!(matches!(error, OsError::WorkerNotStarted { .. }), "{error}");
    }
}
