// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the maps. Counters and histograms change while they are read: a snapshot of a running
//! session may be inconsistent by the commands of that instant, one of a detached session is not.

use super::Session;
use super::mapping::Values;
use super::rings::SortedRings;
use crate::abi::{
    DecodeError, STACK_UNSEEN, SlotState, add_cell, add_counters, add_rowless, add_zero_waits,
    decode_event, failures, open_command, stack_frames, unfinished, unused_words, words,
};
use crate::error::failed;
use crate::model::counters::{Counters, Failures};
use crate::model::event::{Event, OpenCommand, StackId};
use crate::model::histogram::Histogram;
use crate::model::ids::RowKey;
use crate::model::machine::{RunTimes, Runs, Scan, StackSum};
use crate::model::point::{Pattern, Point, pattern_of};
use crate::model::snapshot::{Cell, Snapshot};
use crate::probe::catalog::CATALOG;
use anyhow::{Context, Result, anyhow};
use libbpf_rs::query::{LinkTypeInfo, PerfEventType};
use libbpf_rs::{MapCore, MapFlags, MapHandle, Object, Program};
use libbpf_sys::{BPF_STATS_RUN_TIME, bpf_enable_stats, bpf_prog_get_info_by_fd, bpf_prog_info};
use std::collections::BTreeMap;
use std::mem::zeroed;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::time::Instant;

impl Session {
    /// Reads all maps.
    ///
    /// # Errors
    /// If a map cannot be read.
    pub fn snapshot(&self) -> Result<Snapshot> {
        let mut snapshot = Snapshot {
            misses: self.misses(),
            counters: self.counters()?,
            failures: self.failures()?,
            ..Snapshot::default()
        };
        self.add_cells(&mut snapshot)?;
        self.add_rowless(&mut snapshot)?;
        self.regroup(&mut snapshot)?;
        Ok(snapshot)
    }

    /// The rows in use: number and key.
    fn rows(&self) -> Result<BTreeMap<u32, u64>> {
        let map = &self.maps.rows;
        let mut all = BTreeMap::new();
        for key in map.keys() {
            let Some(row) = map.lookup(&key, MapFlags::ANY)? else {
                continue;
            };
            let key = words(&key).first().copied();
            let row = row.try_into().ok().map(u32::from_ne_bytes);
            let row = row.context("a row number of the wrong size")?;
            all.insert(row, key.context("a row key of the wrong size")?);
        }
        Ok(all)
    }

    /// Adds the histograms of all rows.
    pub(super) fn add_cells(&self, snapshot: &mut Snapshot) -> Result<()> {
        let rows = self.rows()?;
        let values = Values::of(&self.maps.cells)?;
        let mut value = Vec::new();
        let cells = &self.layout.cells;
        let places = (0..cells.groups).flat_map(|group| rows.iter().map(move |row| (group, row)));
        for (group, (row, key)) in places {
            let at = (group * cells.rows + row) as usize;
            let unused = unused_words(self.plan.stage_set);
            if unused.into_iter().all(|word| values.word(at, word) == 0) {
                continue;
            }
            let (row_key, pattern) = self.unpack(*key);
            let cell = snapshot
                .cells
                .entry((row_key, pattern))
                .or_insert_with(|| Cell::empty(self.plan.stage_set));
            values.copy(at, &mut value);
            add_cell(cell, self.plan.stage_set, &value, self.is_shared(group, pattern))
                .map_err(|DecodeError| anyhow!("a cell of the wrong size"))?;
        }
        for ((_, pattern), cell) in &mut snapshot.cells {
            if Point::Bio.seen_in(*pattern) {
                add_zero_waits(cell, *pattern);
            }
        }
        // a new row may still be empty
        snapshot.cells.retain(|_, cell| cell.commands() > 0);
        Ok(())
    }

