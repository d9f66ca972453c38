// SPDX-License-Identifier: MIT OR Apache-2.0
//! Command lines that read files, as the program runs them.

use std::path::Path;

use anyhow::Result;
use nvme_deep::cli::execute;

/// A command line that can be run again and again.
pub type Run = Box<dyn Fn() -> Result<()>>;

/// A command line. `A`, `B` and `OUT*` are files in `dir`.
pub fn command(line: &str, dir: &Path) -> Run {
    let words = line.split(' ').map(|word| {
        let mut parts = word.split(',').map(|part| match part {
            "A" | "B" => dir.join(part).display().to_string(),
            out if out.starts_with("OUT") => dir.join(out).display().to_string(),
            other => other.to_owned(),
        });
        let first = parts.next().unwrap_or_default();
        parts.fold(first, |all, part| format!("{all},{part}"))
    });
    let words: Vec<String> = ["nvme-deep".to_owned()].into_iter().chain(words).collect();
    Box::new(move || execute(&words))
}
