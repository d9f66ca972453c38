// SPDX-License-Identifier: MIT OR Apache-2.0
//! libbpf logs through one process-wide callback. The last lines are kept for error messages; the
//! whole log can be copied to another function.

use std::collections::VecDeque;
use std::sync::{Mutex, OnceLock};

use libbpf_rs::{PrintLevel, set_print};

const KEEP: usize = 40;
static LINES: Mutex<VecDeque<String>> = Mutex::new(VecDeque::new());
static COPY_TO: OnceLock<fn(&str)> = OnceLock::new();

fn keep(level: PrintLevel, text: String) {
    if let Some(copy) = COPY_TO.get() {
        copy(&text);
    }
    if matches!(level, PrintLevel::Debug) {
        return;
    }
    let Ok(mut lines) = LINES.lock() else { return };
    for line in text.lines().filter(|l| !l.trim().is_empty()) {
        if lines.len() == KEEP {
            lines.pop_front();
        }
        lines.push_back(line.trim_end().to_owned());
    }
}

/// Installs the callback, which also passes the log to `copy_to`. Call this first: otherwise libbpf
/// writes to stderr.
pub fn install(copy_to: Option<fn(&str)>) {
    let mut level = PrintLevel::Info;
    if let Some(copy_to) = copy_to {
        let _ = COPY_TO.set(copy_to);
        // this adds some thousand lines
        level = PrintLevel::Debug;
    }
    set_print(Some((level, keep)));
}

/// Why the kernel refused, from libbpf's last lines: the program, and the verifier's reason.
pub fn last_complaint() -> Option<String> {
    complaint(LINES.lock().ok()?.make_contiguous())
}

/// Discards the lines so far: the next ones are about something else.
pub fn forget() {
    if let Ok(mut lines) = LINES.lock() {
        lines.clear();
    }
}

/// The program at which a load failed, and the reason.
pub fn culprit() -> Option<(String, String)> {
    let mut lines = LINES.lock().ok()?;
    let lines = lines.make_contiguous();
    let why = complaint(lines)?;
    let line = lines.iter().rev().find(|l| l.contains("prog '") && l.contains("failed"))?;
    let name = line.split_once("prog '")?.1.split_once('\'')?.0;
    let prefix = format!("prog '{name}': ");
    Some((name.to_owned(), why.replace(&prefix, "")))
}

fn complaint(lines: &[String]) -> Option<String> {
    let told = |line: &String| line.trim_start_matches("libbpf: ").to_owned();
    let program = lines.iter().rev().find(|l| l.contains("prog '") && l.contains("failed"));
    // the verifier's reason is the last line before its statistics
    let statistics = lines.iter().rposition(|l| l.starts_with("processed ") && l.contains("insns"));
    let reason = statistics.and_then(|at| lines.get(at.checked_sub(1)?));
    match (program, reason) {
        (Some(program), Some(reason)) => Some(format!("{}: {}", told(program), told(reason))),
        (Some(program), None) => Some(told(program)),
        (None, _) => lines.iter().rev().find(|l| l.contains("failed")).map(told),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_complaint_is_the_verifiers_reason_and_its_program() {
        let lines = [
            "libbpf: prog 'complete_btf': BPF program load failed: Permission denied",
            "527: (79) r2 = *(u64 *)(r3 +0)",
            "R3 unbounded memory access, make sure to bounds check any such access",
            "processed 275 insns (limit 1000000)",
            "-- END PROG LOAD LOG --",
            "libbpf: prog 'complete_btf': failed to load: -EACCES",
            "libbpf: failed to load object 'nvme_deep_bpf'",
        ]
        .map(str::to_owned);
        let said = complaint(&lines).unwrap();
        assert!(said.starts_with("prog 'complete_btf': failed to load: -EACCES: R3 unbounded"));
        assert_eq!(complaint(&lines[6..]).unwrap(), "failed to load object 'nvme_deep_bpf'");
        assert_eq!(complaint(&[]), None);
    }
}
