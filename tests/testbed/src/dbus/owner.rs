//! Common part of the fake services: a thread that owns a name on a bus and answers calls.

use std::sync::mpsc;
use std::thread::JoinHandle;

use futures_lite::StreamExt as _;
use zbus::message::{Message, Type};
use zbus::{Connection, MessageStream};

/// Handler of the method calls to a service.
pub trait CallHandler {
    /// Answer a call; `None` ends the service.
    fn answer(&mut self, message: &Message) -> impl Future<Output = Option<()>>;
}

/// Service on a bus that runs until the bus ends or this value is dropped.
#[derive(Debug)]
pub struct Owner {
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Owner {
    /// Start the service, and return once it owns the name.
    pub fn start<A: CallHandler>(
        address: &str,
        name: &'static str,
        service: impl FnOnce(Connection) -> A + Send + 'static,
    ) -> Self {
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let (ready, is_ready) = mpsc::channel();
        let address = address.to_owned();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let connection = connect(&address).await;
                let messages = MessageStream::from(&connection);
                connection.request_name(name).await.unwrap();
                let mut service = service(connection);
                ready.send(()).unwrap();
                tokio::select! {
                    () = serve(&mut service, messages) => {}
                    _ = stopped => {}
                }
            });
        });
        is_ready.recv().unwrap();
        Self { stop: Some(stop), thread: Some(thread) }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            // The service may have ended before, with its bus.
            stop.send(()).ok();
        }
        self.thread.take().unwrap().join().unwrap();
    }
}

async fn serve(service: &mut impl CallHandler, mut messages: MessageStream) {
    while let Some(Ok(message)) = messages.next().await {
        if message.header().message_type() == Type::MethodCall && service.answer(&message).await.is_none() {
            return;
        }
    }
}

pub async fn connect(address: &str) -> Connection {
    zbus::connection::Builder::address(address).unwrap().build().await.unwrap()
}
