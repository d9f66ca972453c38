// SPDX-License-Identifier: MIT OR Apache-2.0
//! A small HTTP/1.0 server with a thread per connection. A slow client holds a thread until it times out,
//! or until a newer client needs its place.

use std::collections::VecDeque;
use std::io;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle, sleep};
use std::time::Duration;

/// Connections at a time.
const MOST: usize = 16;
/// How long a client may send nothing, or take nothing.
pub const TIMEOUT: Duration = Duration::from_secs(5);
const STACK: usize = 256 << 10;
/// Bytes of a request.
const MAX_HEAD: u64 = 8 << 10;

/// The media type of metrics: Prometheus' text format.
const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";
const PAGE: &str = "<!DOCTYPE html>\n<html lang=\"en\"><title>nvme-deep</title>\n\
    <h1>nvme-deep</h1>\n<p><a href=\"/metrics\">Metrics</a></p>\n</html>\n";

/// The metrics as text; `None` if they cannot be read now.
pub type Answer = dyn Fn() -> Option<Arc<str>> + Send + Sync;

struct Connection {
    stream: TcpStream,
    thread: JoinHandle<()>,
}

/// Starts the server. Its threads last as long as the process.
pub fn start(listener: TcpListener, answer: Arc<Answer>, timeout: Duration) -> io::Result<()> {
    let accept = move || {
        let mut open: VecDeque<Connection> = VecDeque::new();
        for stream in listener.incoming() {
            open.retain(|connection| !connection.thread.is_finished());
            if open.len() >= MOST
                && let Some(oldest) = open.pop_front()
            {
                let _ = oldest.stream.shutdown(Shutdown::Both);
                let _ = oldest.thread.join();
            }
            match stream.and_then(|stream| begin(stream, &answer, timeout)) {
                Ok(connection) => open.push_back(connection),
                // no file descriptor or thread is left: wait until some are
                Err(_) => sleep(Duration::from_millis(50)),
            }
        }
    };
    Builder::new().spawn(accept).map(drop)
}

fn begin(stream: TcpStream, answer: &Arc<Answer>, timeout: Duration) -> io::Result<Connection> {
    stream.set_read_timeout(Some(timeout))?;
    stream.set_write_timeout(Some(timeout))?;
    let (mut client, answer) = (stream.try_clone()?, Arc::clone(answer));
    let thread = Builder::new().stack_size(STACK).spawn(move || {
        // the client may go away at any time
        let _ = respond(&client, &*answer).and_then(|text| client.write_all(text.as_bytes()));
        let _ = client.shutdown(Shutdown::Both);
    })?;
    Ok(Connection { stream, thread })
}

