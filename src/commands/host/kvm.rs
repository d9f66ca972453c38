// SPDX-License-Identifier: MIT OR Apache-2.0
//! `host kvm`: doorbell writes in a trace of KVM.

use std::io::BufWriter;
use std::io::Write;
use std::io::stdout;

use anyhow::Result;
use nvme_deep::error::Kind;
use nvme_deep::host::kvm::Doorbells;
use nvme_deep::host::kvm::read;
use nvme_deep::render::host::kvm_json;
use nvme_deep::render::host::kvm_text;

use super::read_text;
use crate::cli::host::HostKvmArgs;
use crate::exit::Failure;

/// Parses `0xfebd4000-0xfebd7fff`.
fn range(text: &str) -> Option<(u64, u64)> {
    let number = |text: &str| u64::from_str_radix(text.trim().strip_prefix("0x")?, 16).ok();
    let (first, last) = text.split_once('-')?;
    let range = (number(first)?, number(last)?);
    (range.0 < range.1).then_some(range)
}

/// Runs the command.
///
/// # Errors
/// One sentence each, with the exit code of its kind.
pub fn run(args: &HostKvmArgs) -> Result<()> {
    let (first, last) = range(&args.bar).ok_or_else(|| {
        let text = format!(
            "--bar {}: give the first and last address of BAR 0 in the guest, as in \
             0xfebd4000-0xfebd7fff (/sys/class/nvme/nvme0/device/resource)",
            args.bar
        );
        Failure::error(Kind::Usage, text)
    })?;
    let bar = Doorbells {
        first,
        last,
        stride: args.dstrd,
    };
    let trace = read(&read_text(&args.trace)?, &bar);
    let mut out = BufWriter::new(stdout().lock());
    if args.json {
        kvm_json(&trace, &mut out)?;
    } else {
        kvm_text(&trace, &mut out)?;
    }
    out.flush()?;
    Ok(())
}
