//! The worker's end of the pipe.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsFd as _;

use anyhow::{Context as _, bail};
use flameholder::os::PullProgress;
use flameholder::os::protocol::{VERSION, WorkerGreeting, WorkerReply, WorkerRequest};
use ostree_ext::ostree;
use serde::Serialize;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines, Stdin};

/// Requests come in here, and replies go out.
pub(crate) struct WorkerPipe {
    requests: RequestReader,
    replies: ReplyWriter,
}

/// What the client sends.
pub(crate) struct RequestReader(Lines<BufReader<Stdin>>);

/// What the client reads.
pub(crate) struct ReplyWriter(File);

impl WorkerPipe {
    /// Keeps standard output for replies alone: libostree and ostree-ext print to file descriptor 1 now and then,
    /// which becomes standard error.
    pub(crate) fn take_over_stdio() -> anyhow::Result<Self> {
        let replies = std::io::stdout().as_fd().try_clone_to_owned()?;
        rustix::stdio::dup2_stdout(std::io::stderr())?;
        let mut replies = ReplyWriter(File::from(replies));
        let ignores_special_files = ostree::check_version(2024, 2);
        replies.write(&WorkerGreeting { protocol: VERSION, ignores_special_files })?;
        Ok(Self { requests: RequestReader(BufReader::new(tokio::io::stdin()).lines()), replies })
    }

    /// The two directions, each on its own.
    pub(crate) fn split(self) -> (RequestReader, ReplyWriter) {
        (self.requests, self.replies)
    }
}

impl RequestReader {
    /// The next request; `None` when the client has closed the pipe. Safe to abandon.
    pub(crate) async fn next(&mut self) -> anyhow::Result<Option<WorkerRequest>> {
        let Some(line) = self.0.next_line().await.context("reading a request")? else {
            return Ok(None);
        };
        let request = serde_json::from_str(&line).context("understanding a request")?;
        Ok(Some(request))
    }

    /// Returns when the client has closed the pipe, and fails when it asks something before its turn.
    pub(crate) async fn closed(&mut self) -> anyhow::Result<()> {
        match self.next().await? {
            None => Ok(()),
            Some(_) => bail!("a request came before the previous one was answered"),
        }
    }
}

impl ReplyWriter {
    /// Sends an answer.
    pub(crate) fn answer(&mut self, reply: &WorkerReply) -> anyhow::Result<()> {
        self.write(reply).context("sending a reply")
    }

    /// Tells how far an import is.
    pub(crate) fn progress(&mut self, progress: PullProgress) {
        // A client that does not listen any more is noticed at the other end of the wire.
        let _ = self.write(&WorkerReply::Progress(progress));
    }

    fn write(&mut self, message: &impl Serialize) -> std::io::Result<()> {
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        self.0.write_all(&line)
    }
}
