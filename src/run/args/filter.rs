// SPDX-License-Identifier: MIT OR Apache-2.0
//! Filters: which commands a run includes.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::error::{Failure, Kind};
use crate::machine::System;
use crate::machine::disk::Disk;
use crate::model::filter::{Filter, MAX_CTRLS, MAX_LIST};
use crate::nvme::opcode::{Opcode, QueueKind, UnknownOpcode, parse as parse_opcode};
use crate::nvme::subject::parse_nsid;
use anyhow::Result;

use crate::run::args::common::number;
use crate::run::exit::usage;
use crate::settings::Window;

/// Bytes of a thread's name that the kernel keeps (TASK_COMM_LEN without the final zero).
const COMM_LEN: usize = 15;

/// Filters. A command must match all of them.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Filters (combined by AND)")]
pub struct FilterArgs {
    /// Only this disk or partition: `nvme0n1`, `/dev/nvme0n1p1`, or the one that has this file or
    /// directory (`/mnt/data`). All paths of a multipath disk. Of a recording: a whole disk by its name
    #[arg(long, hide_short_help = true, value_name = "DISK", conflicts_with_all = ["ctrl", "nsid", "lba"])]
    pub disk: Option<String>,

    /// Only these controllers (`nvme0` or `0`; separate several by commas)
    #[arg(
        long,
        alias = "ctrl_id",
        hide_short_help = true,
        value_name = "CTRL",
        value_delimiter = ',',
        value_parser = ctrl_instance
    )]
    pub ctrl: Vec<u32>,

    /// Only commands with these namespace ids: `1`, `0x1`; `all` is 0xffffffff
    #[arg(long, hide_short_help = true, value_name = "NSID", value_delimiter = ',', value_parser = parse_nsid)]
    pub nsid: Vec<u32>,

    /// Only these opcodes: names (`read`, `dsm`, `admin:identify`) or numbers (`0x02`, `io:0x02`)
    #[arg(
        long,
        hide_short_help = true,
        value_name = "OPCODE",
        value_delimiter = ',',
        value_parser = opcodes
    )]
    pub opcode: Vec<BTreeSet<Opcode>>,

    /// Only commands on these queues; 0 is the admin queue
    #[arg(long, hide_short_help = true, value_name = "QID", value_delimiter = ',', value_parser = number(0..=u16::MAX))]
    pub qid: Vec<u16>,

    /// Exclude admin commands
    #[arg(long, hide_short_help = true, conflicts_with = "no_io")]
    pub no_admin: bool,

    /// Exclude I/O commands
    #[arg(long, hide_short_help = true)]
    pub no_io: bool,

    /// Only commands of these processes: process ids, or names of threads (`fio,1234`)
    ///
    /// `fio[1234]`, as reports print it, is process 1234. The process that submitted the bio if known,
    /// otherwise the one that called the driver, which may be a kernel thread; the report says which. A
    /// command without a bio (passthrough, flush, admin) counts for its caller.
    #[arg(long, aliases = ["pid", "comm"], short_alias = 'p', hide_short_help = true,
          value_name = "PID|NAME", value_delimiter = ',', value_parser = process)]
    pub process: Vec<Process>,

    /// Only commands of this cgroup (v2) or those below it
    ///
    /// A path (`/sys/fs/cgroup/...`, `/system.slice`), a container (at least 8 digits of its id), or the
    /// UID of a Kubernetes pod. The cgroup of the bio: for writeback, the one that wrote. Commands
    /// without a bio count for their caller.
    #[arg(long, short, alias = "container", hide_short_help = true, value_name = "PATH|ID")]
    pub cgroup: Option<String>,

    /// Only commands that touch a logical block in this range: `FIRST-LAST` or one number. Commands
    /// without a start LBA are excluded
    #[arg(long, hide_short_help = true, value_name = "RANGE", value_parser = lba_range)]
    pub lba: Option<(u64, u64)>,

    #[command(flatten)]
    pub window: Window,
}

