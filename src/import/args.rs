// SPDX-License-Identifier: MIT OR Apache-2.0
//! `import`.

use std::path::PathBuf;

use crate::run::args::common::{JSON, JSON_LONG};
use crate::run::args::examples;
use crate::run::args::value::number;

const EXAMPLES: &str = "\
Examples:
  nvme-deep import trace.txt -o trace.nvd
      Text of ftrace, trace-cmd, perf, blkparse, QEMU or SPDK
  nvme-deep import kvm.txt --bar 0xfebf0000-0xfebf3fff
      The doorbell writes of a guest, and what each costs";

/// `import`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = examples::ONLY_EXAMPLES)]
#[command(after_long_help = EXAMPLES)]
pub struct ImportArgs {
    /// The text
    ///
    /// Tracepoints nvme:* and block:* as ftrace, `trace-cmd report`, `perf script` or `perf trace`
    /// print them; blkparse; QEMU's log of pci_nvme_*; spdk_trace, its text or -j; tracepoints kvm:*.
    /// The format is detected.
    #[arg(value_name = "TEXT")]
    pub text: PathBuf,

    /// Write a recording to this file
    ///
    /// All commands read it; if the text is from QEMU, SPDK or blkparse, `host trace` and `host latency` do. Only
    /// its owner can read the file.
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Replace the file of -o if it exists
    #[arg(long, requires = "output")]
    pub force: bool,

    /// For kvm:* text: the controller's BAR 0 in the guest
    ///
    /// First and last address (sysfs `resource`).
    #[arg(long, value_name = "FIRST-LAST", value_parser = addresses)]
    pub bar: Option<(u64, u64)>,

    /// The controller's doorbell stride, CAP.DSTRD
    #[arg(long, value_name = "N", default_value = "0", requires = "bar", value_parser = number(0..=15_u32))]
    pub dstrd: u32,

    /// The number of its I/O queues
    ///
    /// Without it, writes to what is behind the doorbells, such as an MSI-X table, are counted as
    /// doorbells of high queues.
    #[arg(long, value_name = "N", requires = "bar", value_parser = number(0..=u32::MAX))]
    pub queues: Option<u32>,

    #[arg(long, short = 'j', help = JSON, long_help = JSON_LONG)]
    pub json: bool,
}

/// Parses `0xfebd4000-0xfebd7fff`.
fn addresses(text: &str) -> Result<(u64, u64), String> {
    let number = |text: &str| u64::from_str_radix(text.trim().strip_prefix("0x")?, 16).ok();
    let range = text.split_once('-');
    let range = range.and_then(|(first, last)| number(first).zip(number(last)));
    range.filter(|(first, last)| first < last).ok_or_else(|| {
        "give the first and last address of BAR 0 in the guest, as in 0xfebd4000-0xfebd7fff \
         (/sys/class/nvme/nvme0/device/resource)"
            .into()
    })
}
