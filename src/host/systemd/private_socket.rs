//! Peer-to-peer D-Bus on systemd's private socket.
//!
//! zbus builds and parses the messages, but its connection cannot be used: systemd sends its well-known name
//! in a field for unique names, and zbus panics on that.

use std::io::{ErrorKind, IoSlice, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use serde::Serialize;
use serde::de::DeserializeOwned;
use zbus::message::Message;
use zbus::zvariant::serialized::{Context, Data};
use zbus::zvariant::{DynamicType, Endian, OwnedValue, Type};

const PATH: &str = "/org/freedesktop/systemd1";
/// Usual deadline of a call. Long, because systemd may be starting many units at that time.
pub(crate) const ANSWER: Duration = Duration::from_secs(25);
/// Size of a header's fixed part, including the length of its fields.
const FIXED: usize = 16;
/// Maximum message length of the D-Bus specification.
const LONGEST: usize = 128 << 20;
/// Descriptors that a call can pass: those of standard output and standard error.
const PASSED: usize = 2;
const METHOD_RETURN: u8 = 2;
const ERROR: u8 = 3;
const SIGNAL: u8 = 4;
const MEMBER: u8 = 3;
const ERROR_NAME: u8 = 4;
const REPLY_SERIAL: u8 = 5;

/// Failure of a call through the private socket.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PeerError {
    #[error("{0}")]
    Socket(#[source] std::io::Error),
    #[error("no answer in time")]
    TimedOut,
    /// Authentication failed; with the server's reply.
    #[error("authentication failed: {0}")]
    AuthenticationFailed(String),
    /// The reply violates the D-Bus protocol.
    #[error("invalid D-Bus message: {0}")]
    ProtocolError(String),
    /// systemd replied with an error.
    #[error("{name}: {text}")]
    Answered {
        /// D-Bus name of the error.
        name: String,
        text: String,
    },
}

/// Reply to a method call.
#[derive(Debug)]
pub(crate) struct SocketReply {
    body: Vec<u8>,
    endian: Endian,
}

/// Message from systemd.
#[derive(Debug)]
struct IncomingMessage {
    kind: u8,
    fields: Vec<(u8, OwnedValue)>,
    content: SocketReply,
}

impl IncomingMessage {
    fn field<'a, T: TryFrom<&'a OwnedValue>>(&'a self, code: u8) -> Option<T> {
        let (_, value) = self.fields.iter().find(|(field, _)| *field == code)?;
        T::try_from(value).ok()
    }
}

/// Authenticated connection to systemd.
#[derive(Debug)]
pub(crate) struct PrivateSocket {
    stream: UnixStream,
    answer: Duration,
}

impl PrivateSocket {
    /// Connect and authenticate as the user of this process. `answer` is the deadline for this and for each
    /// call.
    pub(crate) fn connect(socket: &Path, answer: Duration) -> Result<Self, PeerError> {
        let stream = UnixStream::connect(socket).map_err(PeerError::Socket)?;
        stream.set_write_timeout(Some(answer)).map_err(PeerError::Socket)?;
        let mut peer = Self { stream, answer };
        let user = rustix::process::geteuid().as_raw().to_string();
        let user: String = user.bytes().map(|digit| format!("{digit:02x}")).collect();
        // Send all three lines at once, and no message before both replies: systemd does not process a
        // message that it reads together with `BEGIN` until the next one arrives.
        peer.send(format!("\0AUTH EXTERNAL {user}\r\nNEGOTIATE_UNIX_FD\r\nBEGIN\r\n").as_bytes())?;
        let end = Instant::now() + answer;
        let line = peer.line(end)?;
        if !line.starts_with("OK ") {
            return Err(PeerError::AuthenticationFailed(line));
        }
        // Only a call that passes descriptors fails without the right to.
        peer.line(end)?;
        Ok(peer)
    }

    /// Call a method of the manager object and wait for the reply.
    pub(crate) fn call<B: Serialize + DynamicType>(
        &mut self,
        interface: &str,
        method: &str,
        body: &B,
    ) -> Result<SocketReply, PeerError> {
        self.call_at(PATH, interface, method, body)
    }

    /// Call a method of the object at `path` and wait for the reply.
    pub(crate) fn call_at<B: Serialize + DynamicType>(
        &mut self,
        path: &str,
        interface: &str,
        method: &str,
        body: &B,
    ) -> Result<SocketReply, PeerError> {
        let built = Message::method_call(path, method).and_then(|call| call.interface(interface));
        let call = built.and_then(|call| call.build(body)).map_err(nonsense)?;
        let rest = self.send_descriptors(call.data())?;
        self.send(call.data().get(rest..).unwrap_or_default())?;
        let serial = call.primary_header().serial_num().get();
        let end = Instant::now() + self.answer;
        loop {
            let message = self.message(end)?;
            if message.field(REPLY_SERIAL) != Some(serial) {
                continue;
            }
            match message.kind {
                METHOD_RETURN => return Ok(message.content),
                ERROR => {
                    let name = message.field::<&str>(ERROR_NAME).unwrap_or_default().to_owned();
                    // The text of an error is optional.
                    return Err(PeerError::Answered {
                        name,
                        text: message.content.body().unwrap_or_default(),
                    });
                }
                _ => {}
            }
        }
    }

    /// Wait for a signal with the name `member` whose body satisfies `is_awaited`. systemd sends its signals to every peer on
    /// this socket, without a subscription; those that arrive during a call are lost.
    pub(crate) fn wait_for<T: DeserializeOwned + Type>(
        &mut self,
        member: &str,
        end: Instant,
        is_awaited: impl Fn(&T) -> bool,
    ) -> Result<T, PeerError> {
        loop {
            let message = self.message(end)?;
            if message.kind == SIGNAL && message.field(MEMBER) == Some(member) {
                let body = message.content.body()?;
                if is_awaited(&body) {
                    return Ok(body);
                }
            }
        }
    }

    fn message(&mut self, end: Instant) -> Result<IncomingMessage, PeerError> {
        type Header = (u8, u8, u8, u8, u32, u32, Vec<(u8, OwnedValue)>);
        let mut header = self.bytes(FIXED, end)?;
        let endian = if header.first() == Some(&b'l') { Endian::Little } else { Endian::Big };
        let lengths = [4, 12].map(|at| header.get(at..at + 4).unwrap_or_default().to_vec());
        let [body, fields] = lengths.map(|length| parsed::<u32>(length, endian));
        let (body, fields) = (as_length(body?)?, as_length(fields?)?);
        // The header is padded to a multiple of 8 bytes.
        header.extend(self.bytes(fields.next_multiple_of(8), end)?);
        let body = self.bytes(body, end)?;
        let (_, kind, _, _, _, _, fields) = parsed::<Header>(header, endian)?;
        Ok(IncomingMessage { kind, fields, content: SocketReply { body, endian } })
    }

    /// Send the beginning of a message together with its descriptors, and return how much was sent; 0 if it has none.
    fn send_descriptors(&mut self, message: &Data<'_, '_>) -> Result<usize, PeerError> {
        if message.fds().is_empty() {
            return Ok(0);
        }
        let descriptors: Vec<_> = message.fds().iter().map(AsFd::as_fd).collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(PASSED))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !control.push(SendAncillaryMessage::ScmRights(&descriptors)) {
            return Err(PeerError::ProtocolError(format!("{} descriptors are too many", descriptors.len())));
        }
        sendmsg(&self.stream, &[IoSlice::new(message)], &mut control, SendFlags::NOSIGNAL)
            .map_err(|error| in_time(error.into()))
    }

    fn send(&mut self, bytes: &[u8]) -> Result<(), PeerError> {
        self.stream.write_all(bytes).map_err(in_time)
    }

    /// Read a line of the authentication dialog, without the line end.
    fn line(&mut self, end: Instant) -> Result<String, PeerError> {
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            line.extend(self.bytes(1, end)?);
            if line.len() > 1024 {
                return Err(PeerError::ProtocolError("authentication reply without a line end".into()));
            }
        }
        Ok(String::from_utf8_lossy(&line).trim_end().to_owned())
    }

    fn bytes(&mut self, length: usize, end: Instant) -> Result<Vec<u8>, PeerError> {
        let mut bytes = vec![0; length];
        let mut rest = bytes.as_mut_slice();
        while !rest.is_empty() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(PeerError::TimedOut);
            }
            self.stream.set_read_timeout(Some(left)).map_err(PeerError::Socket)?;
            match self.stream.read(rest) {
                Ok(0) => return Err(PeerError::Socket(ErrorKind::UnexpectedEof.into())),
                Ok(read) => rest = rest.split_at_mut(read).1,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(in_time(error)),
            }
        }
        Ok(bytes)
    }
}

