// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kernel stacks: frames, and their text.

use std::fmt;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::model::text::{Text, word};

/// Where a stack was taken. This determines the function that it begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum StackAt {
    /// At submission (the end of the setup): who submits
    Submit,
    /// At completion: interrupt, softirq, poll or cancellation
    Complete,
}

impl StackAt {
    /// The name in options and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Submit => "submit",
            Self::Complete => "complete",
        }
    }
}

/// A frame of a kernel stack.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Frame {
    /// The return address; zero in a recording.
    #[serde(skip)]
    pub address: u64,
    /// The function; `None` if the kernel hides its symbols.
    #[serde(flatten)]
    pub symbol: Option<Symbol>,
}

/// Prefixes of the kernel's entry functions.
const ENTRIES: [&str; 9] = [
    "asm_",
    "do_el0_svc",
    "do_syscall_64",
    "el0",
    "entry_SYSCALL_64",
    "invoke_syscall",
    "kthread",
    "ret_from_fork",
    "x64_sys_call",
];

impl Frame {
    /// Whether it is an entry to the kernel: outermost, and the same for most callers.
    pub fn is_entry(&self) -> bool {
        let name = self.symbol.as_ref().map(|symbol| &symbol.name);
        name.is_some_and(|name| ENTRIES.iter().any(|begin| name.starts_with(begin)))
    }
}

/// A function of the kernel, and an offset in it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Symbol {
    /// Its name.
    pub name: Text,
    /// Offset from its start, in bytes.
    #[serde(default)]
    pub offset: u64,
    /// The module; `None` for the kernel image.
    pub module: Option<Text>,
}

/// One line; a name from outside has no blanks and semicolons in it.
impl fmt::Display for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.symbol {
            None => write!(f, "{:#018x}", self.address),
            Some(s) => {
                write!(f, "{}+{:#x}", word(&s.name), s.offset)?;
                s.module.as_ref().map_or(Ok(()), |module| write!(f, " [{}]", word(module)))
            }
        }
    }
}

/// The stack of a command.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Stack {
    /// The frames, innermost first; empty if the kernel could not take the stack.
    Taken(Vec<Frame>),
    /// The kernel skipped the program that takes the stack.
    NotObserved,
}

impl Stack {
    /// The frames, innermost first.
    #[must_use]
    pub fn frames(&self) -> &[Frame] {
        match self {
            Self::Taken(frames) => frames,
            Self::NotObserved => &[],
        }
    }
}
