// SPDX-License-Identifier: MIT OR Apache-2.0
//! Command lines that read files, as the binary runs them.

use std::path::Path;

use anyhow::Result;
use clap::Parser;

use crate::cli::session::SessionOptions;
use crate::cli::{Args, Command};
use crate::commands::{
    diagnose, diff, export, heatmap, host, join, latency, pattern, stacks, top, trace,
};

/// A command that was parsed once.
pub type Run = Box<dyn Fn() -> Result<()>>;

/// Parses a command line. `A`, `B` and `OUT` are files in `dir`.
pub fn command(line: &str, dir: &Path) -> Run {
    let words = line.split(' ').map(|word| {
        let mut parts = word.split(',').map(|part| match part {
            "A" | "B" | "OUT" => dir.join(part).display().to_string(),
            other => other.to_owned(),
        });
        let first = parts.next().unwrap_or_default();
        parts.fold(first, |all, part| format!("{all},{part}"))
    });
    let words = ["nvme-deep".to_owned()].into_iter().chain(words);
    let parsed = Args::try_parse_from(words).unwrap_or_else(|e| panic!("{line}: {e}"));
    of(parsed.command).unwrap_or_else(|e| panic!("{line}: {e}"))
}

/// The command as a function: options are checked once, too.
fn of(command: Command) -> Result<Run> {
    macro_rules! with {
        ($options:expr, $run:path) => {{
            let options = $options?;
            Box::new(move || $run(&options))
        }};
    }
    Ok(match command {
        Command::Latency(args) => with!(args.checked(), latency::run),
        Command::Trace(args) => with!(args.checked(), trace::run),
        Command::Stacks(args) => with!(args.checked(), stacks::run),
        Command::Diagnose(args) => with!(args.checked(), diagnose::run),
        Command::Export(args) => with!(args.options(), export::run),
        Command::Heatmap(args) => with!(args.checked(), heatmap::run),
        Command::Pattern(args) => with!(args.checked(), pattern::run),
        Command::Diff(args) => Box::new(move || diff::run(&args)),
        Command::Top(args) => with!(args.checked(), top::run),
        Command::Host(args) => Box::new(move || host::run(&args)),
        Command::Join(args) => Box::new(move || join::run(&args)),
        other => panic!("{other:?} reads no file"),
    })
}
