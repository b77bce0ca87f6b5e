//! Stand-in for systemd's private socket, which tells how often the system was soft-rebooted, or that the kubelet is
//! enabled.

use std::fs;
use std::path::Path;
use std::thread::JoinHandle;
use std::time::Duration;

use futures_lite::StreamExt as _;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::oneshot;
use zbus::message::Type;
use zbus::zvariant::Value;
use zbus::{Guid, MessageStream, connection};

use crate::booted::host::Host;

#[derive(Debug, Clone, Copy)]
struct SystemdAnswers {
    soft_reboots: u32,
    /// Uptime at the last soft reboot.
    last: Duration,
    kubelet_is_enabled: bool,
}

/// Socket that answers until this value is dropped.
#[derive(Debug)]
pub struct FakePid1 {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl FakePid1 {
    /// Listen at `socket`, as after this number of soft reboots, the last of which happened at this uptime.
    pub fn start(socket: &Path, soft_reboots: u32, last: Duration) -> Self {
        Self::answering(socket, SystemdAnswers { soft_reboots, last, kubelet_is_enabled: false })
    }

    /// Enable the kubelet of a host, with its healthz at `port`.
    pub fn enabling_kubelet(host: &Host, port: u16) -> Self {
        fs::create_dir_all(host.path("run/systemd/system")).unwrap();
        let fragment = format!("[boot-check]\nkubelet-port = {port}\n");
        host.write_etc("flameholder/config.d/90-kubelet.toml", &fragment);
        let answers = SystemdAnswers { soft_reboots: 0, last: Duration::ZERO, kubelet_is_enabled: true };
        Self::answering(&host.path("run/systemd/private"), answers)
    }

    fn answering(socket: &Path, answers: SystemdAnswers) -> Self {
        fs::create_dir_all(socket.parent().unwrap()).unwrap();
        // That of the time before the soft reboot.
        drop(fs::remove_file(socket));
        let listener = std::os::unix::net::UnixListener::bind(socket).unwrap();
        listener.set_nonblocking(true).unwrap();
        let (stop, mut stopped) = oneshot::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = UnixListener::from_std(listener).unwrap();
                loop {
                    tokio::select! {
                        accepted = listener.accept() => {
                            // A client that goes away ends its connection only.
                            drop(answer(accepted.unwrap().0, answers).await);
                        }
                        _ = &mut stopped => return,
                    }
                }
            });
        });
        Self { stop: Some(stop), thread: Some(thread) }
    }
}

impl Drop for FakePid1 {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            stop.send(()).ok();
        }
        self.thread.take().unwrap().join().unwrap();
    }
}

/// Answer the calls of one client; properties that are not known here get an error, as from an older systemd.
async fn answer(client: UnixStream, answers: SystemdAnswers) -> zbus::Result<()> {
    let SystemdAnswers { soft_reboots, last, kubelet_is_enabled } = answers;
    let guid = Guid::generate();
    let connection = connection::Builder::unix_stream(client).server(guid)?.p2p().build().await?;
    let mut messages = MessageStream::from(&connection);
    while let Some(Ok(message)) = messages.next().await {
        if message.message_type() != Type::MethodCall {
            continue;
        }
        let header = message.header();
        if kubelet_is_enabled && header.member().is_some_and(|member| member == "GetUnitFileState") {
            connection.reply(&header, &"enabled").await?;
            continue;
        }
        let asked: Option<(String, String)> = message.body().deserialize().ok();
        let value = match asked.as_ref().map(|(_, property)| property.as_str()) {
            Some("SoftRebootsCount") => Value::from(soft_reboots),
            Some("UserspaceTimestampMonotonic") => Value::from(u64::try_from(last.as_micros()).unwrap()),
            _ => {
                let unknown = "org.freedesktop.DBus.Error.UnknownProperty";
                connection.reply_error(&header, unknown, &"unknown").await?;
                continue;
            }
        };
        connection.reply(&header, &value).await?;
    }
    Ok(())
}
