// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is fuzzed: a target for each reader. All inputs have a meaning, and none may panic, use more
//! memory than the bound, or take long.

mod commands;
mod elf;
mod machine;
mod pages;
mod recordings;
mod texts;

pub use self::recordings::ALL;

use std::fs;
use std::path::Path;

/// The most bytes in use beyond the blocks of the input itself.
const MEMORY: usize = 64 << 20;

/// A reader.
pub trait Target {
    /// Reads an input.
    fn run(&mut self, input: &[u8]);

    /// The most bytes that it may use for an input.
    fn memory(&self, _input: &[u8]) -> usize {
        MEMORY
    }
}

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
pub type Entry = (&'static str, Form, fn(&Path) -> Box<dyn Target>);

/// All targets.
pub const TARGETS: [Entry; 9] = [
    ("recordings", Form::Parts, |dir| Box::new(recordings::Recordings::of(dir))),
    ("join", Form::Parts, |dir| Box::new(recordings::Recordings::of_both_sides(dir))),
    ("import", Form::Text, |dir| Box::new(texts::Texts::of_import(dir))),
    ("spdk-trace", Form::Text, |dir| Box::new(texts::Texts::of_spdk(dir))),
    ("kvm-trace", Form::Text, |dir| Box::new(texts::Texts::of_kvm(dir))),
    ("elf", Form::Bytes, |dir| Box::new(elf::Elf::of(dir))),
    ("btf", Form::Bytes, |_| Box::new(elf::BtfFile)),
    ("log-pages", Form::Bytes, |_| Box::new(pages::Pages)),
    ("machine", Form::Text, |dir| Box::new(machine::Machine::of(dir))),
];

/// Writes a file of an input.
fn put(dir: &Path, name: &str, bytes: &[u8]) {
    if let Err(error) = fs::write(dir.join(name), bytes) {
        panic!("{}: {error}", dir.join(name).display());
    }
}
