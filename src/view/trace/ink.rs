// SPDX-License-Identifier: MIT OR Apache-2.0
//! Text with optional colours.

use super::line::Line;
use crate::view::theme::{Around, Codes};

/// Writes a line, with colours if there are codes.
pub(super) struct Ink<'a> {
    pub(super) line: &'a mut Line,
    pub(super) codes: Option<&'a Codes>,
}

/// Emphasis of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TextStyle {
    Plain,
    Head,
    Dim,
    Warn,
}

impl TextStyle {
    pub(super) const fn failed(failed: bool, otherwise: Self) -> Self {
        if failed { Self::Warn } else { otherwise }
    }

    fn of(self, codes: &Codes) -> Option<&Around> {
        match self {
            Self::Plain => None,
            Self::Head => Some(&codes.head),
            Self::Dim => Some(&codes.dim),
            Self::Warn => Some(&codes.warn),
        }
    }
}

impl Ink<'_> {
    #[inline]
    pub(super) fn styled(&mut self, styled: TextStyle, write: impl FnOnce(&mut Self)) {
        let around = self.codes.and_then(|codes| styled.of(codes));
        if let Some(around) = around {
            self.line.name(&around.before);
        }
        write(self);
        if let Some(around) = around {
            self.line.name(&around.after);
        }
    }

    pub(super) fn pad(&mut self, blanks: usize) {
        for _ in 0..blanks {
            self.line.byte(b' ');
        }
    }

    #[inline]
    pub(super) fn number(&mut self, key: &'static str, n: impl Into<u64>) {
        self.line.str(key);
        self.line.dec(n);
    }
}
