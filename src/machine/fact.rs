// SPDX-License-Identifier: MIT OR Apache-2.0
//! A fact about the machine: a value, or the reason why it is unknown.

use std::fmt::{Display, Formatter};
use std::io::ErrorKind;
use std::str::FromStr;
use std::{fmt, fs};

use serde::Serialize;

use super::{System, Unreadable};
use crate::model::text::Text;

/// A value read from the machine. In JSON the value, or `{"unknown": "why"}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Fact<T> {
    /// The value.
    Known(T),
    /// The value could not be read.
    Unknown {
        /// The reason, in a few words.
        unknown: String,
    },
}

impl<T> Fact<T> {
    /// An unknown value, with the reason.
    pub fn unknown(why: impl Display) -> Self {
        Self::Unknown { unknown: why.to_string() }
    }

    /// The value, if it is known.
    pub const fn known(&self) -> Option<&T> {
        match self {
            Self::Known(value) => Some(value),
            Self::Unknown { .. } => None,
        }
    }

    /// Converts the value.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Fact<U> {
        self.and_then(|value| Fact::Known(f(value)))
    }

    /// Converts the value. The result may be unknown.
    pub fn and_then<U>(self, f: impl FnOnce(T) -> Fact<U>) -> Fact<U> {
        match self {
            Self::Known(value) => f(value),
            Self::Unknown { unknown } => Fact::Unknown { unknown },
        }
    }

    /// Calls `f` if the value is unknown.
    pub fn or_else(self, f: impl FnOnce() -> Self) -> Self {
        match self {
            Self::Known(_) => self,
            Self::Unknown { .. } => f(),
        }
    }
}

impl<T: PartialEq> Fact<T> {
    /// Whether the value is known and equal to `value`.
    pub fn is(&self, value: &T) -> bool {
        self.known() == Some(value)
    }
}

impl Fact<String> {
    /// Parses the text as a number.
    pub fn parse<T: FromStr>(self) -> Fact<T> {
        self.and_then(|text| {
            text.parse().map_or_else(|_| Fact::unknown(format!("it says `{text}`")), Fact::Known)
        })
    }
}

impl<T, E: Display> From<Result<T, E>> for Fact<T> {
    fn from(result: Result<T, E>) -> Self {
        result.map_or_else(Self::unknown, Self::Known)
    }
}

impl<T: Display> Display for Fact<T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(value) => value.fmt(f),
            Self::Unknown { unknown } => write!(f, "unknown ({unknown})"),
        }
    }
}

impl System {
    /// Reads the first line of a small file of the kernel, trimmed.
    pub(super) fn text(&self, path: &str) -> Fact<String> {
        self.device_text(path).map(|text| text.to_string())
    }

    /// The same of a file with text that a device chooses.
    pub(super) fn device_text(&self, path: &str) -> Fact<Text> {
        match fs::read(self.path(path)) {
            Ok(bytes) => {
                // strings in the device tree end in NUL
                let line = bytes.split(|b| matches!(b, b'\n' | 0)).next();
                let line = line.unwrap_or_default().trim_ascii();
                if line.is_empty() {
                    Fact::unknown("it is empty")
                } else {
                    Fact::Known(Text::from_bytes(line))
                }
            }
            Err(e) => Fact::unknown(Unreadable::from(e)),
        }
    }

    /// Reads the number in a small file.
    pub(super) fn number<T: FromStr>(&self, path: &str) -> Fact<T> {
        self.text(path).parse()
    }

    /// Whether the file exists.
    pub(super) fn exists(&self, path: &str) -> Fact<bool> {
        match fs::symlink_metadata(self.path(path)) {
            Ok(_) => Fact::Known(true),
            Err(e) if e.kind() == ErrorKind::NotFound => Fact::Known(false),
            Err(e) => Fact::unknown(Unreadable::from(e)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::put;
    use super::*;
    use tempfile::TempDir;

    #[test]
    fn a_file_that_says_nothing_of_use_is_unknown_with_the_reason() {
        let root = TempDir::new().unwrap();
        let system = System::at(root.path());
        put(&root, "number", " -7 \nmore\n");
        put(&root, "empty", "\n");
        put(&root, "tree", "linux,kvm\0hyper\0");
        assert!(system.number::<i64>("number").is(&-7));
        assert_eq!(system.number::<u32>("number").to_string(), "unknown (it says `-7`)");
        assert_eq!(system.text("empty").to_string(), "unknown (it is empty)");
        assert_eq!(system.text("tree").to_string(), "linux,kvm");
        put(&root, "model", "\u{1b}[2Jdisk");
        assert_eq!(system.text("model").to_string(), "\\u{1b}[2Jdisk");
        assert_eq!(system.text("none").to_string(), "unknown (no such file)");
        assert!(system.exists("none").is(&false));
    }

    #[test]
    fn json_has_the_value_or_the_reason() {
        let json = |fact: &Fact<u32>| serde_json::to_string(fact).unwrap();
        assert_eq!(json(&Fact::Known(3)), "3");
        assert_eq!(json(&Fact::unknown("why")), r#"{"unknown":"why"}"#);
    }
}
