// SPDX-License-Identifier: MIT OR Apache-2.0
//! Filters: which commands a run includes.

use std::collections::BTreeSet;

use anyhow::Error;
use anyhow::Result;
use nvme_deep::abi::MAX_CTRLS;
use nvme_deep::abi::MAX_LIST;
use nvme_deep::nvme::opcode::Opcode;
use nvme_deep::nvme::opcode::QueueKind;
use nvme_deep::nvme::opcode::parse as parse_opcode;
use nvme_deep::session::settings::Filter;

use super::usage;
use crate::cli::args::FilterArgs;

/// Bytes of a thread's name that the kernel keeps (TASK_COMM_LEN without the final zero).
const COMM_LEN: usize = 15;

fn ctrl_instance(text: &str) -> Result<u32> {
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
            ctrl,
            nsid,
            opcode,
            qid,
            no_admin,
            no_io,
            pid,
            comm,
            cgroup,
            lba,
        } = args;
        let mut opcodes = BTreeSet::new();
        for text in &opcode {
            opcodes.extend(parse_opcode(text).map_err(|unknown| usage(unknown.to_string()))?);
        }
        let filter = Self {
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
            lba: lba.as_deref().map(lba_range).transpose()?,
        };
        check(&filter)?;
        Ok(filter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
