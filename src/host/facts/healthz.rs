//! Health check of the kubelet: its `/healthz` endpoint on the loopback interface.

use std::net::{Ipv4Addr, SocketAddr};

/// Timeout in seconds: longer than that of the kubelet's own probes, for a busy host.
const ANSWER: u64 = 5;

/// Request `/healthz` on `port`. The error text says how the kubelet is unhealthy.
pub fn check(port: u16) -> Result<(), String> {
    let url = format!("http://{}/healthz", SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    let request = minreq::get(&url).with_timeout(ANSWER).with_max_redirects(0);
    match request.send_lazy() {
        Ok(response) if response.status_code == 200 => Ok(()),
        Ok(response) => Err(format!("{url} answers {}", response.status_code)),
        Err(minreq::Error::IoError(error)) => Err(format!("{url}: {error}")),
        Err(error) => Err(format!("{url}: invalid HTTP response: {error}")),
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
        let asked = check(port);
        server.join().unwrap();
        asked
    }

    #[test]
    fn only_status_200_is_healthy() {
        assert_eq!(answered("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"), Ok(()));
        let ill = answered("HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n").unwrap_err();
        assert!(ill.ends_with("/healthz answers 500"), "{ill}");
        assert!(answered("nonsense\r\n\r\n").is_err());
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
        assert!(check(free).unwrap_err().contains("refused"));
    }
}
