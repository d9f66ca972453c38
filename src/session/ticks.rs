// SPDX-License-Identifier: MIT OR Apache-2.0
//! The timer of a CPU: a perf event of the CPU's clock, whose program finds gaps.

use std::fs::File;
use std::io;
use std::io::Read;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd};

use libbpf_sys::{
    PERF_COUNT_SW_CPU_CLOCK, PERF_FORMAT_TOTAL_TIME_ENABLED, PERF_TYPE_SOFTWARE, perf_event_attr,
};

use crate::abi::{GAP_NS, TICK_NS};

/// The program (bpf/nvme_deep.bpf.c).
pub const PROGRAM: &str = "tick";

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
