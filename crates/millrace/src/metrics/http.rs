//! The part of HTTP/1.1 that a scrape needs (RFC 9112): one request per connection, no body.

use crate::serve::Connection;
use std::time::{Duration, Instant};

/// Longest request accepted, in bytes.
const LONGEST_HEAD: usize = 8 * 1024;
/// Time limit of the whole exchange.
const PATIENCE: Duration = Duration::from_secs(5);
/// Time for the client to read the reply before the connection is closed.
const LINGER: Duration = Duration::from_millis(500);

const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PLAIN: &str = "text/plain; charset=utf-8";

/// Answers the request on `connection`; `metrics` makes the page.
pub(super) fn answer(connection: &Connection, metrics: impl FnOnce() -> String) {
    let deadline = Instant::now() + PATIENCE;
    let mut head = Vec::new();
    let mut chunk = [0; 1024];
    while !is_complete(&head) {
        if head.len() > LONGEST_HEAD {
            reply(
                connection,
                deadline,
                "431 Request Header Fields Too Large",
                PLAIN,
                "",
                "the request is too long\n",
                true,
            );
            drain(connection);
            return;
        }
        match connection.read(&mut chunk, deadline) {
            Ok(count) if count > 0 => head.extend_from_slice(&chunk[..count]),
            _ => return,
        }
    }
    let line = head.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let &[method, target, version] = words.as_slice() else {
        return reply(connection, deadline, "400 Bad Request", PLAIN, "", "this is not HTTP\n", true);
    };
    if !version.starts_with("HTTP/1.") {
        let body = "this server speaks HTTP/1.1\n";
        return reply(connection, deadline, "505 HTTP Version Not Supported", PLAIN, "", body, true);
    }
    if method != "GET" && method != "HEAD" {
        let allow = "Allow: GET, HEAD\r\n";
        return reply(connection, deadline, "405 Method Not Allowed", PLAIN, allow, "GET /metrics\n", true);
    }
    let with_body = method == "GET";
    match target.split('?').next() {
        Some("/metrics") => reply(connection, deadline, "200 OK", OPENMETRICS, "", &metrics(), with_body),
        _ => reply(connection, deadline, "404 Not Found", PLAIN, "", "the metrics are at /metrics\n", with_body),
    }
}

/// Rejects a client without waiting for it.
pub(super) fn refuse(connection: &Connection) {
    let body = "too many connections\n";
    reply(connection, Instant::now(), "503 Service Unavailable", PLAIN, "Retry-After: 1\r\n", body, true);
}

/// Reports whether the empty line that ends the head has arrived; bare line feeds are accepted as well (RFC 9112, section 2.2).
fn is_complete(head: &[u8]) -> bool {
    head.windows(4).any(|four| four == b"\r\n\r\n") || head.windows(2).any(|two| two == b"\n\n")
}

fn reply(
    connection: &Connection,
    deadline: Instant,
    status: &str,
    content_type: &str,
    fields: &str,
    body: &str,
    with_body: bool,
) {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n{fields}Connection: close\r\n\r\n"
    );
    let message = head + if with_body { body } else { "" };
    // A client that is gone or too slow gets no error either.
    let _ = connection.write_all(message.as_bytes(), deadline);
}

/// Reads the rest of the client's data: closing with unread bytes would reset the connection and lose the reply.
fn drain(connection: &Connection) {
    let deadline = Instant::now() + LINGER;
    let mut chunk = [0; 4096];
    while Instant::now() < deadline && connection.read(&mut chunk, deadline).is_ok_and(|count| count > 0) {}
}
