// SPDX-License-Identifier: MIT OR Apache-2.0
//! The timer of each CPU (`--context`): a perf event of the CPU's clock, whose program finds gaps.
//! libbpf attaches the program, but opens no perf events.

use std::io;
use std::mem::size_of;
use std::mem::zeroed;
use std::os::fd::AsRawFd;
use std::os::fd::FromRawFd;
use std::os::fd::IntoRawFd;
use std::os::fd::OwnedFd;

use libbpf_rs::Link;
use libbpf_rs::ProgramMut;
use libbpf_sys::PERF_COUNT_SW_CPU_CLOCK;
use libbpf_sys::PERF_TYPE_SOFTWARE;
use libbpf_sys::perf_event_attr;

use crate::abi::TICK_NS;

/// The program (bpf/nvme_deep.bpf.c).
pub const PROGRAM: &str = "tick";

/// PERF_FLAG_FD_CLOEXEC of linux/perf_event.h.
const CLOSE_ON_EXEC: libc::c_ulong = 8;

/// Opens the timer of a CPU. It counts for all tasks, also while the CPU is idle.
fn open(cpu: u32) -> io::Result<OwnedFd> {
    // SAFETY: a C struct of integers and bit fields, for which zero is a valid value
    let mut attr: perf_event_attr = unsafe { zeroed() };
    attr.type_ = PERF_TYPE_SOFTWARE;
    attr.size = size_of::<perf_event_attr>() as u32;
    attr.config = PERF_COUNT_SW_CPU_CLOCK.into();
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
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// Starts the timer of a CPU.
///
/// # Errors
/// If the kernel has no perf events, or refuses them.
pub fn start(program: &ProgramMut<'_>, cpu: u32) -> io::Result<Link> {
    let event = open(cpu)?;
    let link = program
        .attach_perf_event(event.as_raw_fd())
        .map_err(io::Error::other)?;
    // the link closes it
    let _ = event.into_raw_fd();
    Ok(link)
}
