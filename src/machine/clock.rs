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
use std::sync::OnceLock;

use rustix::time::{ClockId, DynamicClockId, Timespec, clock_gettime, clock_gettime_dynamic};

use super::System;
use crate::model::machine::{ClockReading, SharedClock};

/// Readings; the best is kept.
const TRIES: u32 = 5;
/// Time between two readings in a recording.
const EVERY_NS: u64 = 1_000_000_000;
/// Clock sources that are read from a device or by the hypervisor: a reading takes about 1 us or more.
const SLOW: [&str; 4] = ["acpi_pm", "hpet", "hyperv_clocksource_msr", "pit"];
/// The name that the driver ptp_kvm gives its clock.
const PTP_KVM: &str = "KVM virtual PTP";

fn as_ns(time: Timespec) -> u64 {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// The nanoseconds by which a time namespace shifts CLOCK_MONOTONIC, from the directory of a process
/// in /proc.
fn namespace_offset_ns(process: &Path) -> i64 {
    let namespace = |name: &str| fs::read_link(process.join("ns").join(name)).ok();
    // these offsets apply to future children, which may get a namespace of their own
    if namespace("time") != namespace("time_for_children") {
        return 0;
    }
    let text = fs::read_to_string(process.join("timens_offsets")).unwrap_or_default();
    let offset = text.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        words.next().filter(|clock| *clock == "monotonic")?;
        let (seconds, nanos): (i64, i64) =
            (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        seconds.checked_mul(1_000_000_000)?.checked_add(nanos)
    });
    offset.unwrap_or(0)
}

/// The kernel's CLOCK_MONOTONIC in nanoseconds, the clock of `bpf_ktime_get_ns`. In a time namespace,
/// the clock that this process reads differs from it.
pub fn monotonic_ns() -> u64 {
    static OFFSET_NS: OnceLock<i64> = OnceLock::new();
    let offset = *OFFSET_NS.get_or_init(|| namespace_offset_ns(Path::new("/proc/self")));
    let here = as_ns(clock_gettime(ClockId::Monotonic));
    here.saturating_add_signed(offset.saturating_neg())
}

/// Reads a clock between two readings of CLOCK_MONOTONIC. The reading with the smallest gap between
/// these is the most accurate.
fn read(clock: SharedClock, value: &dyn Fn() -> Option<u64>) -> Option<ClockReading> {
    let once = || {
        let before = monotonic_ns();
        let value = value()?;
        let error_ns = (monotonic_ns() - before).div_ceil(2);
        Some(ClockReading { clock, value, mono_ns: before + error_ns, error_ns, guest: None })
    };
    let all = (0..TRIES).filter_map(|_| once());
    all.min_by_key(|reading| reading.error_ns)
}

fn wall() -> Option<ClockReading> {
    read(SharedClock::Wall, &|| Some(as_ns(clock_gettime(ClockId::Realtime))))
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
fn kvm_ptp(system: &System) -> Option<OsString> {
    let is_kvm = |dir: &Path| {
        let name = fs::read_to_string(dir.join("clock_name"));
        name.is_ok_and(|name| name.trim() == PTP_KVM)
    };
    let all = fs::read_dir(system.path("sys/class/ptp")).ok()?;
    let mut all = all.flatten().filter(|entry| is_kvm(&entry.path()));
    all.next().map(|entry| entry.file_name())
}

/// Whether the kernel needs about 1 us or more to read this clock source.
pub fn is_slow(source: &str) -> bool {
    SLOW.contains(&source)
}

impl System {
    /// The clock source that the kernel uses.
    pub fn clock_source(&self) -> Option<String> {
        self.text("sys/devices/system/clocksource/clocksource0/current_clocksource")
    }
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
        Self { ptp, due_ns: 0, machine: None }
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

#[cfg(test)]
mod tests {
    use super::super::tests::TestMachine;
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_clock_of_the_processor_is_not_slow() {
        let machine = TestMachine::new(&[]);
        assert_eq!(machine.clock_source(), None);
        for (source, slow) in [
            ("tsc", false),
            ("kvm-clock", false),
            ("arch_sys_counter", false),
            ("hyperv_clocksource_tsc_page", false),
            ("hpet", true),
            ("acpi_pm", true),
        ] {
            machine.put("sys/devices/system/clocksource/clocksource0/current_clocksource", source);
            assert_eq!(is_slow(&machine.clock_source().unwrap()), slow, "{source}");
        }
    }

    #[test]
    fn a_time_namespace_shifts_only_the_processes_that_are_in_it() {
        let machine = TestMachine::new(&[]);
        let offset = || namespace_offset_ns(&machine.path(""));
        assert_eq!(offset(), 0);
        for (text, ns) in [
            (
                "monotonic        1000         5\nboottime            7         0\n",
                1_000_000_000_005,
            ),
            ("monotonic          -2 500000000\nboottime            0         0\n", -1_500_000_000),
        ] {
            machine.put("timens_offsets", text);
            assert_eq!(offset(), ns);
        }
        machine.put("ns/x", "");
        symlink("time:[4026531834]", machine.path("ns/time")).unwrap();
        symlink("time:[1]", machine.path("ns/time_for_children")).unwrap();
        assert_eq!(offset(), 0);
    }
}
