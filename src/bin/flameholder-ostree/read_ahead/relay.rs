//! Process between the importer and skopeo: passes their messages on, and answers requests for blobs that it fetched
//! before.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io::{BufRead as _, BufReader};
use std::os::fd::{AsFd as _, OwnedFd};
use std::process::ExitCode;
use std::sync::Arc;
use std::thread::JoinHandle;

use anyhow::{Context as _, ensure};
use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use serde_json::Value;

use super::blob_file::BlobFile;
use super::blob_queue::{BlobQueue, enlarge};
use super::message::{MessageSocket, ProxyAnswer, ProxyMessage, ProxyRequest};
use super::skopeo_proxy::SkopeoProxy;
use super::{FetchPlan, LentFiles, RELAY};

/// First number of the pipes from here. Skopeo numbers its own by file descriptor.
const FIRST_PIPE: u32 = 1 << 24;

/// Serve the importer at standard input until it hangs up or shuts skopeo down. The arguments are those of
/// [`LentFiles::arguments`], followed by skopeo's command.
pub(crate) fn run(arguments: &[OsString]) -> anyhow::Result<ExitCode> {
    let [lender, plan, counts, directory, command @ ..] = arguments else {
        anyhow::bail!("usage: {RELAY} PROCESS PLAN COUNTS DIRECTORY COMMAND...");
    };
    let lender: i32 = lender.to_str().and_then(|text| text.parse().ok()).context("not a process number")?;
    // A transfer that stalls keeps this process busy: it must not outlive the import.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    ensure!(
        getppid().is_some_and(|parent| parent.as_raw_nonzero().get() == lender),
        "the importer has ended"
    );
    let files = LentFiles::open(lender, [plan, counts, directory])
        .inspect_err(|error| eprintln!("layers are fetched one after the other: {error:#}"));
    let importer = MessageSocket::new(std::io::stdin().as_fd().try_clone_to_owned()?);
    let mut relay = ProxyRelay { files: files.ok(), queue: None, pipes: HashMap::new(), next: FIRST_PIPE };
    match SkopeoProxy::start(command) {
        Ok(skopeo) => relay.serve(&importer, &Arc::new(skopeo)),
        Err(error) => refuse(&importer, &error),
    }
}

/// Answer each request with the error.
fn refuse(importer: &MessageSocket, error: &str) -> anyhow::Result<ExitCode> {
    while importer.receive()?.is_some() {
        importer.send(&ProxyMessage::encode(&ProxyAnswer::of(Err(error.to_owned())), None)?)?;
    }
    Ok(ExitCode::FAILURE)
}

/// State of the conversation.
#[derive(Debug)]
struct ProxyRelay {
    /// Files that the importer lends, until the first request for a blob.
    files: Option<LentFiles>,
    queue: Option<Arc<BlobQueue>>,
    /// Threads that fill the importer's pipes, by the pipes' numbers; `None` for a complete file in place of a pipe.
    pipes: HashMap<u32, Option<JoinHandle<Result<(), String>>>>,
    next: u32,
}

impl ProxyRelay {
    fn serve(&mut self, importer: &MessageSocket, skopeo: &Arc<SkopeoProxy>) -> anyhow::Result<ExitCode> {
        while let Some(message) = importer.receive()? {
            let request: ProxyRequest =
                serde_json::from_slice(&message.body).context("decoding a request")?;
            let answer = match (request.method.as_str(), request.args.as_slice()) {
                ("Shutdown", _) => {
                    let (status, printed) = skopeo.shut_down(&message)?;
                    eprint!("{printed}");
                    return Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE });
                }
                ("GetBlob", [image, Value::String(digest), ..]) => match self.find(skopeo, image, digest)? {
                    Some(blob) => Some(self.hand_out(blob)?),
                    None => None,
                },
                ("FinishPipe", [number]) => self.finish(number).map(answer).transpose()?,
                _ => None,
            };
            let answer = match answer {
                Some(answer) => answer,
                None => skopeo.exchange(&message).or_else(|error| self::answer(Err(error)))?,
            };
            importer.send(&answer)?;
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Find a blob among those that are fetched ahead. The first request starts it: the importer then knows which
    /// layers it needs.
    fn find(
        &mut self,
        skopeo: &Arc<SkopeoProxy>,
        image: &Value,
        digest: &str,
    ) -> anyhow::Result<Option<Arc<BlobFile>>> {
        if let Some(files) = self.files.take() {
            let mut line = String::new();
            BufReader::new(files.plan).read_line(&mut line).context("reading the list of layers")?;
            let plan: FetchPlan = serde_json::from_str(&line).context("decoding the list of layers")?;
            let skopeo = Arc::clone(skopeo);
            self.queue = Some(BlobQueue::start(skopeo, image.clone(), plan, files.directory, files.counts));
        }
        Ok(self.queue.as_ref().and_then(|queue| queue.take(digest)))
    }

    /// Answer with the file of a complete blob, which saves copying it, or with a pipe that is filled with the blob.
    /// The file is freed when no process has it open any more.
    fn hand_out(&mut self, blob: Arc<BlobFile>) -> anyhow::Result<ProxyMessage> {
        let (number, size) = (self.next, blob.blob.size);
        self.next += 1;
        let (reader, thread) = if let Some(file) = blob.reopen() {
            (OwnedFd::from(file), None)
        } else {
            let (reader, mut writer) = std::io::pipe().context("creating a pipe")?;
            enlarge(&reader);
            (reader.into(), Some(std::thread::spawn(move || blob.copy_to(&mut writer))))
        };
        self.pipes.insert(number, thread);
        let answer = ProxyAnswer { value: size.into(), pipeid: number, ..ProxyAnswer::of(Ok(())) };
        Ok(ProxyMessage::encode(&answer, Some(reader))?)
    }

    /// Wait until one of the pipes from here is filled; `None` for a pipe of skopeo.
    fn finish(&mut self, number: &Value) -> Option<Result<(), String>> {
        let number = u32::try_from(number.as_u64()?).ok()?;
        let Some(filled) = self.pipes.remove(&number)? else { return Some(Ok(())) };
        Some(filled.join().unwrap_or_else(|_| Err("the thread that fills the pipe ended early".to_owned())))
    }
}

fn answer(outcome: Result<(), String>) -> std::io::Result<ProxyMessage> {
    ProxyMessage::encode(&ProxyAnswer::of(outcome), None)
}