impl SocketReply {
    /// Parse the reply's body.
    pub(crate) fn body<T: DeserializeOwned + Type>(self) -> Result<T, PeerError> {
        parsed(self.body, self.endian)
    }

    /// Parse a body that is a variant holding a `T`.
    pub(crate) fn variant<T>(self) -> Result<T, PeerError>
    where
        T: TryFrom<OwnedValue>,
        T::Error: std::fmt::Display,
    {
        T::try_from(parsed::<OwnedValue>(self.body, self.endian)?).map_err(nonsense)
    }
}

fn parsed<T: DeserializeOwned + Type>(bytes: Vec<u8>, endian: Endian) -> Result<T, PeerError> {
    let bytes = Data::new(bytes, Context::new_dbus(endian, 0));
    bytes.deserialize().map(|(value, _)| value).map_err(nonsense)
}

fn as_length(length: u32) -> Result<usize, PeerError> {
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    if length > LONGEST {
        Err(PeerError::ProtocolError(format!("message of {length} bytes is too long")))
    } else {
        Ok(length)
    }
}

fn nonsense(error: impl std::fmt::Display) -> PeerError {
    PeerError::ProtocolError(error.to_string())
}

fn in_time(error: std::io::Error) -> PeerError {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => PeerError::TimedOut,
        _ => PeerError::Socket(error),
    }
}
