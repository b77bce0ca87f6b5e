//! Forward proxy of a network (`proxy-url` of a kubeconfig): opens the tunnels that `CONNECT` requests ask for.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// Proxy, which listens until the test's process ends.
pub struct ConnectProxy {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
}

impl ConnectProxy {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::<Mutex<Vec<String>>>::default();
        let noted = requests.clone();
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let noted = noted.clone();
                // A client that goes away ends its own tunnel.
                thread::spawn(move || drop(tunnel(client, &noted)));
            }
        });
        Self { address, requests }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Headers of the requests so far.
    pub fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

fn tunnel(mut client: TcpStream, requests: &Mutex<Vec<String>>) -> io::Result<()> {
    let mut header = Vec::new();
    // Byte by byte: what follows the header belongs to the tunnel.
    while !header.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        client.read_exact(&mut byte)?;
        header.extend(byte);
    }
    let header = String::from_utf8_lossy(&header).into_owned();
    let target = header.strip_prefix("CONNECT ").and_then(|rest| rest.split(' ').next()).map(str::to_owned);
    requests.lock().unwrap().push(header);
    let Some(target) = target else {
        return client.write_all(b"HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\n\r\n");
    };
    let server = TcpStream::connect(target)?;
    client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")?;
    let (from, to) = (server.try_clone()?, client.try_clone()?);
    thread::spawn(move || copy(from, to));
    copy(client, server)
}

/// Copy one direction of a tunnel, and end both when it ends.
fn copy(mut from: TcpStream, mut to: TcpStream) -> io::Result<()> {
    let copied = io::copy(&mut from, &mut to);
    // The other end may be gone already.
    drop(to.shutdown(Shutdown::Both));
    drop(from.shutdown(Shutdown::Both));
    copied.map(drop)
}
