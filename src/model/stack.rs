// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kernel stacks: what a frame is, and how it reads.

use std::fmt;

/// Where a stack was taken: this decides which function it begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StackAt {
    /// At the end of a command's setup.
    Submit,
    /// At its completion.
    Complete,
}

/// A frame of a kernel stack.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Frame {
    /// The address that the function will go on at.
    pub address: u64,
    /// The function; `None` where the kernel hides it.
    pub symbol: Option<Symbol>,
}

/// A function of the kernel, and where in it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Symbol {
    /// Its name.
    pub name: String,
    /// Bytes from its begin.
    pub offset: u64,
    /// The module; `None` for the kernel image.
    pub module: Option<String>,
}

impl fmt::Display for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.symbol {
            None => write!(f, "{:#018x}", self.address),
            Some(s) => {
                write!(f, "{}+{:#x}", s.name, s.offset)?;
                s.module
                    .as_ref()
                    .map_or(Ok(()), |module| write!(f, " [{module}]"))
            }
        }
    }
}

/// A stack that commands came through.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Stack {
    /// Innermost frame first; empty where the kernel could not take it.
    Taken(Vec<Frame>),
    /// The program that takes it was skipped.
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
