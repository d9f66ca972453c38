// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stands in for the session where the program was built without the feature `live`: nothing can be
//! attached, so none of these types has a value.

use std::collections::BTreeMap;
use std::path::Path;

use crate::abi::DecodeError;
use crate::error::{Failure, Kind};
use crate::machine::System;
use crate::machine::inflight::Memory;
use crate::machine::kernel::Look;
use crate::machine::types::Types;
use crate::model::activity::Activity;
use crate::model::counters::Counters;
use crate::model::event::{Event, OpenCommand, StackId};
use crate::model::ids::QueueId;
use crate::model::ledger::Ledger;
use crate::model::machine::{ControllerInfo, RunTimes, Scan, StackSum};
use crate::model::snapshot::Snapshot;
use crate::model::target::{HostController, TargetInfo};
use crate::probe::facts::KernelFacts;
use crate::probe::plan::AttachPlan;
use crate::settings::{ChosenTarget, HostOptions, OriginDetail, Settings, ToEvents};
use anyhow::{Error, Result};

/// The session of a run.
pub enum Session {}

/// What [`Session::rings`] returns.
pub struct Rings {
    /// Size of each ring in bytes.
    pub bytes: u32,
}

/// The CPUs and the memory of this machine.
pub enum Capacity {}

/// The sizes of the maps.
pub struct Layout {
    /// Memory that they take.
    pub bytes: usize,
}

/// The events of a session.
pub enum LiveEvents {}

/// The memory of the kernel.
pub enum KernelMemory {}

fn not_live() -> Error {
    let text = "this nvme-deep was built without the feature `live`: it reads recordings (--from FILE), and \
                cannot trace this machine";
    Failure::error(Kind::Usage, text)
}

/// Refuses to trace.
///
/// # Errors
/// Always.
pub fn prepare(_copy_to: Option<fn(&str)>) -> Result<()> {
    Err(not_live())
}

pub fn kernel_facts(
    system: &System,
    file: Option<&Path>,
    may_use_module_btf: bool,
    look: Look,
) -> Result<(KernelFacts, Types)> {
    system.kernel_facts(file, may_use_module_btf, look)
}

pub fn attach(
    _system: &System,
    _settings: &Settings,
    _layout: &Layout,
    _controllers: &[ControllerInfo],
    _irq_entry: Option<(u64, u64)>,
    _notice: &mut dyn FnMut(&str),
) -> Result<Session> {
    Err(not_live())
}

impl Rings {
    pub const fn total(&self) -> usize {
        self.bytes as usize
    }
}

impl Capacity {
    pub fn of(_system: &System) -> Result<Self> {
        Err(not_live())
    }
}

impl Layout {
    pub const fn new(
        _settings: &Settings,
        _capacity: &Capacity,
        _controllers: &[ControllerInfo],
    ) -> Self {
        Self { bytes: 0 }
    }

    pub fn remark(&self) -> Result<Option<String>> {
        Err(not_live())
    }
}

impl Session {
    pub const fn plan(&self) -> &AttachPlan {
        match *self {}
    }

    pub const fn rings(&self) -> Rings {
        match *self {}
    }

    pub const fn can_read_status(&self) -> bool {
        match *self {}
    }

    pub const fn origin(&self) -> OriginDetail {
        match *self {}
    }

    pub const fn place(&mut self, _controller: &ControllerInfo) -> Result<bool> {
        match *self {}
    }

    pub const fn events(&self) -> Result<LiveEvents> {
        match *self {}
    }

    pub const fn snapshot(&self) -> Result<Snapshot> {
        match *self {}
    }

    pub const fn counters(&self) -> Result<Counters> {
        match *self {}
    }

    pub const fn misses(&self) -> Vec<u64> {
        match *self {}
    }

    pub const fn run_times(&self) -> Option<RunTimes> {
        match *self {}
    }

    pub const fn stack(&self, _id: StackId) -> Result<Option<Vec<u64>>> {
        match *self {}
    }

    pub const fn stack_sums(&self) -> Result<Vec<StackSum>> {
        match *self {}
    }

    pub const fn activity(&self) -> Result<Option<Activity>> {
        match *self {}
    }

    pub const fn unfinished(&self, _now_ns: u64) -> Result<Vec<Event>> {
        match *self {}
    }

    pub const fn open_commands(&self) -> Result<Vec<OpenCommand>> {
        match *self {}
    }

    pub const fn scan(&self) -> Result<Scan> {
        match *self {}
    }

    pub const fn end(&mut self) -> Result<()> {
        match *self {}
    }

    pub const fn in_flight(&self) -> Result<BTreeMap<u32, u64>> {
        match *self {}
    }

    pub const fn in_flight_by_queue(&self) -> Result<BTreeMap<QueueId, u64>> {
        match *self {}
    }

    pub const fn queue_counts(&self) -> Result<Option<BTreeMap<QueueId, u64>>> {
        match *self {}
    }

    pub const fn set_slow_bar(&self, _ns: u64) -> Result<()> {
        match *self {}
    }

    pub const fn assign_new_groups(&mut self) -> Result<()> {
        match *self {}
    }

    pub const fn tend_timers(&mut self) -> Result<Option<String>> {
        match *self {}
    }
}

impl LiveEvents {
    pub const fn fetch(&mut self, _all: bool) -> Result<bool> {
        match *self {}
    }

    pub const fn next_event(&mut self, _to: &mut Event) -> Option<Result<(), DecodeError>> {
        match *self {}
    }

    pub const fn last_ns(&self) -> u64 {
        match *self {}
    }

    pub const fn late(&self) -> u64 {
        match *self {}
    }
}

impl KernelMemory {
    pub fn open() -> Result<Self> {
        Err(not_live())
    }
}

impl Memory for KernelMemory {
    fn read(&mut self, _at: u64, _to: &mut [u8]) -> bool {
        match *self {}
    }
}

/// A target that is traced.
pub enum HostSession {}

pub fn target(
    _system: &System,
    _chosen: ChosenTarget,
    _options: HostOptions,
) -> Result<HostSession> {
    Err(not_live())
}

impl HostSession {
    pub const fn target(&self) -> &TargetInfo {
        match *self {}
    }

    pub const fn probes(&self) -> usize {
        match *self {}
    }

    pub const fn controllers(&self) -> &[HostController] {
        match *self {}
    }

    pub const fn alive(&self) -> Result<()> {
        match *self {}
    }

    pub const fn take(&mut self, _to: ToEvents<'_>) -> Result<bool> {
        match *self {}
    }

    pub const fn end(&mut self, _to: ToEvents<'_>) -> Result<Ledger> {
        match *self {}
    }
}
