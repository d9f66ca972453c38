// SPDX-License-Identifier: MIT OR Apache-2.0
//! Members of JSON objects: keys with values.

use crate::view::trace::line::Line;

impl Line {
    #[inline]
    pub(super) fn number(&mut self, key: &'static str, n: impl Into<u64>) {
        self.name(key);
        self.dec(n);
    }

    /// Writes a number or null.
    #[inline]
    pub(super) fn maybe(&mut self, key: &'static str, n: Option<u64>) {
        self.name(key);
        match n {
            Some(n) => self.dec(n),
            None => self.str("null"),
        }
    }

    #[inline]
    pub(super) fn flag(&mut self, key: &'static str, set: bool) {
        self.name(key);
        if set {
            self.str("true");
        } else {
            self.str("false");
        }
    }

    /// Writes a value that is already JSON; nothing if it is empty.
    #[inline]
    pub(super) fn raw(&mut self, key: &'static str, json: &str) {
        if !json.is_empty() {
            self.name(key);
            self.name(json);
        }
    }

    /// Closes an object or array. Removes the comma after its last member.
    pub(super) fn close(&mut self, bracket: u8) {
        if self.since(0).ends_with(b",") {
            self.back_to(self.place() - 1);
        }
        self.byte(bracket);
    }
}
