// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reports lost events while the trace runs.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::model::counters::Counters;
use crate::model::ledger::{Shown, TraceLedger};
use crate::model::stage::StageSet;
use crate::session::Session;
use crate::settings::Settings;
use anyhow::Result;

use crate::run::eprint_note;
use crate::settings::MAX_RING;

/// Interval between checks.
const EVERY: Duration = Duration::from_secs(1);

/// A thread that checks for lost events. It is separate because the thread that reads the ring may
/// be blocked, which is why events are lost.
pub struct Drops {
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

/// What takes the events from the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// The reader of stdout.
    Stdout,
    /// The thread that sums the events up.
    Sums,
    /// The thread that writes a recording.
    File,
}

/// Options, not in use yet, that make the ring larger or its content smaller.
fn remedies(settings: &Settings, ring_bytes: u32, reader: Reader) -> Vec<String> {
    let filter = &settings.filter;
    let records = reader == Reader::File;
    // `latency` has no option for its ring, or for less of each command
    let has_options = settings.events().is_some();
    let lines = reader == Reader::Stdout && has_options;
    let submits = settings.events().is_some_and(|events| events.submits);
    let asked = settings.ring_bytes().unwrap_or(ring_bytes);
    let larger = asked.saturating_mul(4).clamp(1 << 20, MAX_RING);
    [
        (asked < MAX_RING && has_options, format!("--buffer {}M", larger >> 20)),
        (settings.stack().is_some_and(|stack| stack.period == 1), "--sample 1/64".into()),
        ((records || lines) && settings.stage_set != StageSet::Total, "--stages=none".into()),
        (lines && !submits && settings.outcome().slow.is_none(), "--slow 1ms".into()),
        (filter.ctrls.is_empty(), "--ctrl".into()),
        (filter.opcodes.is_empty(), "--opcode".into()),
    ]
    .into_iter()
    .filter_map(|(helps, option)| helps.then_some(option))
    .collect()
}

/// The message on `n` events that found no room.
fn message(n: u64, settings: &Settings, ring_bytes: u32, reader: Reader) -> String {
    let why = match reader {
        Reader::Stdout => "stdout is not read fast enough",
        Reader::Sums => "the events are not counted fast enough",
        Reader::File => "the file is not written fast enough",
    };
    let options = remedies(settings, ring_bytes, reader).join(", ");
    let help = match options.as_str() {
        "" => String::new(),
        options => format!("; these options help: {options}"),
    };
    format!("{n} events lost in the last second: the ring is full, because {why}{help}")
}

fn lost(counters: &Counters) -> u64 {
    TraceLedger::new(counters, &Shown::default()).lost()
}

impl Drops {
    /// Starts the thread for a session with these settings.
    ///
    /// # Errors
    /// If the counters cannot be read.
    pub fn watch(session: &Session, settings: &Settings, reader: Reader) -> Result<Self> {
        let counters_of = session.counter_reader()?;
        let settings = settings.clone();
        let ring_bytes = u32::try_from(session.rings().total()).unwrap_or(u32::MAX);
        let (stop, stopped) = channel();
        let thread = thread::spawn(move || {
            let mut before = 0;
            loop {
                let ends = stopped.recv_timeout(EVERY) != Err(RecvTimeoutError::Timeout);
                let Ok(counters) = counters_of.read() else {
                    break;
                };
                let now = lost(&counters);
                if now > before {
                    eprint_note(&message(now - before, &settings, ring_bytes, reader));
                }
                before = now;
                // only after the last look: a run may end within a second of a loss
                if ends {
                    break;
                }
            }
        });
        Ok(Self { stop, thread })
    }

    /// Ends the thread, after a last look.
    pub fn stop(self) {
        drop(self.stop);
        // there is no result, and a panic has already printed its message
        let _ = self.thread.join();
    }
}

#[cfg(test)]
mod tests {
    use crate::model::stack::StackAt;
    use crate::settings::{Detail, EventStacks, Events, ExtraEvents, Histograms, Mode};

    use super::*;

    #[test]
    fn the_message_of_latency_names_options_that_it_has() {
        let histograms = Histograms { extra: ExtraEvents::Commands, ..Histograms::default() };
        let settings = Mode::Histograms(histograms).with(StageSet::Total);
        let help = remedies(&settings, 2 << 20, Reader::Stdout);
        assert_eq!(help, ["--ctrl", "--opcode"]);
    }

    #[test]
    fn the_message_names_options_that_are_not_in_use() {
        let mut settings = Mode::Events(Events::default()).with(StageSet::Basic);
        assert_eq!(
            message(9, &settings, 16 << 20, Reader::Stdout),
            "9 events lost in the last second: the ring is full, because stdout is not read fast \
             enough; these options help: --buffer 64M, --stages=none, --slow 1ms, --ctrl, \
             --opcode"
        );
        settings.filter.ctrls = [0].into();
        let help = remedies(&settings, 1 << 30, Reader::Stdout);
        assert_eq!(help, ["--stages=none", "--slow 1ms", "--opcode"]);
        settings =
            Mode::Events(Events { submits: true, ..Events::default() }).with(StageSet::Total);
        let help = remedies(&settings, 1 << 30, Reader::Stdout);
        assert_eq!(help, ["--ctrl", "--opcode"]);
        let stacks = EventStacks { kstack: Some(StackAt::Submit), sample: None };
        let detail = Detail { stacks, ..Detail::default() };
        let events = Events { detail, ..Events::default() };
        settings = Mode::Events(events).with(StageSet::Basic);
        let help = remedies(&settings, 512 << 20, Reader::File);
        let sizes = ["--buffer 1024M", "--sample 1/64", "--stages=none"];
        assert_eq!(help[..3], sizes);
        settings.stage_set = StageSet::Total;
        let help = remedies(&settings, 1 << 20, Reader::File);
        assert_eq!(help, ["--buffer 4M", "--sample 1/64", "--ctrl", "--opcode"]);
    }
}
