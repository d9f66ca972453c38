// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls into the BPF side, and the timers of CPUs. The program `control` (bpf/include/recover.bpf.h) is never
//! attached: BPF_PROG_TEST_RUN runs it (5.10 for raw tracepoints).

use super::load::CONTROL;
use super::{Session, begins};
use crate::abi::{GAP_NS, SlotState, TICK_NS, nd_control, nd_end_of_recovery, slot_owner};
use crate::model::machine::Pairing;
use anyhow::Result;
use libbpf_sys::{
    PERF_COUNT_SW_CPU_CLOCK, PERF_FORMAT_TOTAL_TIME_ENABLED, PERF_TYPE_SOFTWARE, perf_event_attr,
};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::io::Read;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd};
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

/// The program (bpf/nvme_deep.bpf.c).
pub const TICK: &str = "tick";

/// PERF_FLAG_FD_CLOEXEC of linux/perf_event.h.
const CLOSE_ON_EXEC: libc::c_ulong = 8;
/// PERF_EVENT_IOC_SET_BPF of linux/perf_event.h: `_IOW('$', 8, __u32)`.
const SET_PROGRAM: libc::Ioctl = 0x4004_2408;

/// Opens the perf event. It counts for all tasks, also while the CPU is idle.
fn open(cpu: u32) -> io::Result<File> {
    // SAFETY: a C struct of integers and bit fields, for which zero is a valid value
    let mut attr: perf_event_attr = unsafe { zeroed() };
    attr.type_ = PERF_TYPE_SOFTWARE;
    attr.size = size_of::<perf_event_attr>() as u32;
    attr.config = PERF_COUNT_SW_CPU_CLOCK.into();
    attr.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED.into();
    attr.__bindgen_anon_1.sample_period = TICK_NS;
    let cpu = libc::c_int::try_from(cpu).map_err(io::Error::other)?;
    let (all_tasks, no_group) = (-1, -1);
    // SAFETY: the kernel reads `attr`, which has the size that it names; the other arguments are
    // numbers
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attr,
            all_tasks,
            cpu,
            no_group,
            CLOSE_ON_EXEC,
        )
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it is new and open, and has no other owner
    Ok(unsafe { File::from_raw_fd(fd as i32) })
}

/// Whether the kernel has ended a timer. It was opened at `opened_ns`, fired last at `last_ns`, and
/// the kernel says how long it was enabled. This tells a CPU that does not run from one that was
/// offline: the timer of the former is still enabled.
const fn has_ended(opened_ns: u64, last_ns: u64, now_ns: u64, enabled_ns: u64) -> bool {
    let silent = now_ns.saturating_sub(last_ns);
    silent > GAP_NS && enabled_ns < last_ns.saturating_sub(opened_ns) + silent / 2
}

/// A timer that runs until it is dropped, or its CPU goes offline.
pub struct Timer {
    event: File,
    opened_ns: u64,
}

impl Timer {
    /// Starts the timer of a CPU.
    ///
    /// # Errors
    /// If the kernel has no perf events, or refuses them.
    pub fn start(program: BorrowedFd<'_>, cpu: u32, now_ns: u64) -> io::Result<Self> {
        let event = open(cpu)?;
        // SAFETY: both are open, and the argument is a number
        let set = unsafe { libc::ioctl(event.as_raw_fd(), SET_PROGRAM, program.as_raw_fd()) };
        if set < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { event, opened_ns: now_ns })
    }

    /// Whether the kernel has ended it. `tick_ns`: when a timer of this CPU fired last.
    pub fn has_ended(&self, tick_ns: u64, now_ns: u64) -> bool {
        let last = tick_ns.max(self.opened_ns);
        // do not ask a CPU that does not run, unless it is late: the kernel waits for its answer
        if now_ns.saturating_sub(last) <= GAP_NS {
            return false;
        }
        let mut words = [0; 16];
        let read = (&self.event).read_exact(&mut words);
        let (_, enabled) = words.split_at(8);
        let enabled = enabled.try_into().map_or(0, u64::from_ne_bytes);
        read.is_err() || has_ended(self.opened_ns, last, now_ns, enabled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_cpu_that_was_offline_has_lost_its_timer() {
        const MS: u64 = 1_000_000;
        let at = |ms| 5000 * MS + ms * MS;
        // enabled for 800 ms, silent for the last 700: the CPU does not run, or was offline
        assert!(!has_ended(at(0), at(100), at(800), 800 * MS));
        assert!(has_ended(at(0), at(100), at(800), 100 * MS));
        assert!(has_ended(at(0), at(100), at(800), 0));
        assert!(!has_ended(at(0), at(798), at(800), 0));
        // a new timer on a CPU that does not run yet
        assert!(!has_ended(at(0), at(0), at(10), 10 * MS));
    }
}
