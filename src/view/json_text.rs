// SPDX-License-Identifier: MIT OR Apache-2.0
//! JSON that a terminal can show: what a terminal or an editor interprets is written as `\u` escapes
//! (C1, DEL, bidirectional and other format characters, U+2028, U+2029). JSON itself asks for those
//! of C0 only. A parsed value is the same text. All JSON of the program is written here, except
//! recordings, whose format has no such escapes.

use std::io;
use std::io::Write;

use serde::Serialize;
use serde_json::Serializer;
use serde_json::ser::Formatter;

use crate::model::untrusted::is_shown;

/// The compact format, with more escapes.
struct Shown;

impl Formatter for Shown {
    /// Writes a part of a string that has nothing to escape by the rules of JSON.
    fn write_string_fragment<W: Write + ?Sized>(
        &mut self,
        out: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        // most texts
        if fragment.bytes().all(|b| matches!(b, b' '..=b'~')) {
            return out.write_all(fragment.as_bytes());
        }
        let mut rest = fragment;
        while let Some((at, c)) = rest.char_indices().find(|(_, c)| !is_shown(*c)) {
            let (plain, hidden) = rest.split_at(at);
            out.write_all(plain.as_bytes())?;
            let mut text = String::new();
            escape(c, &mut text);
            out.write_all(text.as_bytes())?;
            rest = &hidden[c.len_utf8()..];
        }
        out.write_all(rest.as_bytes())
    }
}

/// A text in quotes, with the same escapes; those of C0 are `\u` escapes, too.
pub(super) fn quoted(text: impl Iterator<Item = char>) -> String {
    let mut json = String::from("\"");
    for c in text {
        match c {
            '"' | '\\' => json.extend(['\\', c]),
            c if is_shown(c) => json.push(c),
            c => escape(c, &mut json),
        }
    }
    json.push('"');
    json
}

/// Appends `\u` escapes: two beyond U+FFFF.
fn escape(c: char, to: &mut String) {
    for unit in c.encode_utf16(&mut [0; 2]) {
        to.push_str(&format!("\\u{unit:04x}"));
    }
}

/// Writes a value as JSON.
///
/// # Errors
/// Errors of the writer.
pub fn to_writer(out: impl Write, value: &impl Serialize) -> io::Result<()> {
    let mut serializer = Serializer::with_formatter(out, Shown);
    Ok(value.serialize(&mut serializer)?)
}

/// A value as JSON.
///
/// # Errors
/// If it has none, such as a map whose keys are no text.
pub fn to_string(value: &impl Serialize) -> io::Result<String> {
    let mut bytes = Vec::new();
    to_writer(&mut bytes, value)?;
    String::from_utf8(bytes).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::any;
    use proptest::{prop_assert, prop_assert_eq, proptest};
    use std::collections::BTreeMap;

    #[test]
    fn what_a_terminal_interprets_is_escaped() {
        let text = "a\"\\\n\x1b[2J\u{9b}2J\x7f\u{202e}\u{2028}\u{e0041}é";
        let json = to_string(&text).unwrap();
        let want = r#""a\"\\\n\u001b[2J\u009b2J\u007f\u202e\u2028\udb40\udc41é""#;
        assert_eq!(json, want);
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
    }

    proptest! {
        #[test]
        fn a_value_is_read_back_as_it_was(key in vec(any::<char>(), 0..20), text in vec(any::<char>(), 0..60)) {
            let (key, text): (String, String) = (key.iter().collect(), text.iter().collect());
            let map = BTreeMap::from([(key, text)]);
            let json = to_string(&map).unwrap();
            prop_assert!(json.chars().all(is_shown), "{}", json);
            let one = quoted(map.values().next().unwrap().chars());
            prop_assert!(one.chars().all(is_shown), "{}", one);
            prop_assert_eq!(&serde_json::from_str::<String>(&one).unwrap(), &map.values().next().unwrap().clone());
            prop_assert_eq!(serde_json::from_str::<BTreeMap<String, String>>(&json).unwrap(), map);
        }
    }
}