/// Reads a request, and returns the response.
fn respond(client: &TcpStream, answer: &Answer) -> io::Result<String> {
    let mut lines = BufReader::new(client.take(MAX_HEAD)).lines();
    let request = lines.next().transpose()?.unwrap_or_default();
    let mut is_whole = false;
    for line in lines {
        is_whole = line?.is_empty();
        if is_whole {
            break;
        }
    }
    let words: Vec<&str> = request.split(' ').collect();
    let (method, target) = match words[..] {
        [method, target, version] if is_whole && version.starts_with("HTTP/1.") => (method, target),
        _ => ("", ""),
    };
    let path = target.split('?').next().unwrap_or_default();
    let error = |status: &'static str| (status, TEXT, format!("{status}\n").into());
    let (status, kind, body): (_, _, Arc<str>) = match (method, path) {
        ("", _) => error("400 Bad Request"),
        ("GET" | "HEAD", "/metrics") => match answer() {
            Some(text) => ("200 OK", METRICS, text),
            None => error("503 Service Unavailable"),
        },
        ("GET" | "HEAD", "/") => ("200 OK", "text/html; charset=utf-8", PAGE.into()),
        ("GET" | "HEAD", _) => error("404 Not Found"),
        _ => error("405 Method Not Allowed"),
    };
    let length = body.len();
    let body = if method == "HEAD" { "" } else { &*body };
    Ok(format!(
        "HTTP/1.0 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{body}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    /// No test waits for this.
    const LONG: Duration = Duration::from_secs(3600);
    const GET: &[u8] = b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n";

    fn server(answer: Arc<Answer>, timeout: Duration) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        start(listener, answer, timeout).unwrap();
        address
    }

    fn named() -> Arc<Answer> {
        Arc::new(|| Some("Text\n".into()))
    }

    /// A client that has sent these bytes.
    fn client(address: SocketAddr, bytes: &[u8]) -> TcpStream {
        let mut stream = TcpStream::connect(address).unwrap();
        // the server may have closed already
        let _ = stream.write_all(bytes);
        stream
    }

    /// Everything up to the end of the connection.
    fn rest(mut stream: TcpStream) -> String {
        let mut bytes = vec![];
        // a connection that is reset ends, too
        let _ = stream.read_to_end(&mut bytes);
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn each_request_has_its_response() {
        let address = server(named(), LONG);
        let too_long = format!("GET / HTTP/1.1\r\nA: {}", "a".repeat(MAX_HEAD as usize));
        for (request, status, body) in [
            ("GET /metrics HTTP/1.1\r\n", "200 OK", "Text\n"),
            ("GET /metrics?a=b HTTP/1.0\r\n", "200 OK", "Text\n"),
            ("HEAD /metrics HTTP/1.1\r\n", "200 OK", ""),
            ("GET / HTTP/1.1\r\n", "200 OK", PAGE),
            ("GET /other HTTP/1.1\r\n", "404 Not Found", "404 Not Found\n"),
            ("POST /metrics HTTP/1.1\r\n", "405 Method Not Allowed", "405 Method Not Allowed\n"),
            ("GET /metrics HTTP/2.0\r\n", "400 Bad Request", "400 Bad Request\n"),
            ("EHLO example\r\n", "400 Bad Request", "400 Bad Request\n"),
            (&too_long[..MAX_HEAD as usize - 2], "400 Bad Request", "400 Bad Request\n"),
        ] {
            let said = rest(client(address, format!("{request}\r\n").as_bytes()));
            let (head, text) = said.split_once("\r\n\r\n").unwrap();
            assert!(head.starts_with(&format!("HTTP/1.0 {status}\r\n")), "{request}: {said}");
            assert_eq!(text, body, "{request}");
            let length = if request.starts_with("HEAD") { 5 } else { text.len() };
            assert!(head.contains(&format!("\r\nContent-Length: {length}\r\n")), "{said}");
        }
        let said = rest(client(server(Arc::new(|| None), LONG), GET));
        assert!(said.starts_with("HTTP/1.0 503 "), "{said}");
    }

    /// The timeout is an hour: a scrape that waits for a slow client never ends.
    #[test]
    fn slow_clients_neither_keep_scrapes_out_nor_delay_them() {
        // more than the buffers of a connection hold
        let large: Arc<str> = format!("{}end", "a".repeat(16 << 20)).into();
        let answer: Arc<Answer> = Arc::new(move || Some(Arc::clone(&large)));
        let address = server(answer, LONG);
        // sends nothing; stops within a line; within the head; does not read the response
        let slow = [&b""[..], b"GET /met", b"GET /metrics HTTP/1.1\r\n", GET];
        let mut held = vec![];
        let mut scrapes = 0;
        for n in 0..5 * MOST {
            held.push(client(address, slow[n % slow.len()]));
            if n % 4 == 3 {
                scrapes += usize::from(rest(client(address, GET)).ends_with("end"));
            }
        }
        assert_eq!(scrapes, 5 * MOST / 4);
        // several at a time, while the last slow clients are still there
        let scrape = || thread::spawn(move || rest(client(address, GET)).ends_with("end"));
        let scrapers: Vec<_> = (0..MOST / 2).map(|_| scrape()).collect();
        assert!(scrapers.into_iter().all(|scraper| scraper.join().unwrap()));
        // the oldest were closed, the newest were not
        assert_eq!(rest(held.remove(0)), "");
        let newest = held.pop().unwrap();
        assert_eq!(newest.peek(&mut [0]).unwrap(), 1, "the response waits");
    }

    #[test]
    fn a_client_that_is_silent_times_out() {
        let address = server(named(), Duration::from_millis(100));
        for bytes in [&b""[..], b"GET /metrics HTTP/1.1\r\n"] {
            assert_eq!(rest(client(address, bytes)), "");
        }
    }

    #[test]
    fn the_number_of_requests_at_a_time_is_bounded() {
        let (now, most) = (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
        let highest = Arc::clone(&most);
        let slow: Arc<Answer> = Arc::new(move || {
            let others = now.fetch_add(1, Ordering::SeqCst);
            highest.fetch_max(others + 1, Ordering::SeqCst);
            sleep(Duration::from_millis(20));
            now.fetch_sub(1, Ordering::SeqCst);
            Some("x".into())
        });
        let address = server(slow, LONG);
        let ask = || thread::spawn(move || rest(client(address, GET)));
        let clients: Vec<_> = (0..3 * MOST).map(|_| ask()).collect();
        clients.into_iter().for_each(|client| drop(client.join().unwrap()));
        let most = most.load(Ordering::SeqCst);
        assert!((1..=MOST).contains(&most), "{most}");
        assert!(rest(client(address, GET)).ends_with('x'));
    }
}
