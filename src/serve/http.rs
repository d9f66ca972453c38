// SPDX-License-Identifier: MIT OR Apache-2.0
//! A small HTTP server: one request per connection, a bounded number of connections, of bytes and of
//! seconds.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};
use std::{io, thread};

use crate::serve::metrics::Format;
use crate::serve::metrics::request::{Head, MAX_HEAD, Method, Request, parse};

use crate::run::privileges;

/// Stack of a connection's thread.
const STACK: usize = 256 << 10;
/// Bytes that a client may send after its request, until it reads the answer.
const MAX_REST: usize = 64 << 10;

/// The metrics as text; `None` if they cannot be read now.
pub type Answer = dyn Fn(Format) -> Option<Arc<str>> + Send + Sync;

/// Limits of the server.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at a time. Another one closes the oldest.
    pub connections: usize,
    /// Time for the head of a request to arrive.
    pub head: Duration,
    /// Time for the client to take the response.
    pub write: Duration,
    /// Time for the client to close.
    pub close: Duration,
}

/// The limits of `serve`.
pub const LIMITS: Limits = Limits {
    connections: 16,
    head: Duration::from_secs(5),
    write: Duration::from_secs(5),
    close: Duration::from_secs(1),
};

/// The open connections, oldest first.
#[derive(Default)]
struct Open {
    streams: Mutex<VecDeque<(u64, TcpStream)>>,
    closed: Condvar,
}

impl Open {
    fn lock(&self) -> MutexGuard<'_, VecDeque<(u64, TcpStream)>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a connection. If there are too many, closes the oldest and waits until its thread ends.
    /// Returns whether there is room.
    fn add(&self, id: u64, stream: TcpStream, limits: &Limits) -> bool {
        let full = |streams: &mut VecDeque<_>| streams.len() >= limits.connections;
        let mut streams = self.lock();
        if full(&mut streams) {
            if let Some((_, oldest)) = streams.front() {
                let _ = oldest.shutdown(Shutdown::Both);
            }
            let waited = self.closed.wait_timeout_while(streams, limits.close, full);
            streams = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let room = !full(&mut streams);
        if room {
            streams.push_back((id, stream));
        }
        room
    }

    fn remove(&self, id: u64) {
        self.lock().retain(|(other, _)| *other != id);
        self.closed.notify_all();
    }
}

/// Removes its connection at the end of the thread.
struct Place(u64, Arc<Open>);

impl Drop for Place {
    fn drop(&mut self) {
        self.1.remove(self.0);
    }
}

/// Starts the server in threads that last as long as the process.
pub fn start(listener: TcpListener, answer: Arc<Answer>, limits: Limits) -> io::Result<()> {
    let accept = move || {
        // those of the connections inherit none either
        privileges::drop_all();
        let open = Arc::new(Open::default());
        for (id, stream) in (0..).zip(listener.incoming()) {
            match stream {
                Ok(stream) => begin(id, stream, &open, &answer, limits),
                // no file descriptor is left: others will be closed
                Err(_) => sleep(Duration::from_millis(50)),
            }
        }
    };
    thread::Builder::new().spawn(accept).map(|_| ())
}

/// Handles a connection in a thread of its own. Without room it is closed.
fn begin(id: u64, stream: TcpStream, open: &Arc<Open>, answer: &Arc<Answer>, limits: Limits) {
    let Ok(copy) = stream.try_clone() else {
        return;
    };
    if !open.add(id, copy, &limits) {
        return;
    }
    let place = Place(id, Arc::clone(open));
    let answer = Arc::clone(answer);
    let handle = move || {
        let _place = place;
        // the client may go away at any time
        let _ = handle(stream, &*answer, &limits);
    };
    // without a thread, the connection is closed
    let _ = thread::Builder::new().stack_size(STACK).spawn(handle);
}

fn handle(mut stream: TcpStream, answer: &Answer, limits: &Limits) -> io::Result<()> {
    let Some(head) = read_head(&mut stream, limits)? else {
        return Ok(());
    };
    let response = respond(&head, answer);
    write_all(&mut stream, response.as_bytes(), limits)?;
    drain(&mut stream, limits)
}

/// Time left until `end`; an error if there is none.
fn left(end: Instant) -> io::Result<Duration> {
    let left = end.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(ErrorKind::TimedOut.into());
    }
    Ok(left)
}

