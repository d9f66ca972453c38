// SPDX-License-Identifier: MIT OR Apache-2.0
//! The head of an HTTP request: method, path, and the format that `Accept` asks for.

use super::encode::Format;

/// Maximum size of a head in bytes.
pub const MAX_HEAD: usize = 8 << 10;

/// Maximum number of header fields.
const MAX_FIELDS: usize = 64;

/// A method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// GET.
    Get,
    /// HEAD.
    Head,
    /// Any other.
    Other,
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The method.
    pub method: Method,
    /// The path, without the query.
    pub path: String,
    /// The format of metrics to answer with.
    pub format: Format,
}

/// What has arrived of a head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Head {
    /// Not all of it.
    Partial,
    /// All of it.
    Whole(Request),
    /// It is not HTTP/1.
    Invalid,
    /// It is longer than [`MAX_HEAD`], or has too many fields.
    TooLarge,
}

/// Parses what has arrived so far.
pub fn parse(bytes: &[u8]) -> Head {
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let mut request = httparse::Request::new(&mut fields);
    let head = &bytes[..bytes.len().min(MAX_HEAD)];
    match request.parse(head) {
        Ok(status) if status.is_complete() => {}
        Ok(_) if bytes.len() < MAX_HEAD => return Head::Partial,
        Ok(_) | Err(httparse::Error::TooManyHeaders) => return Head::TooLarge,
        Err(_) => return Head::Invalid,
    }
    let method = match request.method {
        Some("GET") => Method::Get,
        Some("HEAD") => Method::Head,
        _ => Method::Other,
    };
    let target = request.path.unwrap_or_default();
    let path = target.split('?').next().unwrap_or_default().to_owned();
    let accept = request.headers.iter();
    let accept = accept.filter(|field| field.name.eq_ignore_ascii_case("accept"));
    let values = accept.map(|field| String::from_utf8_lossy(field.value));
    let accept = values.collect::<Vec<_>>().join(",");
    Head::Whole(Request { method, path, format: negotiate(&accept) })
}

/// The format that an `Accept` field prefers. Text if it names neither.
pub fn negotiate(accept: &str) -> Format {
    let (mut open, mut text) = (0, 0);
    for offer in accept.split(',') {
        let mut parts = offer.split(';').map(str::trim);
        let media = parts.next().unwrap_or_default().to_ascii_lowercase();
        let (mut quality, mut version) = (1000, None);
        for (name, value) in parts.filter_map(|part| part.split_once('=')) {
            match name.trim().to_ascii_lowercase().as_str() {
                "q" => quality = thousandths(value.trim()),
                "version" => version = Some(value.trim().trim_matches('"')),
                _ => {}
            }
        }
        match media.as_str() {
            "application/openmetrics-text" if matches!(version, None | Some("1.0.0" | "0.0.1")) => {
                open = open.max(quality);
            }
            "text/plain" | "text/*" | "*/*" => text = text.max(quality),
            _ => {}
        }
    }
    if open > 0 && open >= text { Format::OpenMetrics } else { Format::Text }
}

/// A quality, `0` to `1`, in thousandths. What is not a number counts as 0.
fn thousandths(text: &str) -> u32 {
    let quality: f64 = text.parse().unwrap_or(0.0);
    (quality.clamp(0.0, 1.0) * 1000.0) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn request(path: &str, format: Format) -> Head {
        Head::Whole(Request { method: Method::Get, path: path.into(), format })
    }

    #[test]
    fn prometheus_gets_openmetrics_and_curl_gets_text() {
        // the field of Prometheus 2.42
        let accept = "application/openmetrics-text;version=1.0.0,\
                      application/openmetrics-text;version=0.0.1;q=0.75,\
                      text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        assert_eq!(negotiate(accept), Format::OpenMetrics);
        assert_eq!(negotiate("*/*"), Format::Text);
        assert_eq!(negotiate(""), Format::Text);
        assert_eq!(negotiate("text/plain;version=0.0.4"), Format::Text);
        let version = "application/openmetrics-text;version=2.0.0;q=0.9,text/plain;q=0.1";
        assert_eq!(negotiate(version), Format::Text);
        let less = "application/openmetrics-text; q=0.2, text/plain; q=0.3";
        assert_eq!(negotiate(less), Format::Text);
        assert_eq!(negotiate("application/openmetrics-text;q=0"), Format::Text);
        assert_eq!(negotiate("application/json"), Format::Text);
    }

    #[test]
    fn a_head_is_whole_at_its_empty_line() {
        let head =
            b"GET /metrics?x=1 HTTP/1.1\r\nHost: a\r\naccept: application/openmetrics-text\r\n\r\n";
        for end in 0..head.len() {
            assert_eq!(parse(&head[..end]), Head::Partial, "{end}");
        }
        assert_eq!(parse(head), request("/metrics", Format::OpenMetrics));
        let body = [head.as_slice(), b"body"].concat();
        assert_eq!(parse(&body), parse(head));
        assert_eq!(parse(b"GET / HTTP/1.0\r\n\r\n"), request("/", Format::Text));
        let Head::Whole(post) = parse(b"POST / HTTP/1.1\r\n\r\n") else {
            panic!("not whole");
        };
        assert_eq!(post.method, Method::Other);
    }

    #[test]
    fn what_is_not_http_is_invalid_and_what_is_too_long_is_too_large() {
        for bytes in [
            b"\x16\x03\x01\x02\x00\x01".as_slice(),
            b"GET /metrics HTTP/2.0\r\n\r\n",
            b"GET\0/ HTTP/1.1\r\n\r\n",
            b"GET / HTTP/1.1\r\nno colon\r\n\r\n",
        ] {
            assert_eq!(parse(bytes), Head::Invalid, "{bytes:?}");
        }
        let long = [b"GET /".as_slice(), &[b'a'; MAX_HEAD]].concat();
        assert_eq!(parse(&long), Head::TooLarge);
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(MAX_FIELDS + 1));
        assert_eq!(parse(many.as_bytes()), Head::TooLarge);
    }

    proptest! {
        #[test]
        fn any_bytes_have_a_result(bytes in vec(any::<u8>(), 0..MAX_HEAD + 100)) {
            let head = parse(&bytes);
            prop_assert!(bytes.len() < MAX_HEAD || head != Head::Partial);
        }

        #[test]
        fn any_accept_field_has_a_format(
            text in "[a-z/*;,=.0-9 \"]{0,100}", token in "[a-zA-Z/]{1,20}"
        ) {
            let _ = negotiate(&text);
            let field = format!("GET /{token} HTTP/1.1\r\nAccept: {text}\r\n\r\n");
            let Head::Whole(request) = parse(field.as_bytes()) else {
                return Err(TestCaseError::fail(field));
            };
            prop_assert_eq!(request.path, format!("/{token}"));
        }
    }
}
