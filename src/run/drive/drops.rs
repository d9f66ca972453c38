// SPDX-License-Identifier: MIT OR Apache-2.0
//! The warning about lost events during a run.

use crate::model::counters::Counters;
use crate::model::ledger::{Shown, TraceLedger};
use crate::model::stage::StageSet;
use crate::run::eprint_note;
use crate::session::Session;
use crate::settings::MAX_RING;
use crate::settings::Settings;

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
    format!("{n} events lost: the ring was full, because {why}{help}")
}

/// Reports events that found no room in the ring.
pub struct Drops {
    settings: Settings,
    ring_bytes: u32,
    reader: Reader,
    lost: u64,
}

impl Drops {
    /// Nothing was lost until now.
    pub fn of(session: &Session, settings: &Settings, reader: Reader) -> Self {
        let ring_bytes = u32::try_from(session.rings().total()).unwrap_or(u32::MAX);
        Self { settings: settings.clone(), ring_bytes, reader, lost: 0 }
    }

    /// Reports what was lost since the last look.
    pub fn look(&mut self, counters: &Counters) {
        let lost = TraceLedger::new(counters, &Shown::default()).lost();
        if lost > self.lost {
            let text = message(lost - self.lost, &self.settings, self.ring_bytes, self.reader);
            eprint_note(&text);
        }
        self.lost = lost;
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
            "9 events lost: the ring was full, because stdout is not read fast \
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
