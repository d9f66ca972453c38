// SPDX-License-Identifier: MIT OR Apache-2.0
//! The binary: parse the words, run the command, turn the result into an exit code.

use std::env;
use std::io::Write;
use std::io::stderr;
use std::process::ExitCode;

use clap::Parser;
use nvme_deep::cli::Args;
use nvme_deep::cli::Command;
use nvme_deep::diagnose;
use nvme_deep::exit;
use nvme_deep::latency;
use nvme_deep::options::LatencyOptions;
use nvme_deep::options::StacksOptions;
use nvme_deep::options::TraceOptions;
use nvme_deep::stacks;
use nvme_deep::trace;

fn main() -> ExitCode {
    let args = match Args::try_parse_from(env::args_os()) {
        Ok(args) => args,
        Err(error) => {
            // --help and --version are answers, not errors; clap knows which is which
            let code = if error.use_stderr() {
                exit::Kind::Usage
            } else {
                exit::Kind::Ok
            };
            let _ = error.print();
            return code.into();
        }
    };
    let result = match args.command {
        Command::Latency(args) => LatencyOptions::try_from(args).and_then(|o| latency::run(&o)),
        Command::Trace(args) => TraceOptions::try_from(args).and_then(|o| trace::run(&o)),
        Command::Stacks(args) => StacksOptions::try_from(args).and_then(|o| stacks::run(&o)),
        Command::Doctor(args) => diagnose::run(&args),
    };
    match result {
        Ok(()) => exit::Kind::Ok.into(),
        Err(error) if exit::is_closed_pipe(&error) => exit::Kind::Ok.into(),
        Err(error) => {
            let _ = writeln!(stderr(), "nvme-deep: {error:#}");
            exit::kind_of(&error).into()
        }
    }
}