    /// Adds the commands that found no free row: they have no times.
    pub(super) fn add_rowless(&self, snapshot: &mut Snapshot) -> Result<()> {
        let map = &self.maps.rowless;
        for key in map.keys() {
            let Some(value) = map.lookup(&key, MapFlags::ANY)? else {
                continue;
            };
            let key = words(&key).first().copied().context("a row key of the wrong size")?;
            let cell = snapshot
                .cells
                .entry(self.unpack(key))
                .or_insert_with(|| Cell::empty(self.plan.stage_set));
            add_rowless(cell, &value)
                .map_err(|DecodeError| anyhow!("commands without a row of the wrong size"))?;
        }
        Ok(())
    }

    /// The row of a key, and the pattern of points.
    pub(super) fn unpack(&self, key: u64) -> (RowKey, Pattern) {
        let (row, bits) = RowKey::unpack(key);
        (row, pattern_of(bits, self.before))
    }

    /// Whether several programs may add to a cell of this group and pattern at the same time: on different CPUs,
    /// or those that find commands that were missed.
    pub(super) fn is_shared(&self, group: u32, pattern: Pattern) -> bool {
        let complete = Point::ALL.iter().filter(|m| m.pattern_bit().is_none());
        let mut missed = complete.filter(|m| !m.seen_in(pattern));
        let without_end =
            self.plan.recovers && self.plan.stage_set.is_fine() && !Point::End.seen_in(pattern);
        self.layout.cells.is_shared(group)
            || self.plan.needs_atomics()
            || missed.next().is_some()
            || without_end
    }

    /// Failed and retried commands of each controller that has slots; empty if the run does not
    /// count them.
    fn failures(&self) -> Result<BTreeMap<u32, Failures>> {
        let Some(map) = &self.maps.failures else {
            return Ok(BTreeMap::new());
        };
        let of = |ctrl: &u32| {
            let found = failures(&lookup(map, *ctrl)?);
            let found = found.map_err(|DecodeError| anyhow!("failures of the wrong size"))?;
            Ok((*ctrl, found))
        };
        self.placed.keys().map(of).collect()
    }

    /// Reads the counters only.
    ///
    /// # Errors
    /// If the map cannot be read.
    pub fn counters(&self) -> Result<Counters> {
        counters(&self.maps.cpus, self.layout.cpus)
    }

    /// The frames of a stack, innermost first; `None` if there is no such stack.
    ///
    /// # Errors
    /// If the map cannot be read.
    pub fn stack(&self, id: StackId) -> Result<Option<Vec<u64>>> {
        let value = self.maps.stacks.lookup(&id.0.to_ne_bytes(), MapFlags::ANY)?;
        let frames = value.map(|v| stack_frames(&v)).transpose();
        frames.map_err(|DecodeError| anyhow!("a stack of the wrong size"))
    }

    /// Every stack with the latencies of its commands, and the number of commands without one.
    ///
    /// # Errors
    /// If a map cannot be read.
    pub fn stack_sums(&self) -> Result<Vec<StackSum>> {
        let sums = &self.maps.stack_sums;
        let mut all = Vec::new();
        for key in sums.keys() {
            let Some(value) = sums.lookup(&key, MapFlags::ANY)? else {
                continue;
            };
            let words = words(&value);
            let (hist, unmeasured) = match words.as_slice() {
                [sum, max, buckets @ .., unmeasured] => {
                    // all CPUs add to it
                    let hist = Histogram::from_parts(buckets, *sum, *max);
                    (hist.map(Histogram::with_shared_max), *unmeasured)
                }
                _ => (None, 0),
            };
            let id = key.try_into().ok().map(u64::from_ne_bytes);
            let id = id.context("a stack's number of the wrong size")?;
            let frames = match StackId(id) {
                STACK_UNSEEN => None,
                id => Some(self.stack(id)?.context("a stack without frames")?),
            };
            let hist = hist.context("a histogram of the wrong size")?;
            all.push(StackSum { addresses: frames, hist, unmeasured });
        }
        Ok(all)
    }

