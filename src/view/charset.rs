// SPDX-License-Identifier: MIT OR Apache-2.0
//! The characters that views draw with. Like the locale, the choice is one for the whole process.

use std::sync::atomic::{AtomicBool, Ordering};

static ASCII: AtomicBool = AtomicBool::new(false);

/// Makes all views draw with ASCII characters, for a locale that has no others.
pub fn use_ascii() {
    ASCII.store(true, Ordering::Relaxed);
}

fn choose(unicode: &'static str, ascii: &'static str) -> &'static str {
    if ASCII.load(Ordering::Relaxed) { ascii } else { unicode }
}

/// Between the parts of a heading.
pub(crate) fn dot() -> &'static str {
    choose("·", "-")
}

/// A cell of a bar.
pub(crate) fn block() -> &'static str {
    choose("█", "#")
}
