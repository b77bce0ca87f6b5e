//! Socket to a proxy of skopeo, whose process the caller owns and can end: ostree-ext's client waits for an
//! answer without a deadline.

use std::os::fd::OwnedFd;

use anyhow::{Context as _, ensure};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use serde::Deserialize;
use serde_json::json;
use tokio::net::UnixDatagram;

/// Maximum size of a message, in bytes; the same in skopeo.
const MAX_MESSAGE: usize = 32 * 1024;

/// Our end of the socket. Its type is `SOCK_SEQPACKET`, on which the calls of a datagram socket work: one
/// message per call, and an empty one at the end.
pub(crate) struct ProxySocket(UnixDatagram);

/// Answer of the proxy, without its value.
#[derive(Deserialize)]
struct ProxyReply {
    success: bool,
    error: String,
}

impl ProxySocket {
    /// Create both ends; the second one becomes skopeo's standard input.
    pub(crate) fn pair() -> anyhow::Result<(Self, OwnedFd)> {
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        rustix::io::ioctl_fionbio(&ours, true)?;
        Ok((Self(UnixDatagram::from_std(ours.into())?), theirs))
    }

    /// Call a method. The inner result is the proxy's answer: success, or its error text.
    pub(crate) async fn call(
        &self,
        method: &str,
        arguments: &[String],
    ) -> anyhow::Result<Result<(), String>> {
        let doing = || format!("calling {method} of skopeo's proxy");
        let request = serde_json::to_vec(&json!({"method": method, "args": arguments}))?;
        self.0.send(&request).await.with_context(doing)?;
        let mut buffer = vec![0; MAX_MESSAGE];
        let length = self.0.recv(&mut buffer).await.with_context(doing)?;
        ensure!(length > 0, "{}: it closed the connection", doing());
        buffer.truncate(length);
        let reply: ProxyReply = serde_json::from_slice(&buffer).with_context(doing)?;
        Ok(if reply.success { Ok(()) } else { Err(reply.error) })
    }
}
