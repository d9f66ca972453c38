// SPDX-License-Identifier: MIT OR Apache-2.0
//! Text that others choose: names of devices, threads, cgroups and functions, and everything in a
//! recording. A [`Text`] is escaped when it is read, so views print it as it is: it cannot start a new
//! line, move the cursor or change the direction of writing.
//!
//! Escaped are the characters that [`char::escape_debug`] escapes (control, format, unassigned and
//! combining characters, line separators) and the backslash: `\n`, `\u{1b}`, `\\`. Bytes that are not
//! UTF-8 become `\xNN`. Recordings store the escaped text. Whoever reads a recording escapes it again,
//! except the backslashes.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fmt;
use std::fmt::{Display, Formatter, Write};
use std::ops::Deref;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use serde::{Deserialize, Deserializer, Serialize};

/// Longest text in bytes. A longer one is cut off: it is no name, and would flood the screen.
pub const LIMIT: usize = 4096;
const CUT: &str = "…";

/// A text from outside, escaped. Only constructors that escape can make one.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Text(String);

/// Whether a terminal shows a character as itself.
fn is_shown(c: char) -> bool {
    matches!(c, ' '..='~') || c.escape_debug().len() == 1
}

/// Appends a text, with escapes for characters that are not `plain`.
fn push(out: &mut String, text: &str, plain: impl Fn(char) -> bool) {
    for c in text.chars() {
        match c {
            c if plain(c) => out.push(c),
            '\\' | '\n' | '\r' | '\t' | '\0' => out.extend(c.escape_debug()),
            c => out.extend(c.escape_unicode()),
        }
    }
}

/// The same text, if it needs no escapes.
fn escaped(text: &str, plain: impl Fn(char) -> bool) -> Cow<'_, str> {
    // most texts are ASCII, which need no decoding
    let is_plain = |byte: u8| byte.is_ascii() && plain(byte.into());
    if text.bytes().all(is_plain) || text.chars().all(&plain) {
        return text.into();
    }
    let mut out = String::new();
    push(&mut out, text, plain);
    out.into()
}

/// Escapes bytes.
pub fn escape(bytes: &[u8]) -> Cow<'_, str> {
    let plain = |c| c != '\\' && is_shown(c);
    if let Ok(text) = str::from_utf8(bytes) {
        return escaped(text, plain);
    }
    let mut out = String::new();
    for chunk in bytes.utf8_chunks() {
        push(&mut out, chunk.valid(), plain);
        for byte in chunk.invalid() {
            // writing to a String does not fail
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
    out.into()
}

/// Escapes what a terminal interprets, but no backslash: for texts in which parts are escaped already.
pub fn clean(text: &str) -> Cow<'_, str> {
    escaped(text, is_shown)
}

/// The bytes that need no escapes and no quotes in any form of output.
const PLAIN: [bool; 256] = {
    let mut plain = [false; 256];
    let mut byte = b'+';
    while byte <= b'z' {
        plain[byte as usize] = !matches!(byte, b',' | b';'..=b'?' | b'[' | b'\\'..=b'^');
        byte += 1;
    }
    plain
};

/// Whether a name has only such bytes, as nearly all names.
pub fn is_plain(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|byte| PLAIN[usize::from(*byte)])
}

/// Escapes blanks, commas and semicolons, which separate the words of a line.
pub fn word(text: &str) -> Cow<'_, str> {
    if is_plain(text.as_bytes()) {
        return text.into();
    }
    escaped(text, |c| !matches!(c, ' ' | ',' | ';'))
}

/// A file name or an argument, escaped.
pub fn printable(name: &(impl AsRef<OsStr> + ?Sized)) -> String {
    escape(name.as_ref().as_bytes()).into_owned()
}

impl Text {
    fn new(text: Cow<'_, str>) -> Self {
        let mut text = text.into_owned();
        if text.len() > LIMIT {
            let ends = |end: &usize| text.is_char_boundary(*end);
            let end = (0..=LIMIT - CUT.len()).rev().find(ends);
            text.truncate(end.unwrap_or_default());
            text.push_str(CUT);
        }
        Self(text)
    }

