//! The kubelet's own word on its health, asked on this host's loopback.

use std::net::{Ipv4Addr, SocketAddr};

/// As long as a kubelet's own probes wait for an answer, and some for a busy host.
const ANSWER: u64 = 5;

/// Asks `/healthz` on `port`; says what is wrong where it is not well.
pub fn ask(port: u16) -> Result<(), String> {
    let url = format!("http://{}/healthz", SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    let request = minreq::get(&url).with_timeout(ANSWER).with_max_redirects(0);
    match request.send_lazy() {
        Ok(response) if response.status_code == 200 => Ok(()),
        Ok(response) => Err(format!("{url} answers {}", response.status_code)),
        Err(minreq::Error::IoError(error)) => Err(format!("{url}: {error}")),
        Err(error) => Err(format!("{url} gives no proper answer: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    use super::*;

    fn answered(answer: &'static str) -> Result<(), String> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 1024]);
            stream.write_all(answer.as_bytes()).unwrap();
        });
        let asked = ask(port);
        server.join().unwrap();
        asked
    }

    #[test]
    fn only_200_is_well() {
        assert_eq!(answered("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"), Ok(()));
        let ill = answered("HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n").unwrap_err();
        assert!(ill.ends_with("/healthz answers 500"), "{ill}");
        assert!(answered("nonsense\r\n\r\n").is_err());
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
        assert!(ask(free).unwrap_err().contains("refused"));
    }
}
