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

/// Takes libbpf's log over.
pub fn install(aloud: bool) {
    ALOUD.store(aloud, Ordering::Relaxed);
    set_print(Some((PrintLevel::Debug, keep)));
}

/// The last thing that libbpf complained about, for an error message.
pub fn last_complaint() -> Option<String> {
    let lines = LINES.lock().ok()?;
    lines
        .iter()
        .rev()
        .find(|l| l.contains("failed") || l.contains("rror"))
        .cloned()
}
