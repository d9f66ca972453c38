// SPDX-License-Identifier: MIT OR Apache-2.0
//! Filters: which commands a run includes.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::Error;
use anyhow::Result;
use nvme_deep::abi::MAX_CTRLS;
use nvme_deep::abi::MAX_LIST;
use nvme_deep::error::Kind;
use nvme_deep::machine::System;
use nvme_deep::machine::disk::Disk;
use nvme_deep::model::filter::Filter;
use nvme_deep::nvme::opcode::Opcode;
use nvme_deep::nvme::opcode::QueueKind;
use nvme_deep::nvme::opcode::parse as parse_opcode;

use super::usage;
use crate::cli::args::ExecArgs;
use crate::cli::args::FilterArgs;
use crate::exit::Failure;

/// Bytes of a thread's name that the kernel keeps (TASK_COMM_LEN without the final zero).
const COMM_LEN: usize = 15;

pub fn ctrl_instance(text: &str) -> Result<u32> {
    let name = text.strip_prefix("/dev/").unwrap_or(text);
    let number = name.strip_prefix("nvme").unwrap_or(name);
    Some(number)
        .filter(|n| n.bytes().all(|b| b.is_ascii_digit()))
        .and_then(|n| n.parse().ok())
        .filter(|&n| n < MAX_CTRLS)
        .ok_or_else(|| {
            usage(format!(
                "`{text}` is not a controller: give its name or number, as in `--ctrl nvme0` \
                 (namespaces are chosen by --nsid)"
            ))
        })
}

fn at_most<T>(set: BTreeSet<T>, flag: &str) -> Result<BTreeSet<T>> {
    if set.len() > MAX_LIST {
        return Err(usage(format!(
            "{flag} takes at most {MAX_LIST} values, not {}",
            set.len()
        )));
    }
    Ok(set)
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

/// `FIRST-LAST` or a single number, decimal or hexadecimal.
fn lba_range(text: &str) -> Result<(u64, u64)> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let wrong = || {
        usage(format!(
            "`{text}` is not a range of logical blocks: give `FIRST-LAST`, as in `--lba 2048-4095`"
        ))
    };
    let first = number(first).ok_or_else(wrong)?;
    let last = number(last).ok_or_else(wrong)?;
    if first > last {
        return Err(usage(format!(
            "`--lba {text}` ends before it begins: give the lower block first"
        )));
    }
    Ok((first, last))
}

fn thread_name(name: String) -> Result<String> {
    if name.is_empty() || name.len() > COMM_LEN {
        return Err(usage(format!(
            "`--comm {name}` can't match: the kernel keeps {COMM_LEN} bytes of a thread's name, as \
             /proc/PID/comm shows it"
        )));
    }
    Ok(name)
}

/// The disk of `--disk`.
///
/// # Errors
/// If it is not one NVMe disk or a partition of one.
pub(super) fn disk_of(text: &str) -> Result<Disk> {
    System::at("/")
        .disk(text)
        .map_err(|error| Failure::error(Kind::NoDevice, error.to_string()))
}

/// The cgroup of `--container`.
///
/// # Errors
/// If it is not one container.
fn container_of(text: &str) -> Result<PathBuf> {
    System::at("/")
        .container(text)
        .map_err(|error| usage(error.to_string()))
}

/// Refuses filters that ask this machine, and a program to run, for recordings.
///
/// # Errors
/// If there is such a filter, or a program.
pub(super) fn refuse_for_recordings(args: &FilterArgs, exec: &ExecArgs) -> Result<()> {
    if exec.exec {
        return Err(usage(
            "--exec traces while a program runs, and a recording is read: leave out --exec or --from",
        ));
    }
    if args.container.is_some() {
        return Err(usage(
            "--container asks this machine, and cgroups are not recorded: use it with `record`",
        ));
    }
    if args.disk.is_some() {
        return Err(usage(
            "--disk asks this machine, and a recording may be of another: use --ctrl, --nsid and \
             --lba",
        ));
    }
    Ok(())
}

