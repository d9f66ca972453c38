// SPDX-License-Identifier: MIT OR Apache-2.0
//! The binary: parse the arguments, run the command, convert the result to an exit code.

mod cli;
mod commands;

use std::env;
use std::io::Write;
use std::io::stderr;
use std::process::ExitCode;

use clap::Parser;
use nvme_deep::error;

use crate::cli::args::Args;
use crate::cli::args::Command;
use crate::cli::options::LatencyOptions;
use crate::cli::options::StacksOptions;
use crate::cli::options::TraceOptions;
use crate::commands::doctor;
use crate::commands::latency;
use crate::commands::stacks;
use crate::commands::trace;

fn main() -> ExitCode {
    let args = match Args::try_parse_from(env::args_os()) {
        Ok(args) => args,
        Err(refused) => {
            // clap returns --help and --version as errors, too; these succeed, and print to stdout
            let code = if refused.use_stderr() {
                error::Kind::Usage
            } else {
                error::Kind::Ok
            };
            let _ = refused.print();
            return code.into();
        }
    };
    let result = match args.command {
        Command::Latency(args) => LatencyOptions::try_from(args).and_then(|o| latency::run(&o)),
        Command::Trace(args) => TraceOptions::try_from(args).and_then(|o| trace::run(&o)),
        Command::Stacks(args) => StacksOptions::try_from(args).and_then(|o| stacks::run(&o)),
        Command::Doctor(args) => doctor::run(&args),
    };
    match result {
        Ok(()) => error::Kind::Ok.into(),
        Err(failed) if error::is_closed_pipe(&failed) => error::Kind::Ok.into(),
        Err(failed) => {
            let _ = writeln!(stderr(), "nvme-deep: {failed:#}");
            error::kind_of(&failed).into()
        }
    }
}
