// SPDX-License-Identifier: MIT OR Apache-2.0
use super::*;

fn text(of: &str) -> String {
    Untrusted::from(of).to_string()
}

/// The text that was escaped.
pub(super) fn back(mut escaped: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    while let Some(c) = escaped.chars().next() {
        escaped = &escaped[c.len_utf8()..];
        if c != '\\' {
            bytes.extend(c.encode_utf8(&mut [0; 4]).as_bytes());
            continue;
        }
        let (kind, rest) = escaped.split_at(1);
        escaped = rest;
        let plain = match kind {
            "n" => b'\n',
            "r" => b'\r',
            "t" => b'\t',
            "0" => 0,
            "\\" => b'\\',
            "x" => {
                let (digits, rest) = escaped.split_at(2);
                escaped = rest;
                u8::from_str_radix(digits, 16).unwrap()
            }
            "u" => {
                let (digits, rest) = escaped[1..].split_once('}').unwrap();
                escaped = rest;
                let c = char::from_u32(u32::from_str_radix(digits, 16).unwrap()).unwrap();
                bytes.extend(c.encode_utf8(&mut [0; 4]).as_bytes());
                continue;
            }
            kind => panic!("{kind}"),
        };
        bytes.push(plain);
    }
    bytes
}

#[test]
fn what_a_terminal_or_a_reader_of_lines_interprets_is_escaped() {
    assert_eq!(text("QEMU NVMe Ctrl"), "QEMU NVMe Ctrl");
    assert_eq!(text("Größe 'µs' \"磁盘\""), "Größe 'µs' \"磁盘\"");
    assert_eq!(text("a\n\r\t\0b"), r"a\n\r\t\0b");
    assert_eq!(text("\x1b]0;x\x07"), r"\u{1b}]0;x\u{7}");
    assert_eq!(text("\u{9b}2J\x7f"), r"\u{9b}2J\u{7f}");
    assert_eq!(text(r"a\x2db"), r"a\\x2db");
    let hidden = "\u{61c}\u{200b}\u{200e}\u{200f}\u{202a}\u{202e}\u{2028}\u{2029}\u{2066}\
                  \u{2069}\u{feff}\u{85}\u{ad}\u{e0041}";
    assert!(text(hidden).is_ascii(), "{}", text(hidden));
    assert_eq!(format!("{:?}", Untrusted::from("a\n")), r#""a\n""#);
    assert_eq!(format!("{:?}", Some(Untrusted::from("\x1b"))), r#"Some("\u{1b}")"#);
}

#[test]
fn bytes_that_are_no_text_stay_visible() {
    let bytes = b"a\xff\\xff\xc3";
    assert_eq!(Untrusted::from_bytes(bytes).to_string(), r"a\xff\\xff\xc3");
    assert_eq!(Escaped(bytes).to_string(), r"a\xff\\xff\xc3");
    assert_eq!(printable(OsStr::from_bytes(b"x\xfe\n")), r"x\xfe\n");
    assert_eq!(file_name(Path::new("/a/b\x1b")), r"b\u{1b}");
    assert_eq!(file_name(Path::new("/")), "/");
}

#[test]
fn a_word_has_no_separators() {
    let word = |text: &str| Untrusted::from(text).word().to_string();
    assert_eq!(word("nvme0n1"), "nvme0n1");
    assert_eq!(word("a b;c,d\n"), r"a\u{20}b\u{3b}c\u{2c}d\n");
}

#[test]
fn the_width_is_that_of_the_printed_text() {
    assert_eq!(format!("{:>4}|", Untrusted::from("ab")), "  ab|");
    assert_eq!(format!("{:<5}|", Untrusted::from("a\n")), r"a\n  |");
    assert_eq!(Untrusted::from("a\n").width(), 3);
    let long = Untrusted::from("x".repeat(1 << 20));
    assert_eq!(long.width(), LIMIT + 1);
    assert!(long.to_string().ends_with("x…"));
    let long = Untrusted::from("\x1b".repeat(LIMIT));
    assert!(long.width() <= LIMIT + 1 && long.to_string().ends_with("}…"));
    assert!(Untrusted::from_bytes(&[0xff; LIMIT]).width() <= LIMIT + 1);
    assert!(Escaped(&[0xff; LIMIT]).to_string().len() <= LIMIT + "…".len());
    assert_eq!(Untrusted::from("x".repeat(LIMIT)).width(), LIMIT);
}

#[test]
fn a_recording_has_the_text_itself() {
    let text = Untrusted::from("a\\\n\u{1b}é");
    let json = serde_json::to_string(&text).unwrap();
    assert_eq!(json, serde_json::to_string("a\\\n\u{1b}é").unwrap());
    assert_eq!(serde_json::from_str::<Untrusted>(&json).unwrap(), text);
}