/// Parses the name or number of a controller.
///
/// # Errors
/// If it is not a controller; one sentence.
pub fn ctrl_instance(text: &str) -> Result<u32, String> {
    let name = text.strip_prefix("/dev/").unwrap_or(text);
    let number = name.strip_prefix("nvme").unwrap_or(name);
    Some(number)
        .filter(|n| n.bytes().all(|b| b.is_ascii_digit()))
        .and_then(|n| n.parse().ok())
        .filter(|&n| n < MAX_CTRLS)
        .ok_or_else(|| {
            format!(
                "`{text}` is not a controller: give its name or number, as in `--ctrl nvme0` \
                 (namespaces are chosen by --nsid)"
            )
        })
}

fn opcodes(text: &str) -> Result<BTreeSet<Opcode>, UnknownOpcode> {
    Ok(parse_opcode(text)?.into_iter().collect())
}

fn block(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

/// `FIRST-LAST` or a single number, decimal or hexadecimal.
fn lba_range(text: &str) -> Result<(u64, u64), String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = block(first).zip(block(last)).ok_or_else(|| {
        format!(
            "`{text}` is not a range of logical blocks: give `FIRST-LAST`, as in `--lba 2048-4095`"
        )
    })?;
    if first > last {
        return Err(format!("`{text}` ends before it begins: give the lower block first"));
    }
    Ok((first, last))
}

/// A process that a filter asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Process {
    Pid(u32),
    /// The name of a thread.
    Named(String),
}

fn process(text: &str) -> Result<Process, String> {
    // as reports print it: `fio[1234]`
    let in_brackets = text.strip_suffix(']').and_then(|text| text.rsplit_once('['));
    if let Some(pid) = in_brackets.and_then(|(_, pid)| pid.parse().ok()) {
        return Ok(Process::Pid(pid));
    }
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        let number = text.parse().map(Process::Pid);
        return number.map_err(|_| format!("expected a process id up to {}", u32::MAX));
    }
    if text.is_empty() || text.len() > COMM_LEN {
        return Err(format!(
            "`{text}` can't match: the kernel keeps {COMM_LEN} bytes of a thread's name, as \
             /proc/PID/comm shows it"
        ));
    }
    Ok(Process::Named(text.into()))
}

fn at_most<T: Ord>(values: impl IntoIterator<Item = T>, flag: &str) -> Result<BTreeSet<T>> {
    let set: BTreeSet<T> = values.into_iter().collect();
    if set.len() > MAX_LIST {
        return Err(usage(format!("{flag} takes at most {MAX_LIST} values, not {}", set.len())));
    }
    Ok(set)
}

/// The disk of `--disk`.
///
/// # Errors
/// If it is not one NVMe disk or a partition of one.
pub(crate) fn disk_of(text: &str) -> Result<Disk> {
    System::at("/").disk(text).map_err(|error| Failure::error(Kind::NoDevice, error))
}

fn check(filter: &Filter) -> Result<()> {
    if filter.no_admin && filter.qids.len() == 1 && filter.qids.contains(&0) {
        return Err(usage(
            "--qid 0 is the admin queue, which --no-admin leaves out: drop one of the two",
        ));
    }
    if filter.no_io && !filter.qids.is_empty() && !filter.qids.contains(&0) {
        return Err(usage(
            "--no-io leaves only queue 0, which --qid does not name: drop one of the two",
        ));
    }
    let io = |op: &Opcode| op.queue == QueueKind::Io;
    if filter.no_io && !filter.opcodes.is_empty() && filter.opcodes.iter().all(io) {
        return Err(usage(
            "--no-io leaves no command with these opcodes: drop it, or name admin commands \
                 (`admin:identify`)",
        ));
    }
    if filter.no_io && filter.lba.is_some() {
        return Err(usage(
            "--lba is about I/O commands, which --no-io leaves out: drop one of the two",
        ));
    }
    Ok(())
}

