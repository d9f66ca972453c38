// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls into the BPF side. The program `control` (bpf/include/recover.bpf.h) is never attached;
//! it is run by BPF_PROG_TEST_RUN (5.10 for raw tracepoints).

use super::load::CONTROL;
use super::{Session, begins};
use crate::abi::{SlotState, nd_control, nd_end_of_recovery, slot_owner};
use crate::model::machine::Pairing;
use anyhow::Result;
use std::collections::BTreeMap;
use std::thread::sleep;
use std::time::Duration;

/// A jiffy at the lowest timer frequency (CONFIG_HZ_100), and a margin.
const JIFFY: Duration = Duration::from_millis(11);

/// Number of jiffies to wait for completions.
const PATIENCE: u32 = 20;

/// Slots in use: number to request pointer, command id and state.
type Held = BTreeMap<u32, (u64, u16, SlotState)>;

impl Session {
    /// Begins the run, after everything is attached. A command that was issued in this jiffy or
    /// before, and whose setup was not observed, does not belong to the run.
    pub(super) fn begin(&mut self) -> Result<()> {
        if self.plan.recovers {
            self.control(nd_control::ND_CONTROL_BEGIN, 0)?;
            sleep(JIFFY);
        }
        self.missed_before = self.misses();
        Ok(())
    }

    /// Ends the run: detaches everything, and closes the commands that have completed although
    /// their completion or their end was not observed.
    ///
    /// # Errors
    /// If the slots cannot be read. Everything is detached even so.
    pub fn end(&mut self) -> Result<()> {
        let completed = self.end_setups().and_then(|()| self.completed_unseen());
        self.detach();
        let completed = completed?;
        for (slot, held) in self.held()? {
            // the programs are detached: no event can count it any more
            if held.2 == SlotState::Ending || completed.get(&slot) == Some(&held) {
                self.control(nd_control::ND_CONTROL_CLOSE, slot)?;
            }
        }
        Ok(())
    }

    /// Ends the run for setups. Commands in flight whose setup was skipped are not known yet, so
    /// their completions are awaited, up to a limit. Commands that are set up later, while the
    /// programs are detached, are not part of the run and must not count as skipped.
    fn end_setups(&mut self) -> Result<()> {
        if !self.plan.recovers {
            self.detach_setup();
            return Ok(());
        }
        if !self.await_skipped()? {
            self.detach_setup();
            self.end_recovery(nd_end_of_recovery::ND_END_NOW)?;
            let _ = self.await_skipped()?;
            return Ok(());
        }
        // setups that are skipped from now on are after the end
        let skipped = self.misses();
        self.detach_setup();
        let later = self.misses();
        for (hook, before) in self.missed_before.iter_mut().enumerate() {
            if begins(hook) {
                *before += later[hook].saturating_sub(skipped[hook]);
            }
        }
        Ok(())
    }

    /// Waits until all skipped setups are recovered, and ends recovery. Returns whether it
    /// succeeded.
    fn await_skipped(&self) -> Result<bool> {
        for _ in 0..PATIENCE {
            if self.unrecovered()? == 0 {
                self.end_recovery(nd_end_of_recovery::ND_END_NONE)?;
                if self.unrecovered()? == 0 {
                    return Ok(true);
                }
                self.end_recovery(nd_end_of_recovery::ND_END_RESUME)?;
            }
            sleep(JIFFY);
        }
        Ok(false)
    }

    fn unrecovered(&self) -> Result<u64> {
        Ok(self.plan.unrecovered(&self.counters()?, &self.misses()))
    }

    /// Open slots with a command that the driver has completed. For most of them the completion is
    /// being handled at this moment.
    fn completed_unseen(&self) -> Result<Held> {
        let mut held = Held::new();
        if self.plan.recovers {
            for (slot, owner) in self.held()? {
                let open = owner.2 == SlotState::InFlight;
                if open && self.control(nd_control::ND_CONTROL_COMPLETED, slot)? != 0 {
                    held.insert(slot, owner);
                }
            }
        }
        Ok(held)
    }

    fn held(&self) -> Result<Held> {
        let mut held = Held::new();
        if self.plan.pairing == Pairing::Tag {
            return Ok(held);
        }
        self.each_held(|number, _, value| {
            held.insert(number, slot_owner(value)?);
            Ok(())
        })?;
        Ok(held)
    }

    /// Runs the program, and returns its return value.
    pub(super) fn control(&self, what: nd_control, slot: u32) -> Result<u32> {
        self.loaded.run(CONTROL, [what.0.into(), slot.into()])
    }

    /// Limits recovery of skipped setups.
    fn end_recovery(&self, how: nd_end_of_recovery) -> Result<u32> {
        self.control(nd_control::ND_CONTROL_END, how.0)
    }
}
