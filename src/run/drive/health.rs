// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether a session still receives events, and the verdict on that at its end.

use crate::error::Kind;
use crate::machine::System;
use crate::machine::watch::{HookMonitor, Modules};
use crate::model::run::Pairing;
use crate::session::Session;
use anyhow::Result;

use super::ledger::check_fit;
use crate::run::eprint_note;
use crate::run::exit::Failure;

/// Checks a running session against the machine.
pub struct HealthCheck {
    system: System,
    watch: HookMonitor,
    /// Controllers without slots. Each is reported once.
    without_slots: Vec<u32>,
    /// Why the attached programs receive no more events, in one sentence.
    gone: Option<String>,
}

impl HealthCheck {
    /// Starts to watch. To be called when all hooks are attached. `modules` are those before that.
    pub fn of(modules: Modules, session: &Session, system: System) -> Self {
        Self {
            watch: HookMonitor::begin(modules, &system, session.plan()),
            system,
            without_slots: vec![],
            gone: None,
        }
    }

    /// Checks, before the hooks are detached, whether the session still receives events, and whether it may
    /// have seen nothing.
    ///
    /// # Errors
    /// If the counters can't be read.
    pub fn final_check(&mut self, session: &Session) -> Result<()> {
        let hits = session.counters()?.hits.iter().sum();
        let (watch, system) = (&self.watch, &self.system);
        // the run may have ended before the next rescan
        let gone = self.gone.take().or_else(|| watch.gone(system));
        self.gone = gone.or_else(|| watch.saw_no_events(system, hits));
        Ok(())
    }

    /// Returns an error if the programs stopped receiving events. To be called after the last
    /// report.
    ///
    /// # Errors
    /// If the programs stopped receiving events; one sentence.
    pub fn verdict(self) -> Result<()> {
        match self.gone {
            None => Ok(()),
            Some(why) => Err(Failure::error(Kind::Run, why)),
        }
    }

    /// Once a second: gives slots to new controllers, and tends the session. Returns true if the session
    /// receives no more events.
    ///
    /// # Errors
    /// If the kernel cannot be read.
    pub fn is_gone(&mut self, session: &mut Session) -> Result<bool> {
        check_fit(&session.counters()?)?;
        session.assign_new_groups()?;
        if let Some(remark) = session.tend_timers()? {
            eprint_note(&remark);
        }
        self.gone = self.watch.gone(&self.system);
        for controller in self.system.controllers() {
            let new = !self.without_slots.contains(&controller.instance);
            if !session.place(&controller)? && new {
                eprint_note(&without_slots(&controller.name(), session.plan().pairing));
                self.without_slots.push(controller.instance);
            }
        }
        Ok(self.gone.is_some())
    }
}

/// The message on a controller without slots.
fn without_slots(controller: &str, pairing: Pairing) -> String {
    match pairing {
        Pairing::Request => format!(
            "no slots left for {controller}, which appeared or got more queues during the run: its \
             commands are counted as untracked; start again to measure them"
        ),
        // also of controllers that were there: tags do not share slots
        Pairing::Tag => format!(
            "no slots left for {controller}: classic tracepoints need one for each tag, and its \
             commands are counted as untracked; `doctor` says what a better method lacks"
        ),
    }
}
