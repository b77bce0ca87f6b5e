//! Transport of the worker: one JSON document per line, requests on standard input, replies on standard
//! output.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsFd as _;

use anyhow::{Context as _, bail};
use flameholder::os::PullProgress;
use flameholder::os::protocol::{VERSION, WorkerGreeting, WorkerReply, WorkerRequest};
use ostree_ext::ostree;
use serde::Serialize;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines, Stdin};

/// Both directions of the pipe to the client.
pub(crate) struct WorkerPipe {
    requests: RequestReader,
    replies: ReplyWriter,
}

/// Reader of the client's requests.
pub(crate) struct RequestReader(Lines<BufReader<Stdin>>);

/// Writer of replies to the client.
pub(crate) struct ReplyWriter(File);

impl WorkerPipe {
    /// Reserve standard output for replies, and send the greeting. libostree and ostree-ext print to file
    /// descriptor 1 in places: it is redirected to standard error.
    pub(crate) fn take_over_stdio() -> anyhow::Result<Self> {
        let replies = std::io::stdout().as_fd().try_clone_to_owned()?;
        rustix::stdio::dup2_stdout(std::io::stderr())?;
        let mut replies = ReplyWriter(File::from(replies));
        replies.write(&WorkerGreeting {
            protocol: VERSION,
            ignores_special_files: ostree::check_version(2024, 2),
            prunes_boot_early: ostree::check_version(2023, 7),
            libostree: libostree_version(),
        })?;
        Ok(Self { requests: RequestReader(BufReader::new(tokio::io::stdin()).lines()), replies })
    }

    /// Split into the two directions.
    pub(crate) fn split(self) -> (RequestReader, ReplyWriter) {
        (self.requests, self.replies)
    }
}

/// Find the version of the libostree that is loaded, which only answers if it is as new as a version.
fn libostree_version() -> String {
    let mut versions = (2017..2100).rev().flat_map(|year| (1..40).rev().map(move |release| (year, release)));
    let loaded = versions.find(|(year, release)| ostree::check_version(*year, *release));
    loaded.map(|(year, release)| format!("{year}.{release}")).unwrap_or_default()
}

impl RequestReader {
    /// Read the next request; `None` after the client closed the pipe. Cancel safe.
    pub(crate) async fn next(&mut self) -> anyhow::Result<Option<WorkerRequest>> {
        let Some(line) = self.0.next_line().await.context("reading a request")? else {
            return Ok(None);
        };
        let request = serde_json::from_str(&line).context("decoding a request")?;
        Ok(Some(request))
    }

    /// Wait until the client closes the pipe; fail if it sends a request before the previous one is answered.
    pub(crate) async fn closed(&mut self) -> anyhow::Result<()> {
        match self.next().await? {
            None => Ok(()),
            Some(_) => bail!("a request came before the previous one was answered"),
        }
    }
}

impl ReplyWriter {
    /// Send a reply.
    pub(crate) fn answer(&mut self, reply: &WorkerReply) -> anyhow::Result<()> {
        self.write(reply).context("sending a reply")
    }

    /// Report the progress of an import.
    pub(crate) fn progress(&mut self, progress: PullProgress) {
        // A client that is gone is noticed at standard input.
        let _ = self.write(&WorkerReply::Progress(progress));
    }

    fn write(&mut self, message: &impl Serialize) -> std::io::Result<()> {
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        self.0.write_all(&line)
    }
}
