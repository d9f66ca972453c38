// SPDX-License-Identifier: MIT OR Apache-2.0
//! `inflight` with a run that observes submissions: it traces while it looks, for `--age 10x` and
//! `--kstack`.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::machine::clock::monotonic_ns;
use crate::machine::inflight::report::Observed;
use crate::model::event::StackId;
use crate::model::filter::Filter;
use crate::model::stack::{Frame, StackAt};
use crate::run::start::Session;
use crate::settings::Settings;
use anyhow::{Context, Result};

use super::Looks;
use crate::inflight::args::InflightArgs;
use crate::run::drive::{Live, Run, Step};
use crate::run::inflight::Access;
use crate::run::say_ledger;
use crate::run::start::{LiveStacks, Preflight};

/// The frames of the stacks of commands that were in flight.
struct Stacks {
    live: LiveStacks,
    known: BTreeMap<StackId, Vec<Frame>>,
}

/// A running session.
pub(super) struct Tracer<'s> {
    session: &'s Session,
    stacks: Option<&'s mut Stacks>,
}

impl Tracer<'_> {
    /// What it has observed until now.
    pub(super) fn observe(&mut self) -> Result<Observed> {
        let at_ns = monotonic_ns();
        let now = self.session.snapshot()?;
        let observed = Observed::new(self.session.open_commands()?, &now, at_ns);
        if let Some(stacks) = &mut self.stacks {
            for id in observed.stacks() {
                if let Some(frames) = stacks.live.learn(id, self.session) {
                    stacks.known.insert(id, frames);
                }
            }
        }
        Ok(observed)
    }

    /// The frames of a stack.
    pub(super) fn stack(&self, id: StackId) -> Option<Vec<Frame>> {
        self.stacks.as_ref()?.known.get(&id).cloned()
    }
}

/// Looks at each interval.
struct Looking<'o> {
    looks: Looks<'o>,
    interval: Duration,
    next: Duration,
    stacks: Option<Stacks>,
}

impl Looking<'_> {
    fn read(mut self, run: &mut Run<'_>) -> Result<()> {
        loop {
            match run.next()? {
                Step::Tick { now, .. } => self.tick(run, now)?,
                Step::Ended => break,
                _ => {}
            }
        }
        say_ledger(&run.end()?.ledger, false);
        Ok(())
    }

    fn tick(&mut self, run: &mut Run<'_>, now: Duration) -> Result<()> {
        if now >= self.next {
            let session = run.session().context("a session")?;
            let mut tracer = Tracer { session, stacks: self.stacks.as_mut() };
            self.looks.take(Some(&mut tracer))?;
            self.next += self.interval;
            if Some(self.looks.shown) == self.looks.options.count {
                run.stop();
            }
        }
        run.wake_at(self.next);
        Ok(())
    }
}

/// Runs the command. The first look comes after the first interval.
///
/// # Errors
/// One sentence, with the exit code of its kind. Nothing stays attached.
pub fn run(
    options: &InflightArgs,
    filter: Filter,
    interval: Duration,
    settings: &Settings,
) -> Result<()> {
    let ready = Preflight::check(settings)?;
    let access = Access::open(options.btf.as_deref(), &ready.system)?;
    access.say_missing();
    let stacks = options
        .kstack
        .then(|| Stacks { live: LiveStacks::new(StackAt::Submit), known: BTreeMap::new() });
    let irq_entry = stacks.as_ref().and_then(|s| s.live.irq_entry());
    let looking = Looking {
        looks: Looks { options, filter, system: ready.system.clone(), access, shown: 0 },
        interval,
        next: interval,
        stacks,
    };
    let live = Live::new(ready, settings, None);
    let live = Live { irq_entry, ..live };
    live.run(|run| looking.read(run))
}
