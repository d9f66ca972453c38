// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reports lost events while the trace runs.

use std::sync::mpsc::RecvTimeoutError;
use std::sync::mpsc::Sender;
use std::sync::mpsc::channel;
use std::thread;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Result;
use nvme_deep::machine::clock::monotonic_ns;
use nvme_deep::model::counters::Counters;
use nvme_deep::report::ledger::Shown;
use nvme_deep::report::ledger::TraceLedger;
use nvme_deep::session::CounterReader;
use nvme_deep::session::Session;

use crate::commands::run::Watchdog;
use crate::commands::say;

/// Interval between checks.
const EVERY: Duration = Duration::from_secs(1);

/// A thread that checks for lost events. It is separate because the thread that reads the ring may
/// be blocked, which is why events are lost.
pub struct Drops {
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

fn lost(counters: &Counters) -> u64 {
    TraceLedger::new(counters, &Shown::default()).lost()
}

impl Drops {
    /// Starts the thread. `why`: what is too slow if events are lost.
    pub fn watch(reader: CounterReader, why: &'static str) -> Self {
        let (stop, stopped) = channel();
        let thread = thread::spawn(move || {
            let mut before = 0;
            while stopped.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
                let Ok(counters) = reader.read() else { break };
                let now = lost(&counters);
                if now > before {
                    say(&format!(
                        "{} events lost in the last second: the ring is full, because {why} \
                         (--buffer makes it larger, filters its content smaller)",
                        now - before
                    ));
                }
                before = now;
            }
        });
        Self { stop, thread }
    }

    /// Ends the session and the thread, after the loop `ended`. Returns the time of the end, in
    /// CLOCK_MONOTONIC nanoseconds. Commands continue while the hooks are detached, which takes
    /// time: their events are still in the ring.
    ///
    /// # Errors
    /// Errors of the loop, of the counters and of the session.
    pub fn close(
        self,
        session: &mut Session,
        watchdog: &mut Watchdog,
        ended: Result<()>,
    ) -> Result<u64> {
        watchdog.last_look(session)?;
        let end_ns = monotonic_ns();
        let closed = session.end();
        drop(self.stop);
        // there is no result, and a panic has already printed its message
        let _ = self.thread.join();
        ended?;
        closed?;
        Ok(end_ns)
    }
}
