// SPDX-License-Identifier: MIT OR Apache-2.0
//! Text from outside: from recordings, logs, devices, targets and processes. [`Untrusted`] cannot be
//! printed raw: `Display` and `Debug` escape it, and there is no conversion to `&str` but
//! [`Untrusted::raw`].
//!
//! Escaped are the characters that [`char::escape_debug`] escapes, without the quotes: controls
//! (C0, DEL, C1), bidirectional and other format characters, line and paragraph separators, combining
//! marks, private and unassigned code points. The form is `\n`, `\r`, `\t`, `\0`, `\u{1b}`. A
//! backslash is doubled, so that the text stays unambiguous. Bytes that are not UTF-8 are `\xNN`.
//! At most [`LIMIT`] columns are printed, then `…`.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::ffi::OsStr;
use std::fmt;
use std::fmt::{Debug, Display, Formatter, Write};
use std::hash::{Hash, Hasher};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Columns of a text from outside that are printed at most. The kernel's longest symbol has as many.
pub const LIMIT: usize = 512;

/// Characters with a meaning in lines of words, beside those that are always escaped.
const SEPARATORS: [char; 3] = [' ', ';', ','];

/// How a text is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Form {
    /// It is one word that needs no escapes, and none in JSON.
    #[default]
    Plain,
    /// It may need escapes.
    Raw,
    /// It was made of bytes that are not UTF-8: its backslashes are those of escapes.
    Escaped,
}

/// The form of a text.
const fn form(text: &[u8]) -> Form {
    if text.len() > LIMIT {
        return Form::Raw;
    }
    let mut at = 0;
    while at < text.len() {
        let plain = text[at].is_ascii_graphic();
        if !plain || matches!(text[at], b'\\' | b'"' | b';' | b',') {
            return Form::Raw;
        }
        at += 1;
    }
    Form::Plain
}

/// Text from outside. In JSON it is a string.
#[derive(Default)]
pub struct Untrusted {
    text: Cow<'static, str>,
    form: Form,
}

/// Whether a character is written as it is.
pub fn is_plain(c: char) -> bool {
    match c {
        '\\' => false,
        ' '..='~' => true,
        c => is_shown(c),
    }
}

/// Whether a terminal shows a character as itself. A backslash and quotes are shown.
pub fn is_shown(c: char) -> bool {
    matches!(c, ' '..='~') || c.escape_debug().len() == 1
}

/// Writes an escape.
fn escape(c: char, out: &mut dyn Write) -> fmt::Result {
    match c {
        '\\' | '\n' | '\r' | '\t' | '\0' => write!(out, "{}", c.escape_debug()),
        c => write!(out, "{}", c.escape_unicode()),
    }
}

/// A writer that stops at [`LIMIT`] columns.
struct Bounded<'w> {
    out: &'w mut dyn Write,
    columns: usize,
}

impl Bounded<'_> {
    /// Writes a piece of a text. Returns false, and writes an ellipsis, if there is no room for it.
    fn piece(
        &mut self,
        columns: usize,
        write: impl FnOnce(&mut dyn Write) -> fmt::Result,
    ) -> Result<bool, fmt::Error> {
        self.columns += columns;
        if self.columns > LIMIT {
            self.out.write_char('…')?;
            return Ok(false);
        }
        write(self.out)?;
        Ok(true)
    }

    /// Writes characters. Returns false if there is no room for all.
    fn chars(&mut self, text: &str, plain: impl Fn(char) -> bool) -> Result<bool, fmt::Error> {
        for c in text.chars() {
            let done = if plain(c) {
                self.piece(1, |out| out.write_char(c))
            } else {
                let mut escaped = String::new();
                escape(c, &mut escaped)?;
                self.piece(escaped.len(), |out| out.write_str(&escaped))
            };
            if !done? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Bytes from outside, which print as an [`Untrusted`] of them.
#[derive(Clone, Copy)]
pub struct Escaped<'a>(pub &'a [u8]);

impl Escaped<'_> {
    fn write(&self, out: &mut dyn Write, plain: impl Fn(char) -> bool) -> fmt::Result {
        let mut out = Bounded { out, columns: 0 };
        for chunk in self.0.utf8_chunks() {
            if !out.chars(chunk.valid(), &plain)? {
                break;
            }
            for byte in chunk.invalid() {
                if !out.piece(4, |out| write!(out, "\\x{byte:02x}"))? {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        self.write(&mut text, is_plain)?;
        f.pad(&text)
    }
}

/// Lines of a message whose parts may have been written by others, such as the errors of a parser.
/// What a terminal interprets is escaped, but for the end of lines. A backslash stays.
#[derive(Clone, Copy)]
pub struct Lines<'a>(pub &'a str);

impl Display for Lines<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|c| match c {
            '\n' => f.write_char(c),
            c if is_shown(c) => f.write_char(c),
            c => escape(c, f),
        })
    }
}

/// The same for a message of one line.
#[derive(Clone, Copy)]
pub struct Line<'a>(pub &'a str);

impl Display for Line<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|c| match c {
            c if is_shown(c) => f.write_char(c),
            c => escape(c, f),
        })
    }
}

/// A path, or an argument, as it is printed.
pub fn printable(path: &(impl AsRef<OsStr> + ?Sized)) -> String {
    Escaped(path.as_ref().as_bytes()).to_string()
}

