// SPDX-License-Identifier: MIT OR Apache-2.0
//! System calls that fail: a seccomp filter answers them with an error, as another file system would.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use libc::{
    BPF_ABS, BPF_JEQ, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W, PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP,
    SECCOMP_MODE_FILTER, SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO, c_long, prctl, sock_filter,
    sock_fprog,
};

use crate::binary::{BINARY, Ran};

const fn step(code: u32, jf: u8, k: u32) -> sock_filter {
    sock_filter { code: code as u16, jt: 0, jf, k }
}

/// A filter that answers each of these calls with its error.
fn filter(failing: &[(c_long, i32)]) -> Vec<sock_filter> {
    // the number of the call is the first member of seccomp_data
    let mut program = vec![step(BPF_LD | BPF_W | BPF_ABS, 0, 0)];
    for (call, error) in failing {
        program.push(step(BPF_JMP | BPF_JEQ | BPF_K, 1, *call as u32));
        program.push(step(BPF_RET | BPF_K, 0, SECCOMP_RET_ERRNO | *error as u32));
    }
    program.push(step(BPF_RET | BPF_K, 0, SECCOMP_RET_ALLOW));
    program
}

/// Runs it where these calls fail with these errors.
pub fn run_with(words: &str, failing: &[(c_long, i32)]) -> Ran {
    let mut program = filter(failing);
    let install = move || {
        let all = sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
        // SAFETY: both calls read their arguments only; `all` and its program outlive them.
        let done = unsafe {
            prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
                | prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &all)
        };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    };
    let mut command = Command::new(BINARY);
    command.args(words.split_whitespace());
    // SAFETY: `install` allocates nothing, and makes system calls only.
    unsafe { command.pre_exec(install) };
    Ran::from(&mut command)
}