    /// The commands that have not completed, as events. The session must be detached.
    ///
    /// # Errors
    /// If the map cannot be read.
    pub fn unfinished(&self, now_ns: u64) -> Result<Vec<Event>> {
        let mut all = Vec::new();
        self.each_held(|_, _, value| {
            all.extend(unfinished(value, now_ns)?);
            Ok(())
        })?;
        Ok(all)
    }

    /// The commands in flight of a trace, while the programs are attached: the slots are read one
    /// after the other.
    ///
    /// # Errors
    /// If the map cannot be read.
    pub fn open_commands(&self) -> Result<Vec<OpenCommand>> {
        let mut all = Vec::new();
        self.each_held(|_, _, value| {
            all.extend(open_command(value)?);
            Ok(())
        })?;
        Ok(all)
    }

    /// Counts in all slots the commands that have not completed, or not ended. The session must be
    /// detached.
    ///
    /// # Errors
    /// If the map cannot be read.
    pub fn scan(&self) -> Result<Scan> {
        let mut scan = Scan::default();
        self.each_held(|_, state, _| {
            match state {
                SlotState::InFlight => scan.in_flight += 1,
                SlotState::Ending => scan.ending += 1,
                SlotState::Idle => {}
            }
            Ok(())
        })?;
        Ok(scan)
    }

    /// How often the kernel skipped each program during the run, by hook number: because it was
    /// already running on that CPU, or, for kprobe and tracepoint programs, because any such
    /// program was. Zero if the kernel does not count (recursion before 5.12, the others before
    /// 6.7).
    pub fn misses(&self) -> Vec<u64> {
        let mut misses = self.missed();
        for (number, info) in self.infos() {
            misses[number] += info.recursion_misses;
        }
        let before = self.missed_before.iter();
        misses.iter_mut().zip(before).for_each(|(n, was)| *n = n.saturating_sub(*was));
        misses
    }

    /// How often and how long each program ran, by hook number, and the time that this covers, in
    /// nanoseconds. `None` if not requested, or if the kernel refuses (it requires CAP_SYS_ADMIN).
    pub fn run_times(&self) -> Option<RunTimes> {
        let (_, begin) = self.stats.as_ref()?;
        let mut runs = vec![Runs::default(); CATALOG.len()];
        for (number, info) in self.infos() {
            runs[number] = Runs { count: info.run_cnt, ns: info.run_time_ns };
        }
        let elapsed = self.detached_after.unwrap_or_else(|| begin.elapsed());
        Some(RunTimes { runs, elapsed_ns: u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX) })
    }

    /// The kernel's information about each program of the plan.
    fn infos(&self) -> Vec<(usize, bpf_prog_info)> {
        let mut infos = Vec::new();
        let hooks = self.plan.hooks();
        for program in self.loaded.0.progs() {
            let number = CATALOG.iter().position(|h| program.name() == h.program);
            let Some(number) = number.filter(|n| hooks.contains(n)) else {
                continue;
            };
            infos.extend(program_info(&program).map(|info| (number, info)));
        }
        infos
    }

    /// Makes the kernel measure run times from now on, while the file is open.
    pub(super) fn measure(&mut self) {
        self.stats = enable_stats().map(|file| (file, Instant::now()));
    }

    /// Number of events that kprobes missed before any program was called (`nmissed`), by hook
    /// number.
    pub(super) fn missed(&self) -> Vec<u64> {
        let mut missed = self.missed.clone();
        for (number, link) in &self.links {
            // 5.10 has no info about such links: unknown, see `misses_counted` of the plan
            if let Ok(info) = link.info()
                && let LinkTypeInfo::PerfEvent(event) = info.info
                && let PerfEventType::Kprobe { missed: n, .. } = event.event_type
            {
                missed[*number] += n;
            }
        }
        missed
    }
}

fn counters(cpus: &MapHandle, count: u32) -> Result<Counters> {
    let mut counters = Counters::default();
    for cpu in 0..count {
        let value = lookup(cpus, cpu)?;
        add_counters(&mut counters, &value)
            .map_err(|DecodeError| anyhow!("a CPU's counters of the wrong size"))?;
    }
    Ok(counters)
}