impl FilterArgs {
    /// The part of a recording that is read: the time, and the disk.
    pub fn part(&self) -> Window {
        let name = |disk: &String| disk.strip_prefix("/dev/").unwrap_or(disk).to_owned();
        Window { disk: self.disk.as_ref().map(name), ..self.window.clone() }
    }

    /// The filter of a run. `is_recorded`: it reads recordings, which may be of another machine.
    ///
    /// # Errors
    /// If it leaves no command; if it asks for a disk or a cgroup that this machine does not have.
    pub fn filter(&self, is_recorded: bool) -> Result<Filter> {
        if let Some((option, _)) = self.window.options().next().filter(|_| !is_recorded) {
            return Err(usage(format!(
                "{option} is a time of a recording, and this command traces: give a recording"
            )));
        }
        let cgroup = self.cgroup.as_deref().map(|text| match is_recorded {
            true => Ok(PathBuf::from(text)),
            false => System::at("/").container(text).map_err(usage),
        });
        let pids = self.process.iter().filter_map(|process| match process {
            Process::Pid(pid) => Some(*pid),
            Process::Named(_) => None,
        });
        let comms = self.process.iter().filter_map(|process| match process {
            Process::Pid(_) => None,
            Process::Named(name) => Some(name.clone()),
        });
        let mut filter = Filter {
            ctrls: self.ctrl.iter().copied().collect(),
            nsids: at_most(self.nsid.iter().copied(), "--nsid")?,
            opcodes: self.opcode.iter().flatten().copied().collect(),
            qids: at_most(self.qid.iter().copied(), "--qid")?,
            no_admin: self.no_admin,
            no_io: self.no_io,
            pids: at_most(pids, "--process")?,
            comms: at_most(comms, "--process")?,
            cgroup: cgroup.transpose()?,
            lba: self.lba,
            ..Filter::default()
        };
        // a recording knows its own disks: see FilterArgs::part
        if let Some(disk) = self.disk.as_ref().filter(|_| !is_recorded) {
            let disk = disk_of(disk)?;
            filter.ctrls = disk.controllers.into_iter().collect();
            filter.nsids = BTreeSet::from([disk.nsid]);
            filter.lba = disk.blocks;
        }
        check(&filter)?;
        Ok(filter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Command;
    use crate::cli::tests::parsed;

    fn parse(words: &str) -> Result<Filter> {
        match parsed(&format!("latency {words}"))? {
            Command::Latency(args) => args.session.filter.filter(false),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_options_of_a_filter_are_short() {
        let same = [
            "--ctrl nvme0,nvme3 --nsid 1 --qid 1,2 --opcode admin:identify,io:read --no-admin",
            "--opcode io:0x9d --process 7,fio --cgroup /sys/fs/cgroup/a --lba 5-9",
            "--process=-bash,fio",
        ]
        .map(|words| (words, words));
        let shorter = [
            (
                "--ctrl 1 --opcode 0x02 --lba 0x10",
                "--ctrl nvme1 --opcode admin:get-log-page,io:read --lba 16-16",
            ),
            ("--process a*b", "--process 'a*b'"),
            ("--process dd[7],[8]", "--process 7,8"),
            ("-p 7 --pid 8 --comm dd --container /x", "--process 7,8,dd --cgroup /x"),
        ];
        for (words, text) in same.into_iter().chain(shorter) {
            assert_eq!(parse(words).unwrap().text(), text);
        }
    }

    #[test]
    fn filters_that_leave_nothing_are_refused() {
        for (words, says) in [
            ("--no-admin --no-io", "'--no-admin' cannot be used with '--no-io'"),
            ("--no-io --qid 1", "leaves only queue 0"),
            ("--no-io --opcode read", "no command with these opcodes"),
            ("--no-io --lba 1", "--lba is about I/O"),
        ] {
            let text = parse(words).unwrap_err().to_string();
            assert!(text.contains(says), "{words}: {text}");
        }
        assert!(parse("--no-io --qid 0 --opcode admin:identify").is_ok());
    }
}