/// The last component of a path, as it is printed.
pub fn file_name(path: &Path) -> String {
    printable(path.file_name().unwrap_or(path.as_os_str()))
}

/// A text from outside as one word: blanks, commas and semicolons are escaped, too.
#[derive(Clone, Copy)]
pub struct Word<'a>(&'a Untrusted);

impl Display for Word<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.pad(&self.0.escaped(|c| !SEPARATORS.contains(&c)))
    }
}

impl Default for &Untrusted {
    fn default() -> Self {
        static EMPTY: Untrusted = Untrusted::fixed("");
        &EMPTY
    }
}

impl Untrusted {
    /// A text of this program, where others are from outside.
    pub const fn fixed(text: &'static str) -> Self {
        Self { text: Cow::Borrowed(text), form: form(text.as_bytes()) }
    }

    /// The text of these bytes. Those that are not UTF-8 become `\xNN`.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        if let Ok(text) = str::from_utf8(bytes) {
            return text.into();
        }
        let mut text = String::new();
        for chunk in bytes.utf8_chunks() {
            text.push_str(&chunk.valid().replace('\\', "\\\\"));
            chunk.invalid().iter().for_each(|byte| {
                let _ = write!(text, "\\x{byte:02x}");
            });
        }
        Self { text: text.into(), form: Form::Escaped }
    }

    /// The text of a name of a file, or of an argument.
    pub fn from_os(text: &(impl AsRef<OsStr> + ?Sized)) -> Self {
        Self::from_bytes(text.as_ref().as_bytes())
    }

    /// The text of these bytes for JSON. Those that are not UTF-8 become U+FFFD.
    pub fn lossy(bytes: &[u8]) -> Self {
        String::from_utf8_lossy(bytes).into_owned().into()
    }

    /// The text itself: for comparisons, look-ups, and writers that escape for their own format.
    pub fn raw(&self) -> &str {
        &self.text
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Whether it is one word that is printed as it is, also within the quotes of JSON.
    #[inline]
    pub fn is_plain(&self) -> bool {
        self.form == Form::Plain
    }

    /// The text as one word.
    pub const fn word(&self) -> Word<'_> {
        Word(self)
    }

    /// Columns of the printed text.
    pub fn width(&self) -> usize {
        self.escaped(|_| true).chars().count()
    }

    /// The printed text, where also the characters are escaped for which `plain` is false.
    fn escaped(&self, plain: impl Fn(char) -> bool) -> Cow<'_, str> {
        if self.is_plain() {
            return Cow::Borrowed(&self.text);
        }
        let mut text = String::new();
        let is_escaped = self.form == Form::Escaped;
        let plain = |c| (is_plain(c) || is_escaped && c == '\\') && plain(c);
        let mut out = Bounded { out: &mut text, columns: 0 };
        // a String takes all
        let _ = out.chars(&self.text, plain);
        Cow::Owned(text)
    }
}

impl Clone for Untrusted {
    fn clone(&self) -> Self {
        Self { text: self.text.clone(), form: self.form }
    }

    fn clone_from(&mut self, other: &Self) {
        self.text.clone_from(&other.text);
        self.form = other.form;
    }
}

impl Display for Untrusted {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.pad(&self.escaped(|_| true))
    }
}

impl Debug for Untrusted {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

impl From<String> for Untrusted {
    fn from(text: String) -> Self {
        let form = form(text.as_bytes());
        Self { text: text.into(), form }
    }
}

impl From<&str> for Untrusted {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl From<&String> for Untrusted {
    fn from(text: &String) -> Self {
        text.as_str().into()
    }
}

impl Serialize for Untrusted {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.text.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Untrusted {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Into::into)
    }
}

impl PartialEq for Untrusted {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Untrusted {}

impl PartialEq<str> for Untrusted {
    fn eq(&self, other: &str) -> bool {
        *self.text == *other
    }
}

impl PartialEq<&str> for Untrusted {
    fn eq(&self, other: &&str) -> bool {
        *self.text == **other
    }
}

impl PartialOrd for Untrusted {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Untrusted {
    fn cmp(&self, other: &Self) -> Ordering {
        self.text.cmp(&other.text)
    }
}

impl Hash for Untrusted {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

#[cfg(test)]
#[path = "untrusted_tests.rs"]
mod tests;

#[cfg(test)]
mod properties {
    use super::tests::back;
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::any;
    use proptest::{prop_assert, prop_assert_eq, proptest};

    proptest! {
        #[test]
        fn printed_text_is_one_line_that_leads_back_to_the_bytes(bytes in vec(any::<u8>(), 0..40)) {
            let printed = Untrusted::from_bytes(&bytes).to_string();
            prop_assert!(printed.chars().all(is_shown), "{}", printed);
            prop_assert_eq!(&Escaped(&bytes).to_string(), &printed);
            prop_assert_eq!(back(&printed), bytes);
        }

        #[test]
        fn so_does_each_word_of_any_characters(source in vec(any::<char>(), 0..40)) {
            let source: String = source.into_iter().collect();
            let text = Untrusted::from(&source);
            let word = text.word().to_string();
            prop_assert!(!word.contains(SEPARATORS) && word.chars().all(is_shown), "{}", word);
            prop_assert_eq!(back(&word), source.clone().into_bytes());
            prop_assert_eq!(back(&text.to_string()), source.into_bytes());
            prop_assert_eq!(text.width(), text.to_string().chars().count());
        }
    }
}
