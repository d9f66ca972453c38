// SPDX-License-Identifier: MIT OR Apache-2.0
//! Clients of the server: ordinary, slow and hostile ones.

use super::*;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Limits that tests can wait for.
const SHORT: Limits = Limits {
    connections: 4,
    head: Duration::from_millis(300),
    write: Duration::from_millis(300),
    close: Duration::from_millis(300),
};

/// Limits that no test waits for.
const LONG: Limits = Limits {
    connections: 4,
    head: Duration::from_secs(60),
    write: Duration::from_secs(60),
    close: Duration::from_secs(60),
};

const GET: &[u8] = b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n";

fn server_with(limits: Limits, answer: Arc<Answer>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    start(listener, answer, limits).unwrap();
    address
}

fn server(limits: Limits) -> SocketAddr {
    server_with(limits, Arc::new(|format| Some(format!("{format:?}\n").into())))
}

fn connect(address: SocketAddr) -> TcpStream {
    TcpStream::connect(address).unwrap()
}

/// Everything up to the end of the connection.
fn rest(stream: &mut TcpStream) -> String {
    let mut bytes = vec![];
    // a connection that is reset ends, too
    let _ = stream.read_to_end(&mut bytes);
    String::from_utf8(bytes).unwrap()
}

/// The response to these bytes.
fn ask(address: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = connect(address);
    let _ = stream.write_all(bytes);
    rest(&mut stream)
}

#[test]
fn each_path_and_method_has_its_status() {
    let address = server(LONG);
    for (request, status, body) in [
        ("GET /metrics", "200 OK", "Text\n"),
        ("GET /metrics?a=b", "200 OK", "Text\n"),
        ("GET /", "200 OK", "href=\"/metrics\""),
        ("GET /other", "404 Not Found", "404"),
        ("POST /metrics", "405 Method Not Allowed", "405"),
        ("DELETE /", "405 Method Not Allowed", "405"),
        ("OPTIONS *", "405 Method Not Allowed", "405"),
    ] {
        let said = ask(address, format!("{request} HTTP/1.1\r\n\r\n").as_bytes());
        let (head, text) = said.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{said}");
        assert!(text.contains(body), "{said}");
        let length = format!("Content-Length: {}\r\n", text.len());
        assert!(head.contains(&length), "{said}");
        assert_eq!(head.contains("Allow: GET, HEAD"), status.starts_with("405"));
    }
}

#[test]
fn a_head_request_gets_the_head_of_the_response() {
    let address = server(LONG);
    let said = ask(address, b"HEAD /metrics HTTP/1.1\r\n\r\n");
    assert!(said.contains("Content-Length: 5\r\n"), "{said}");
    assert!(said.ends_with("\r\n\r\n"), "{said}");
}

#[test]
fn the_format_is_negotiated() {
    let request = b"GET /metrics HTTP/1.1\r\nAccept: application/openmetrics-text\r\n\r\n";
    let said = ask(server(LONG), request);
    assert!(said.contains("Content-Type: application/openmetrics-text; version=1.0.0"));
    assert!(said.ends_with("OpenMetrics\n"), "{said}");
}

#[test]
fn a_request_may_come_in_pieces() {
    let mut stream = connect(server(LONG));
    stream.set_nodelay(true).unwrap();
    for byte in GET {
        stream.write_all(&[*byte]).unwrap();
    }
    assert!(rest(&mut stream).ends_with("Text\n"));
}

#[test]
fn what_is_not_http_is_refused() {
    let address = server(LONG);
    for bytes in [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".as_slice(),
        b"\0\0\0\0",
        b"GET /metrics SMTP\r\n\r\n",
        b"EHLO example\r\n\r\n",
    ] {
        let said = ask(address, bytes);
        assert!(said.starts_with("HTTP/1.1 400 "), "{bytes:?}: {said}");
    }
    assert!(ask(address, GET).ends_with("Text\n"));
}

#[test]
fn a_head_that_is_too_large_is_refused() {
    let address = server(LONG);
    let field = format!("GET / HTTP/1.1\r\nA: {}\r\n\r\n", "a".repeat(20_000));
    let many = format!("GET / HTTP/1.1\r\n{}\r\n", "A: a\r\n".repeat(100));
    for request in [field, many] {
        let said = ask(address, request.as_bytes());
        assert!(said.starts_with("HTTP/1.1 431 "), "{said}");
    }
}

#[test]
fn a_body_does_not_cost_the_client_its_response() {
    let body = vec![b'a'; 30_000];
    let request = [b"POST / HTTP/1.1\r\n\r\n".as_slice(), &body].concat();
    let said = ask(server(LONG), &request);
    assert!(said.starts_with("HTTP/1.1 405 "), "{said}");
}

#[test]
fn a_client_that_stops_within_its_head_is_closed() {
    let said = ask(server(SHORT), &GET[..20]);
    assert!(said.starts_with("HTTP/1.1 408 "), "{said}");
    assert_eq!(ask(server(SHORT), b""), "");
}

#[test]
fn a_client_that_sends_a_byte_now_and_then_is_closed_as_well() {
    let mut stream = connect(server(SHORT));
    let mut sent = 0;
    // a byte comes before each read can time out
    while stream.write_all(b"G").is_ok() && sent < 1000 {
        sent += 1;
        sleep(Duration::from_millis(50));
    }
    assert!(sent < 1000, "never closed");
}

#[test]
fn a_client_that_does_not_read_is_closed() {
    let large: Arc<str> = "a".repeat(64 << 20).into();
    let address = server_with(SHORT, Arc::new(move |_| Some(Arc::clone(&large))));
    let mut stream = connect(address);
    stream.write_all(GET).unwrap();
    sleep(SHORT.write * 3);
    assert!(rest(&mut stream).len() < 64 << 20);
}

#[test]
fn a_client_without_an_answer_is_told_so() {
    let said = ask(server_with(LONG, Arc::new(|_| None)), GET);
    assert!(said.starts_with("HTTP/1.1 503 "), "{said}");
}

#[test]
fn idle_connections_do_not_keep_others_out() {
    // the limits would hold each idle connection for a minute
    let address = server(LONG);
    let mut idle: Vec<TcpStream> = (0..40).map(|_| connect(address)).collect();
    for n in 0..20 {
        assert!(ask(address, GET).ends_with("Text\n"), "{n}");
        idle.push(connect(address));
    }
    // the oldest were closed
    assert_eq!(rest(&mut idle[0]), "");
}

#[test]
fn the_number_of_requests_at_a_time_is_bounded() {
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (in_use, highest) = (Arc::clone(&now), Arc::clone(&most));
    let limits = Limits { close: Duration::from_millis(20), ..LONG };
    let slow = move |_| {
        let others = in_use.fetch_add(1, Ordering::SeqCst);
        highest.fetch_max(others + 1, Ordering::SeqCst);
        sleep(Duration::from_millis(50));
        in_use.fetch_sub(1, Ordering::SeqCst);
        Some("x".into())
    };
    let address = server_with(limits, Arc::new(slow));
    let clients: Vec<_> = (0..30).map(|_| thread::spawn(move || ask(address, GET))).collect();
    for client in clients {
        client.join().unwrap();
    }
    let most = most.load(Ordering::SeqCst);
    assert!((1..=limits.connections).contains(&most), "{most}");
    assert!(ask(address, GET).ends_with('x'));
}