fn check(filter: &Filter) -> Result<()> {
    if filter.no_admin && filter.no_io {
        return Err(usage(
            "--no-admin and --no-io together leave nothing: drop one of the two",
        ));
    }
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

impl TryFrom<FilterArgs> for Filter {
    type Error = Error;

    fn try_from(args: FilterArgs) -> Result<Self> {
        let FilterArgs {
            disk,
            ctrl,
            nsid,
            opcode,
            qid,
            no_admin,
            no_io,
            pid,
            comm,
            cgroup,
            container,
            lba,
        } = args;
        let mut opcodes = BTreeSet::new();
        for text in &opcode {
            opcodes.extend(parse_opcode(text).map_err(|unknown| usage(unknown.to_string()))?);
        }
        let mut filter = Self {
            ctrls: ctrl
                .iter()
                .map(|text| ctrl_instance(text))
                .collect::<Result<_>>()?,
            nsids: at_most(nsid.into_iter().collect(), "--nsid")?,
            opcodes,
            qids: at_most(qid.into_iter().collect(), "--qid")?,
            no_admin,
            no_io,
            pids: at_most(pid.into_iter().collect(), "--pid")?,
            comm: comm.map(thread_name).transpose()?,
            cgroup,
            container: container.as_deref().map(container_of).transpose()?,
            lba: lba.as_deref().map(lba_range).transpose()?,
        };
        if let Some(disk) = disk {
            let disk = disk_of(&disk)?;
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
    use std::process::Command as Process;

    use clap::Parser;
    use proptest::collection::btree_set;
    use proptest::option;
    use proptest::prelude::*;

    use super::*;
    use crate::cli::args::Args;
    use crate::cli::args::Command;
    use crate::cli::options::LatencyOptions;

    fn filter() -> impl Strategy<Value = Filter> {
        let code = (any::<bool>(), any::<u8>()).prop_map(|(admin, code)| Opcode {
            queue: if admin {
                QueueKind::Admin
            } else {
                QueueKind::Io
            },
            code,
        });
        let sets = (
            btree_set(0..MAX_CTRLS, 0..4),
            btree_set(any::<u32>(), 0..4),
            btree_set(code, 0..4),
            btree_set(any::<u16>(), 0..4),
            btree_set(any::<u32>(), 0..4),
        );
        let rest = (
            any::<bool>(),
            any::<bool>(),
            option::of("[-a-zA-Z0-9 '\"$\\\\,/:]{1,15}"),
            option::of("(/[-a-z '$*]{1,9}){1,3}"),
            any::<bool>(),
            option::of((any::<u32>(), any::<u32>())),
        );
        (sets, rest).prop_map(|((ctrls, nsids, opcodes, qids, pids), rest)| {
            let (no_admin, no_io, comm, path, is_container, lba) = rest;
            let path = path.map(PathBuf::from);
            let (cgroup, container) = if is_container {
                (None, path)
            } else {
                (path, None)
            };
            Filter {
                ctrls,
                nsids,
                opcodes,
                qids,
                no_admin,
                no_io,
                pids,
                comm,
                cgroup,
                container,
                lba: lba.map(|(first, n)| (first.into(), u64::from(first) + u64::from(n))),
            }
        })
    }

    fn parsed(words: &[String]) -> Filter {
        let command = ["nvme-deep", "latency"].map(str::to_owned);
        let all = command.iter().chain(words);
        let Command::Latency(args) = Args::try_parse_from(all).unwrap().command else {
            panic!("not latency");
        };
        LatencyOptions::try_from(args).unwrap().settings.filter
    }

    /// The words of a text as a shell reads them.
    fn words_in_shell(text: &str) -> Vec<String> {
        let script = format!("for word in {text}; do echo \"[$word\"; done");
        let output = Process::new("bash").args(["-c", &script]).output().unwrap();
        let lines = String::from_utf8(output.stdout).unwrap();
        let words = lines
            .lines()
            .map(|l| l.strip_prefix('[').unwrap().to_owned());
        words.collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn the_options_of_a_filter_make_the_same_filter(filter in filter()) {
            prop_assume!(check(&filter).is_ok());
            let words = filter.words();
            prop_assert_eq!(&parsed(&words), &filter);
            if words.is_empty() {
                prop_assert_eq!(filter.text(), "");
            } else {
                prop_assert_eq!(words_in_shell(&filter.text()), words);
            }
        }
    }

    #[test]
    fn the_options_of_a_filter_are_short() {
        let text = |words: &str| {
            let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
            parsed(&words).text()
        };
        for words in [
            "--ctrl nvme0,nvme3 --nsid 1 --qid 1,2 --opcode admin:identify,io:read --no-admin",
            "--opcode io:0x9d --pid 7 --comm=-bash --cgroup /sys/fs/cgroup/a --lba 5-9",
            "--container /sys/fs/cgroup/a",
        ] {
            assert_eq!(text(words), words);
        }
        assert_eq!(
            text("--ctrl 1 --opcode 0x02 --lba 0x10"),
            "--ctrl nvme1 --opcode admin:get-log-page,io:read --lba 16-16"
        );
        assert_eq!(text("--comm a*b"), "--comm 'a*b'");
    }

    #[test]
    fn ranges_of_blocks() {
        assert_eq!(lba_range("2048-4095").unwrap(), (2048, 4095));
        assert_eq!(lba_range("0x10").unwrap(), (16, 16));
        for wrong in ["", "-", "1-", "-1", "5-4", "1-2-3", "x", "1:2"] {
            assert!(lba_range(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn filters_that_leave_nothing_are_refused() {
        let base = FilterArgs::default();
        for args in [
            FilterArgs {
                no_admin: true,
                no_io: true,
                ..base.clone()
            },
            FilterArgs {
                no_io: true,
                qid: vec![1],
                ..base.clone()
            },
            FilterArgs {
                no_io: true,
                opcode: vec!["read".into()],
                ..base.clone()
            },
            FilterArgs {
                no_io: true,
                lba: Some("1".into()),
                ..base.clone()
            },
            FilterArgs {
                comm: Some("a-name-of-16-byte".into()),
                ..base.clone()
            },
        ] {
            assert!(Filter::try_from(args.clone()).is_err(), "{args:?}");
        }
        let admin = FilterArgs {
            no_io: true,
            qid: vec![0],
            opcode: vec!["admin:identify".into()],
            ..base
        };
        assert!(Filter::try_from(admin).is_ok());
    }
}
