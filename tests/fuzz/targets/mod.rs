// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is fuzzed: a target for each reader. All inputs have a meaning, and none may panic, use more
//! memory than the bound, or take long.

mod commands;
mod elf;
mod machine;
mod pages;

pub use self::commands::ALL;

use std::path::Path;

use self::commands::{BOTH, READERS, of_recordings, of_text};
use crate::blocks::recordings;

/// Reads an input.
pub type Target = Box<dyn Fn(&[u8])>;

/// How inputs are changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Bytes.
    Bytes,
    /// Lines of text.
    Text,
    /// A byte, and the parts of recordings.
    Parts,
}

/// Name, form of the inputs, and the target, with a directory for its files.
pub type Entry = (&'static str, Form, fn(&Path) -> Target);

/// All targets.
pub const TARGETS: [Entry; 9] = [
    ("recordings", Form::Parts, |dir| of_recordings(&READERS, dir)),
    ("join", Form::Parts, |dir| of_recordings(&BOTH, dir)),
    ("import", Form::Text, |dir| {
        of_text(&["import A", "import --json A", "import A --force -o OUT"], dir)
    }),
    ("spdk-trace", Form::Text, |dir| {
        of_text(&["import A", "host annotate A", "host annotate --json A"], dir)
    }),
    ("kvm-trace", Form::Text, |dir| {
        let all = "import A --json --bar 0x0-0xffffffffffffffff --dstrd 15 --queues 3";
        of_text(&["import A --bar 0xfebd0000-0xfebd3fff", all], dir)
    }),
    ("elf", Form::Bytes, elf::executable),
    ("btf", Form::Bytes, |_| Box::new(elf::btf)),
    ("log-pages", Form::Bytes, |_| Box::new(pages::read)),
    ("machine", Form::Text, machine::machine),
];

/// The most bytes that may be in use for an input.
pub fn memory(form: Form, input: &[u8]) -> usize {
    let own = match form {
        // the input, its blocks and the files are there while it runs
        Form::Parts => recordings(input.get(1..).unwrap_or_default())
            .iter()
            .map(|(file, blocks)| 2 * file.len() + 2 * blocks)
            .sum(),
        Form::Bytes | Form::Text => 4 * input.len(),
    };
    (64 << 20) + own
}