/// Reads until the head is whole, or is not going to be. `None` if the client sent nothing. A client
/// that is too slow has a partial head.
fn read_head(stream: &mut TcpStream, limits: &Limits) -> io::Result<Option<Head>> {
    let end = Instant::now() + limits.head;
    let mut bytes = [0; MAX_HEAD];
    let mut filled = 0;
    loop {
        let read = left(end)
            .and_then(|left| stream.set_read_timeout(Some(left)))
            .and_then(|()| stream.read(&mut bytes[filled..]));
        match read {
            Ok(0) => return Ok(None),
            Ok(n) => filled += n,
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) if matches!(e.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock) => {
                return Ok((filled > 0).then_some(Head::Partial));
            }
            Err(e) => return Err(e),
        }
        match parse(&bytes[..filled]) {
            Head::Partial => {}
            head => return Ok(Some(head)),
        }
    }
}

fn write_all(stream: &mut TcpStream, mut bytes: &[u8], limits: &Limits) -> io::Result<()> {
    let end = Instant::now() + limits.write;
    while !bytes.is_empty() {
        stream.set_write_timeout(Some(left(end)?))?;
        match stream.write(bytes) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(n) => bytes = &bytes[n..],
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// Waits until the client has closed. If bytes of it were left unread, the kernel would reset the
/// connection, and the client could lose the response.
fn drain(stream: &mut TcpStream, limits: &Limits) -> io::Result<()> {
    stream.shutdown(Shutdown::Write)?;
    let end = Instant::now() + limits.close;
    let (mut bytes, mut rest) = ([0; 1024], MAX_REST);
    while rest > 0 {
        stream.set_read_timeout(Some(left(end)?))?;
        match stream.read(&mut bytes)? {
            0 => break,
            n => rest = rest.saturating_sub(n),
        }
    }
    Ok(())
}

const TEXT: &str = "text/plain; charset=utf-8";

const PAGE: &str = "<!DOCTYPE html>\n<html lang=\"en\"><title>nvme-deep</title>\n\
    <h1>nvme-deep</h1>\n<p><a href=\"/metrics\">Metrics</a></p>\n</html>\n";

/// The response to a request.
fn respond(head: &Head, answer: &Answer) -> String {
    let (status, kind, body) = match head {
        Head::Whole(request) => page(request, answer),
        Head::Invalid => error("400 Bad Request"),
        Head::Partial => error("408 Request Timeout"),
        Head::TooLarge => error("431 Request Header Fields Too Large"),
    };
    let allow = if status.starts_with("405") { "Allow: GET, HEAD\r\n" } else { "" };
    let length = body.len();
    let without_body = matches!(head, Head::Whole(r) if r.method == Method::Head);
    let body = if without_body { "" } else { &body };
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n{allow}\
         Cache-Control: no-store\r\nConnection: close\r\n\r\n{body}"
    )
}

/// Status, media type and body.
type Page = (&'static str, &'static str, Arc<str>);

fn error(status: &'static str) -> Page {
    (status, TEXT, format!("{status}\n").into())
}

fn page(request: &Request, answer: &Answer) -> Page {
    match (request.method, request.path.as_str()) {
        (Method::Other, _) => error("405 Method Not Allowed"),
        (_, "/metrics") => match answer(request.format) {
            Some(text) => ("200 OK", request.format.content_type(), text),
            None => error("503 Service Unavailable"),
        },
        (_, "/") => ("200 OK", "text/html; charset=utf-8", PAGE.into()),
        _ => error("404 Not Found"),
    }
}

#[cfg(test)]
mod tests;
