// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs a target with an input, and checks what it did.

use std::panic::{AssertUnwindSafe, catch_unwind, set_hook};
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::child::Report;
use crate::memory::peak_of;
use crate::targets::Target;

/// CPU time after which an input is a finding.
const SLOW: Duration = Duration::from_secs(10);
/// Exit code of a child that took longer.
pub const SLOW_CODE: u8 = 86;

/// Where the last panic was, of any thread.
static PANIC: Mutex<Option<String>> = Mutex::new(None);
/// CPU nanoseconds at which the current input began.
static BEGAN: AtomicU64 = AtomicU64::new(u64::MAX);

/// CPU time of this process.
pub fn cpu() -> Duration {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// Keeps panics instead of printing them.
pub fn catch_panics() {
    set_hook(Box::new(|info| {
        let at = info.location().map(ToString::to_string).unwrap_or_default();
        let payload = info.payload();
        let text = payload.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
        let text = format!("panic at {at}: {}", text.unwrap_or_default());
        if BEGAN.load(Relaxed) == u64::MAX {
            // between inputs: an error of the targets themselves
            Report::open().line(&text);
        }
        if let Ok(mut panic) = PANIC.lock() {
            panic.get_or_insert(text);
        }
    }));
}

/// Ends this process if an input takes too long.
pub fn watch() {
    thread::spawn(|| {
        loop {
            thread::sleep(Duration::from_millis(200));
            let began = Duration::from_nanos(BEGAN.load(Relaxed));
            if cpu().saturating_sub(began) > SLOW {
                std::process::exit(SLOW_CODE.into());
            }
        }
    });
}

/// What is wrong with a run; `None`: nothing.
pub fn check(target: &mut dyn Target, input: &[u8]) -> Option<String> {
    let most = target.memory(input);
    BEGAN.store(cpu().as_nanos() as u64, Relaxed);
    let mut done = Ok(());
    let peak = peak_of(|| done = catch_unwind(AssertUnwindSafe(|| target.run(input))));
    BEGAN.store(u64::MAX, Relaxed);
    let panic = PANIC.lock().ok().and_then(|mut panic| panic.take());
    if panic.is_some() || done.is_err() {
        return Some(panic.unwrap_or_else(|| "panic".into()));
    }
    (peak > most).then(|| format!("memory: {} KiB of {} KiB", peak >> 10, most >> 10))
}

/// The kind of a finding: its place or its subject, without numbers that change.
pub fn kind(finding: &str) -> &str {
    let end = finding.find(": ").unwrap_or(finding.len());
    &finding[..end]
}
