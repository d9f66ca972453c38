// SPDX-License-Identifier: MIT OR Apache-2.0
//! Says while it happens that events are lost.

use std::sync::mpsc::RecvTimeoutError;
use std::sync::mpsc::Sender;
use std::sync::mpsc::channel;
use std::thread;
use std::thread::JoinHandle;
use std::time::Duration;

use nvme_deep::model::counters::Counters;
use nvme_deep::report::ledger::Shown;
use nvme_deep::report::ledger::TraceLedger;
use nvme_deep::session::CounterReader;

use crate::commands::say;

/// How often to look.
const EVERY: Duration = Duration::from_secs(1);

/// A thread that looks. Of its own, since the one that reads the ring may be held up: that is why
/// events get lost.
pub struct Drops {
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

fn lost(counters: &Counters) -> u64 {
    TraceLedger::new(counters, &Shown::default()).lost()
}

impl Drops {
    /// Begins to look.
    pub fn watch(reader: CounterReader) -> Self {
        let (stop, told) = channel();
        let thread = thread::spawn(move || {
            let mut before = 0;
            while told.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
                let Ok(counters) = reader.read() else { break };
                let now = lost(&counters);
                if now > before {
                    say(&format!(
                        "{} events lost in the last second: the ring is full, because stdout is \
                         not read fast enough (--buffer makes it larger, filters its content \
                         smaller)",
                        now - before
                    ));
                }
                before = now;
            }
        });
        Self { stop, thread }
    }

    /// Ends it.
    pub fn stop(self) {
        drop(self.stop);
        // it has no result, and a panic of its would have been told by itself
        let _ = self.thread.join();
    }
}
