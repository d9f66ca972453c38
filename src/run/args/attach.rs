// SPDX-License-Identifier: MIT OR Apache-2.0
//! How to attach, and messages.

use std::path::PathBuf;

use crate::probe::catalog::Method;
use crate::settings::Attaching;
use clap::ValueEnum;

use crate::run::args::common::ColorArg;

/// How to attach.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AttachArg {
    /// The most accurate method for each point
    Auto,
    /// Only fentry, fexit, tp_btf. Needs BTF of the driver
    Fentry,
    /// Only raw tracepoints. No doorbell, no interrupt
    Rawtp,
    /// Only kprobes and kretprobes. May miss events under load
    Kprobe,
    /// Only classic tracepoints: one interval, no stages. May miss completions under load
    Tracepoint,
}

impl AttachArg {
    /// The method; `None`: the best for each point.
    pub const fn method(self) -> Option<Method> {
        match self {
            Self::Auto => None,
            Self::Fentry => Some(Method::Fentry),
            Self::Rawtp => Some(Method::RawTp),
            Self::Kprobe => Some(Method::Kprobe),
            Self::Tracepoint => Some(Method::Tracepoint),
        }
    }
}

/// Attaching and messages.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Attaching and output")]
pub struct AttachArgs {
    /// Attach method; change it only to compare methods, or if `auto` fails
    #[arg(long, hide_short_help = true, value_name = "METHOD", default_value = "auto")]
    pub attach: AttachArg,

    /// BTF of the driver's modules, for kernels without module BTF: raw, or an ELF file with a .BTF
    /// section. Refused if it does not match the kernel
    #[arg(long, hide_short_help = true, value_name = "FILE")]
    pub btf: Option<PathBuf>,

    /// When to use colour
    #[arg(long, hide_short_help = true, value_name = "WHEN", default_value = "auto")]
    pub color: ColorArg,

    /// Print the hooks, the reasons of fallbacks, the full ledger
    ///
    /// Also the cost of the tool's programs. -vv: libbpf's log too.
    #[arg(long, short, action = clap::ArgAction::Count)]
    pub verbose: u8,

    /// For tests, in debug builds: these programs ignore every 97th of their events, as if the kernel
    /// skipped them
    #[cfg_attr(
        debug_assertions,
        arg(long, value_name = "PROGRAM,...", value_delimiter = ',', hide = true)
    )]
    #[cfg_attr(not(debug_assertions), arg(skip))]
    pub test_ignore: Vec<String>,

    /// For tests, in debug builds: do not look for commands whose set-up or completion was not
    /// observed
    #[cfg_attr(debug_assertions, arg(long, hide = true))]
    #[cfg_attr(not(debug_assertions), arg(skip))]
    pub test_no_recovery: bool,
}

impl AttachArgs {
    /// How the session attaches.
    pub fn attaching(&self) -> Attaching {
        Attaching {
            only: self.attach.method(),
            btf: self.btf.clone(),
            verbose: self.verbose,
            ignore: self.test_ignore.clone(),
            no_recovery: self.test_no_recovery,
        }
    }
}
