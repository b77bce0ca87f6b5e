//! Messages of skopeo's image proxy: one JSON document each on a socket of type `SOCK_SEQPACKET`, some with a pipe
//! for the bytes of a blob.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};

use rustix::io::retry_on_intr;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Maximum size of a message, in bytes; the same in skopeo.
const MAX_MESSAGE: usize = 32 * 1024;

/// Request of the proxy's client.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ProxyRequest {
    pub(super) method: String,
    #[serde(default)]
    pub(super) args: Vec<Value>,
}

/// Answer of the proxy to one request.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ProxyAnswer {
    pub(super) success: bool,
    pub(super) value: Value,
    /// Number of the pipe that comes with the answer; 0 if none does.
    pub(super) pipeid: u32,
    pub(super) error: String,
}

impl ProxyAnswer {
    pub(super) fn of(outcome: Result<(), String>) -> Self {
        let success = outcome.is_ok();
        Self { success, value: Value::Null, pipeid: 0, error: outcome.err().unwrap_or_default() }
    }
}

/// Undecoded message, and the pipe that comes with it.
#[derive(Debug)]
pub(super) struct ProxyMessage {
    pub(super) body: Vec<u8>,
    pub(super) pipe: Option<OwnedFd>,
}

impl ProxyMessage {
    pub(super) fn encode(document: &impl Serialize, pipe: Option<OwnedFd>) -> std::io::Result<Self> {
        Ok(Self { body: serde_json::to_vec(document)?, pipe })
    }
}

/// One end of the socket between a proxy and its client.
#[derive(Debug)]
pub(super) struct MessageSocket(OwnedFd);

impl MessageSocket {
    pub(super) fn new(socket: OwnedFd) -> Self {
        Self(socket)
    }

    pub(super) fn send(&self, message: &ProxyMessage) -> std::io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let pipes: Vec<_> = message.pipe.iter().map(|pipe| pipe.as_fd()).collect();
        if !pipes.is_empty() {
            ancillary.push(SendAncillaryMessage::ScmRights(&pipes));
        }
        let body = [IoSlice::new(&message.body)];
        retry_on_intr(|| sendmsg(&self.0, &body, &mut ancillary, SendFlags::NOSIGNAL))?;
        Ok(())
    }

    /// Receive the next message; `None` after the other end is closed.
    pub(super) fn receive(&self) -> std::io::Result<Option<ProxyMessage>> {
        let mut body = vec![0; MAX_MESSAGE];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let received = retry_on_intr(|| {
            recvmsg(&self.0, &mut [IoSliceMut::new(&mut body)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)
        })?;
        let pipes = ancillary.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(pipes) => Some(pipes),
            _ => None,
        });
        let pipe = pipes.flatten().next();
        body.truncate(received.bytes);
        Ok((!body.is_empty()).then_some(ProxyMessage { body, pipe }))
    }
}
