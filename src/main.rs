// SPDX-License-Identifier: MIT OR Apache-2.0
//! The program. All of it is in the library: `cli` parses the arguments and runs the command.

use std::env::args_os;
use std::process::ExitCode;

fn main() -> ExitCode {
    nvme_deep::cli::program(args_os())
}
