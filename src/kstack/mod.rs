// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kernel stacks: what a frame is and how it reads, how addresses become frames ([`symbolize`]),
//! which of them are the driver's and its callers' ([`trim`]), and which stacks are one ([`sums`]).
//!
//! Knows nothing of options, maps or views.

mod regions;
pub mod sums;
pub mod symbolize;
pub mod trim;

use std::fmt;

pub use self::sums::Stack;
pub use self::sums::StackRow;
pub use self::sums::StackSums;
pub use self::sums::Weight;
pub use self::symbolize::Symbolizer;

/// Where a stack was taken: the function that it begins with follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hooked {
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
    /// The function; `None` where the kernel does not let us know.
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