/// The name of a map.
pub(super) fn name_of(map: &dyn MapCore) -> String {
    map.name().to_string_lossy().into_owned()
}

pub(super) fn lookup(map: &dyn MapCore, index: u32) -> Result<Vec<u8>> {
    let value = map.lookup(&index.to_ne_bytes(), MapFlags::ANY);
    let value = value.map_err(|e| failed(format!("read map `{}`", name_of(map)))(e))?;
    value.with_context(|| format!("map `{}` has no entry {index}", name_of(map)))
}

/// The kernel's information about a program.
fn program_info(program: &Program<'_>) -> Option<bpf_prog_info> {
    // SAFETY: a C struct of integers, for which zero is a valid value; the kernel reads it too
    let mut info: bpf_prog_info = unsafe { zeroed() };
    let mut len = size_of::<bpf_prog_info>() as u32;
    let fd = program.as_fd().as_raw_fd();
    // SAFETY: the fd is open while `program` lives, `info` is `len` bytes owned here
    let done = unsafe { bpf_prog_get_info_by_fd(fd, &mut info, &mut len) };
    (done == 0).then_some(info)
}

/// Makes the kernel measure run times while the file is open. `None` if it refuses.
pub(super) fn enable_stats() -> Option<OwnedFd> {
    // SAFETY: takes a number and returns a new file descriptor, or a negative error
    let fd = unsafe { bpf_enable_stats(BPF_STATS_RUN_TIME) };
    // SAFETY: if it is not negative, it is new and open, and has no other owner
    (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Runs of a program since its load.
pub(super) struct ProgramRuns {
    /// Runs that were measured, and their time in nanoseconds.
    pub(super) count: u64,
    pub(super) ns: u64,
    /// Runs that the kernel skipped.
    pub(super) misses: u64,
}

/// The runs of each loaded program of an object, by name.
pub(super) fn program_runs(object: &Object) -> BTreeMap<String, ProgramRuns> {
    let loaded = object.progs().filter(|p| p.autoload());
    let runs = loaded.filter_map(|program| {
        let info = program_info(&program)?;
        let runs = ProgramRuns {
            count: info.run_cnt,
            ns: info.run_time_ns,
            misses: info.recursion_misses,
        };
        Some((program.name().to_string_lossy().into_owned(), runs))
    });
    runs.collect()
}

/// The events of a session: read from its rings, sorted by time, and decoded.
pub struct LiveEvents {
    pub(crate) rings: SortedRings,
    /// The points before the request that the run observes.
    pub(crate) before: Pattern,
}

impl LiveEvents {
    /// Reads what has come. [`LiveEvents::next_event`] then returns the events before which none can come any
    /// more. With `all`, every one that is left, after the end of a run. Returns true if there may be
    /// more.
    ///
    /// # Errors
    /// If a ring cannot be read.
    pub fn fetch(&mut self, all: bool) -> Result<bool> {
        self.rings.fetch(all)
    }

    /// Decodes the next event, in the order of time.
    #[inline]
    pub fn next_event(&mut self, to: &mut Event) -> Option<std::result::Result<(), DecodeError>> {
        let before = self.before;
        self.rings.next(|bytes| decode_event(bytes, before, to))
    }

    /// The time of the latest event that was fetched.
    pub fn last_ns(&self) -> u64 {
        self.rings.last_ns()
    }

    /// Number of events that were passed on after a later one.
    pub fn late(&self) -> u64 {
        self.rings.late()
    }
}

#[cfg(test)]
impl LiveEvents {
    /// Without rings: records come by [`LiveEvents::push`].
    pub fn of_none() -> Self {
        Self { rings: SortedRings::of_none(), before: 0 }
    }

    /// Adds a record.
    pub fn push(&mut self, record: &[u8]) {
        self.rings.push(crate::abi::event_time(record).unwrap_or(0), record);
    }
}
