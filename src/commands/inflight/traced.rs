// SPDX-License-Identifier: MIT OR Apache-2.0
//! `inflight` with a run that observes submissions: it traces while it looks, for `--age 10x` and
//! `--kstack`.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use nvme_deep::machine::clock::monotonic_ns;
use nvme_deep::model::event::StackId;
use nvme_deep::model::stack::Frame;
use nvme_deep::model::stack::StackAt;
use nvme_deep::report::inflight::Observed;
use nvme_deep::session::Session;
use nvme_deep::session::settings::Settings;
use nvme_deep::source::Source;

use super::Looks;
use super::Observer;
use super::access::Access;
use crate::cli::options::InflightOptions;
use crate::commands::drive::health::HealthCheck;
use crate::commands::drive::ledger_of;
use crate::commands::drive::turns::Run;
use crate::commands::drive::turns::Turn;
use crate::commands::say_ledger;
use crate::commands::start::Preflight;
use crate::commands::start::until;
use crate::commands::symbols::LiveStacks;

/// The frames of the stacks of commands that were in flight.
struct Stacks {
    live: LiveStacks,
    known: BTreeMap<StackId, Vec<Frame>>,
}

/// A running session.
struct Tracer<'s> {
    session: &'s Session,
    stacks: Option<&'s mut Stacks>,
}

impl Observer for Tracer<'_> {
    fn observe(&mut self) -> Result<Observed> {
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

    fn stack(&self, id: StackId) -> Option<Vec<Frame>> {
        self.stacks.as_ref()?.known.get(&id).cloned()
    }
}

/// Runs the command. The first look comes after the first interval.
///
/// # Errors
/// One sentence, with the exit code of its kind. Nothing stays attached.
pub fn run(options: &InflightOptions, interval: Duration, settings: &Settings) -> Result<()> {
    let ready = Preflight::check(settings)?;
    let access = Access::open(options.btf.as_deref(), &ready.system)?;
    access.say_missing();
    let mut stacks = options.kstack.then(|| Stacks {
        live: LiveStacks::new(StackAt::Submit),
        known: BTreeMap::new(),
    });
    let irq_entry = stacks.as_ref().and_then(|s| s.live.irq_entry());
    let mut session = ready.attach(settings, until(options.count.is_some()), irq_entry)?;
    let mut health = HealthCheck::of(&session, ready.system.clone());
    let mut looks = Looks {
        options,
        system: ready.system,
        access,
        shown: 0,
    };
    let mut next = interval;
    let run = Run::begin(&ready.stop, None);
    let ended = run.turns(&mut session, &mut health, &mut |session, tick| {
        if tick.now >= next {
            let mut tracer = Tracer {
                session,
                stacks: stacks.as_mut(),
            };
            looks.take(Some(&mut tracer))?;
            if Some(looks.shown) == options.count {
                return Ok(Turn::Done);
            }
            next += interval;
        }
        Ok(Turn::Until(next))
    });
    health.final_check(&session)?;
    session.end()?;
    ended?;
    last_ledger(&session)?;
    health.verdict()
}

/// Prints the ledger of the run.
fn last_ledger(source: &dyn Source) -> Result<()> {
    let now = source.snapshot()?;
    say_ledger(&ledger_of(source, &now, Some(source.scan()?))?, false);
    Ok(())
}