    /// Escapes bytes.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        Self::new(escape(bytes))
    }

    /// The last component of a path.
    pub fn file_name(path: &Path) -> Self {
        Self::from_os(path.file_name().unwrap_or(path.as_os_str()))
    }

    /// Escapes a path or an argument.
    pub fn from_os(name: &(impl AsRef<OsStr> + ?Sized)) -> Self {
        Self::from_bytes(name.as_ref().as_bytes())
    }

    /// A text that is escaped already: a part of another text, or one from a recording.
    pub fn from_escaped(text: &str) -> Self {
        Self::new(clean(text))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        self
    }
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl Display for Text {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.pad(self)
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self::from_bytes(text.as_bytes())
    }
}

impl From<&String> for Text {
    fn from(text: &String) -> Self {
        text.as_str().into()
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        text.as_str().into()
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|text| Self::from_escaped(&text))
    }
}

impl PartialEq<str> for Text {
    fn eq(&self, other: &str) -> bool {
        **self == *other
    }
}

impl PartialEq<&str> for Text {
    fn eq(&self, other: &&str) -> bool {
        **self == **other
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::any;
    use proptest::{prop_assert, prop_assert_eq, proptest};

    #[test]
    fn only_what_a_terminal_shows_as_itself_stays() {
        for (bytes, want) in [
            (&b"QEMU NVMe Ctrl"[..], "QEMU NVMe Ctrl"),
            ("Größe 'µs' \"磁盘\"".as_bytes(), "Größe 'µs' \"磁盘\""),
            (b"a\n\r\t\0b", r"a\n\r\t\0b"),
            (b"\x1b]0;x\x07", r"\u{1b}]0;x\u{7}"),
            ("\u{9b}2J\x7f\u{202e}\u{2028}".as_bytes(), r"\u{9b}2J\u{7f}\u{202e}\u{2028}"),
            (br"a\x2db", r"a\\x2db"),
            (b"a\xff\\xff\xc3", r"a\xff\\xff\xc3"),
        ] {
            assert_eq!(Text::from_bytes(bytes), want);
        }
        let hidden = "\u{61c}\u{200b}\u{200e}\u{200f}\u{202a}\u{2029}\u{2066}\u{2069}\u{feff}\
                      \u{85}\u{ad}\u{e0041}";
        assert!(Text::from(hidden).is_ascii());
        assert_eq!(word("a b;c,d"), r"a\u{20}b\u{3b}c\u{2c}d");
    }

    #[test]
    fn a_long_text_is_cut_once() {
        let long = Text::from("é".repeat(LIMIT));
        assert!(long.len() <= LIMIT && long.ends_with("é…"));
        assert_eq!(Text::from_escaped(&long), long);
        assert_eq!(Text::from("x".repeat(LIMIT)).len(), LIMIT);
    }

    proptest! {
        #[test]
        fn a_recording_keeps_every_text(bytes in vec(any::<u8>(), 0..40), chars in vec(any::<char>(), 0..40)) {
            let chars: String = chars.iter().collect();
            for text in [Text::from_bytes(&bytes), Text::from(&chars)] {
                prop_assert!(text.chars().all(is_shown), "{}", text);
                let json = serde_json::to_string(&text).unwrap();
                prop_assert_eq!(&serde_json::from_str::<Text>(&json).unwrap(), &text);
            }
            let foreign: Text = serde_json::from_value(chars.as_str().into()).unwrap();
            prop_assert!(foreign.chars().all(is_shown), "{}", foreign);
        }

        #[test]
        fn different_names_stay_different(a in vec(any::<u8>(), 0..5), b in vec(any::<u8>(), 0..5)) {
            prop_assert_eq!(a == b, escape(&a) == escape(&b));
        }
    }
}
