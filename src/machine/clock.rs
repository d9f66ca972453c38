// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's clocks.

#[cfg(target_arch = "x86_64")]
use core::arch::x86_64::_mm_lfence;
#[cfg(target_arch = "x86_64")]
use core::arch::x86_64::_rdtsc;
use std::ffi::OsString;
use std::fs;
use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;

use rustix::time::ClockId;
use rustix::time::DynamicClockId;
use rustix::time::Timespec;
use rustix::time::clock_gettime;
use rustix::time::clock_gettime_dynamic;

use super::System;
use crate::model::clock::ClockReading;
use crate::model::clock::SharedClock;

/// Readings of which the best is kept.
const TRIES: u32 = 5;
/// Time between two readings in a recording.
const EVERY_NS: u64 = 1_000_000_000;
/// The name that the driver ptp_kvm gives its clock.
const PTP_KVM: &str = "KVM virtual PTP";

fn as_ns(time: Timespec) -> u64 {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// CLOCK_MONOTONIC in nanoseconds, the clock of `bpf_ktime_get_ns`.
pub fn monotonic_ns() -> u64 {
    as_ns(clock_gettime(ClockId::Monotonic))
}

/// Reads a clock between two readings of CLOCK_MONOTONIC. The reading with the smallest gap between
/// these is the most accurate.
fn read(clock: SharedClock, value: &dyn Fn() -> Option<u64>) -> Option<ClockReading> {
    let once = || {
        let before = monotonic_ns();
        let value = value()?;
        let error_ns = (monotonic_ns() - before).div_ceil(2);
        Some(ClockReading {
            clock,
            value,
            mono_ns: before + error_ns,
            error_ns,
            guest: None,
        })
    };
    let all = (0..TRIES).filter_map(|_| once());
    all.min_by_key(|reading| reading.error_ns)
}

fn wall() -> Option<ClockReading> {
    read(SharedClock::Wall, &|| {
        Some(as_ns(clock_gettime(ClockId::Realtime)))
    })
}

/// The offset to add to CLOCK_MONOTONIC for the time since 1970, in nanoseconds. It changes when
/// the clock is set.
pub fn wall_offset_ns() -> i64 {
    wall().map_or(0, |r| r.value.cast_signed() - r.mono_ns.cast_signed())
}

#[cfg(target_arch = "x86_64")]
fn tsc() -> Option<u64> {
    // SAFETY: the first instruction keeps the second, which reads a counter, from being executed early
    Some(unsafe {
        _mm_lfence();
        _rdtsc()
    })
}

#[cfg(not(target_arch = "x86_64"))]
fn tsc() -> Option<u64> {
    None
}

/// The name of the device of ptp_kvm's clock, which exists in guests of KVM.
pub(super) fn kvm_ptp(system: &System) -> Option<OsString> {
    let is_kvm = |dir: &Path| {
        let name = fs::read_to_string(dir.join("clock_name"));
        name.is_ok_and(|name| name.trim() == PTP_KVM)
    };
    let all = fs::read_dir(system.path("sys/class/ptp")).ok()?;
    let mut all = all.flatten().filter(|entry| is_kvm(&entry.path()));
    all.next().map(|entry| entry.file_name())
}

/// The clocks of this machine that recordings of two machines can be compared by.
#[derive(Debug)]
pub struct SharedClocks {
    /// The clock of ptp_kvm: the host's wall clock.
    ptp: Option<File>,
    /// When to read them again.
    due_ns: u64,
    /// The process whose virtual machine's TSC is read, too.
    machine: Option<(System, u32)>,
}

impl SharedClocks {
    /// Looks for them. The clock of ptp_kvm exists in a guest of KVM in which that module is loaded.
    pub fn look(system: &System) -> Self {
        let ptp = kvm_ptp(system).and_then(|name| File::open(system.path("dev").join(name)).ok());
        Self {
            ptp,
            due_ns: 0,
            machine: None,
        }
    }

    /// Also reads how the TSC of this process's virtual machine differs.
    pub fn with_machine(mut self, system: &System, pid: Option<u32>) -> Self {
        self.machine = pid.map(|pid| (system.clone(), pid));
        self
    }

    /// Reads each of them, if that was not done within the last second.
    pub fn read_if_due(&mut self) -> Option<Vec<ClockReading>> {
        let now_ns = monotonic_ns();
        if now_ns < self.due_ns {
            return None;
        }
        self.due_ns = now_ns + EVERY_NS;
        Some(self.read())
    }

    /// Reads each of them.
    pub fn read(&self) -> Vec<ClockReading> {
        let host_wall = || {
            let id = DynamicClockId::Dynamic(self.ptp.as_ref()?.as_fd());
            clock_gettime_dynamic(id).ok().map(as_ns)
        };
        let mut ticks = read(SharedClock::Tsc, &tsc);
        if let Some((reading, (system, pid))) = ticks.as_mut().zip(self.machine.as_ref()) {
            reading.guest = system.tsc_scale(*pid);
        }
        let all = [wall(), ticks, read(SharedClock::HostWall, &host_wall)];
        all.into_iter().flatten().collect()
    }
}
