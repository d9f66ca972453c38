// SPDX-License-Identifier: MIT OR Apache-2.0
//! libbpf talks through one process-wide callback. We keep its last lines for error messages, and
//! pass everything on to stderr when the user asked for it.

use std::collections::VecDeque;
use std::io::Write;
use std::io::stderr;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;

use libbpf_rs::PrintLevel;
use libbpf_rs::set_print;

const KEEP: usize = 40;
static LINES: Mutex<VecDeque<String>> = Mutex::new(VecDeque::new());
static ALOUD: AtomicBool = AtomicBool::new(false);

fn keep(level: PrintLevel, text: String) {
    if ALOUD.load(Ordering::Relaxed) {
        let _ = stderr().write_all(text.as_bytes());
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

/// Takes libbpf's log over; with `aloud` it is passed on to stderr. Before anything else is asked of
/// libbpf, or it writes there by itself.
pub fn install(aloud: bool) {
    ALOUD.store(aloud, Ordering::Relaxed);
    set_print(Some((PrintLevel::Debug, keep)));
}

/// Why the kernel refused, out of libbpf's last lines: the program, and what its verifier says.
pub fn last_complaint() -> Option<String> {
    complaint(LINES.lock().ok()?.make_contiguous())
}

/// Forgets what was said so far: what follows is about something else.
pub fn forget() {
    if let Ok(mut lines) = LINES.lock() {
        lines.clear();
    }
}

/// The program that a load failed at, and why.
pub fn culprit() -> Option<(String, String)> {
    let mut lines = LINES.lock().ok()?;
    let lines = lines.make_contiguous();
    let why = complaint(lines)?;
    let line = lines
        .iter()
        .rev()
        .find(|l| l.contains("prog '") && l.contains("failed"))?;
    let name = line.split_once("prog '")?.1.split_once('\'')?.0;
    let prefix = format!("prog '{name}': ");
    Some((name.to_owned(), why.replace(&prefix, "")))
}

fn complaint(lines: &[String]) -> Option<String> {
    let told = |line: &String| line.trim_start_matches("libbpf: ").to_owned();
    let program = lines
        .iter()
        .rev()
        .find(|l| l.contains("prog '") && l.contains("failed"));
    // the verifier's reason is the last line before its statistics
    let statistics = lines
        .iter()
        .rposition(|l| l.starts_with("processed ") && l.contains("insns"));
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
        assert_eq!(
            complaint(&lines[6..]).unwrap(),
            "failed to load object 'nvme_deep_bpf'"
        );
        assert_eq!(complaint(&[]), None);
    }
}
