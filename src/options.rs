//! From words to meaning: what a command line asks for, checked as far as it can be without looking
//! at the machine.

use std::collections::BTreeSet;
use std::env;
use std::io::IsTerminal;
use std::io::stdout;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Error;
use anyhow::Result;

use crate::abi::MAX_CTRLS;
use crate::abi::MAX_LIST;
use crate::cli::AttachArg;
use crate::cli::ColorArg;
use crate::cli::LatencyArgs;
use crate::cli::StagesArg;
use crate::exit::Failure;
use crate::exit::Kind;
use crate::lat_buckets::LatBuckets;
use crate::nvme::opcode::Opcode;
use crate::nvme::opcode::parse as parse_opcode;
use crate::path::stage::Cut;
use crate::probe::catalog::Family;

/// Filters. All that are given must match; an empty set matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Controller instances.
    pub ctrls: BTreeSet<u32>,
    /// Namespace ids.
    pub nsids: BTreeSet<u32>,
    /// Opcodes.
    pub opcodes: BTreeSet<Opcode>,
    /// Queues; 0 is the admin queue.
    pub qids: BTreeSet<u16>,
    /// Leave the admin queue out.
    pub no_admin: bool,
}

/// What `latency` is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LatencyOptions {
    /// How finely to cut.
    pub cut: Cut,
    /// What to look at.
    pub filter: Filter,
    /// Time between reports; `None`: only the final one.
    pub interval: Option<Duration>,
    /// Number of reports.
    pub count: Option<u64>,
    /// Length of the run.
    pub duration: Option<Duration>,
    /// Reports show their interval, not the run so far.
    pub delta: bool,
    /// Show histograms.
    pub hist: bool,
    /// Show the table of nvme_latency.
    pub lat: Option<LatBuckets>,
    /// A row per size class.
    pub split_size: bool,
    /// JSON lines instead of text.
    pub json: bool,
    /// An object per command.
    pub commands: bool,
    /// Attach by this family only.
    pub attach: Option<Family>,
    /// BTF of the driver's modules.
    pub btf: Option<PathBuf>,
    /// Colour the text.
    pub color: bool,
    /// Talk on stderr.
    pub verbose: u8,
}

fn usage(message: impl Into<String>) -> Error {
    Failure::error(Kind::Usage, message)
}

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

fn lat_buckets(min_us: Option<u64>, shift: Option<u32>) -> Result<Option<LatBuckets>> {
    if min_us.is_none() && shift.is_none() {
        return Ok(None);
    }
    let min_us = min_us.unwrap_or(20);
    let min_us = u32::try_from(min_us)
        .map_err(|_| usage(format!("--lat-min-us {min_us} is over an hour: give fewer")))?;
    let buckets = LatBuckets {
        min_us,
        shift: shift.unwrap_or(0),
    };
    buckets.validate().map_err(usage)?;
    Ok(Some(buckets))
}

/// What `--attach` means; `None` is auto.
pub const fn family(attach: AttachArg) -> Option<Family> {
    match attach {
        AttachArg::Auto => None,
        AttachArg::Fentry => Some(Family::Fentry),
        AttachArg::Rawtp => Some(Family::RawTp),
        AttachArg::Kprobe => Some(Family::Kprobe),
        AttachArg::Tracepoint => Some(Family::Tracepoint),
    }
}

/// Whether to colour text on stdout.
pub fn color(when: ColorArg, json: bool) -> bool {
    match when {
        _ if json => false,
        ColorArg::Always => true,
        ColorArg::Never => false,
        ColorArg::Auto => stdout().is_terminal() && env::var_os("NO_COLOR").is_none(),
    }
}

impl TryFrom<LatencyArgs> for LatencyOptions {
    type Error = Error;

    #[expect(clippy::too_many_lines, reason = "a line a flag, twice")]
    fn try_from(args: LatencyArgs) -> Result<Self> {
        let LatencyArgs {
            stages,
            interval,
            count,
            duration,
            delta,
            hist,
            ctrl,
            nsid,
            opcode,
            qid,
            no_admin,
            lat_min_us,
            lat_shift,
            split_size,
            json,
            commands,
            attach,
            btf,
            color: when,
            verbose,
        } = args;
        if let Some(short) = interval.filter(|i| *i < Duration::from_millis(10)) {
            return Err(usage(format!(
                "an interval of {short:?} would only measure the report itself: give at least 10ms"
            )));
        }
        let mut opcodes = BTreeSet::new();
        for text in &opcode {
            opcodes.extend(parse_opcode(text).map_err(|unknown| usage(unknown.to_string()))?);
        }
        let qids: BTreeSet<u16> = at_most(qid.into_iter().collect(), "--qid")?;
        if no_admin && qids.len() == 1 && qids.contains(&0) {
            return Err(usage(
                "--qid 0 is the admin queue, which --no-admin leaves out: drop one of the two",
            ));
        }
        Ok(Self {
            cut: match stages {
                None => Cut::Total,
                Some(StagesArg::Cheap) => Cut::Cheap,
                Some(StagesArg::Fine) => Cut::Fine,
            },
            filter: Filter {
                ctrls: ctrl
                    .iter()
                    .map(|text| ctrl_instance(text))
                    .collect::<Result<_>>()?,
                nsids: at_most(nsid.into_iter().collect(), "--nsid")?,
                opcodes,
                qids,
                no_admin,
            },
            interval,
            count,
            duration,
            delta,
            hist,
            lat: lat_buckets(lat_min_us, lat_shift)?,
            split_size,
            json,
            commands,
            attach: family(attach),
            btf,
            color: color(when, json),
            verbose,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Args;
    use crate::cli::Command;
    use crate::exit::kind_of;
    use clap::Parser;

    fn options(words: &str) -> Result<LatencyOptions> {
        let words = ["nvme-deep", "latency"]
            .into_iter()
            .chain(words.split_whitespace());
        match Args::try_parse_from(words).unwrap().command {
            Command::Latency(args) => args.try_into(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn filters_take_lists_and_names() {
        let o = options("--ctrl nvme1,0 --opcode read,io:0x01 --nsid 1,2 --qid 3").unwrap();
        assert_eq!(o.filter.ctrls, BTreeSet::from([0, 1]));
        assert_eq!(o.filter.opcodes.len(), 2);
        assert_eq!(o.filter.nsids, BTreeSet::from([1, 2]));
        assert_eq!(o.filter.qids, BTreeSet::from([3]));
    }

    #[test]
    fn the_latency_table_has_the_defaults_of_nvme_latency() {
        assert_eq!(options("").unwrap().lat, None);
        let lat = options("--lat-shift 2").unwrap().lat.unwrap();
        assert_eq!((lat.min_us, lat.shift), (20, 2));
        let lat = options("--lat-min-us 50").unwrap().lat.unwrap();
        assert_eq!((lat.min_us, lat.shift), (50, 0));
    }

    #[test]
    fn nonsense_is_refused_with_the_usage_code() {
        for words in [
            "--ctrl nvme0n1",
            "--ctrl nvme256",
            "--opcode raed",
            "1ms",
            "--lat-shift 60",
            "--no-admin --qid 0",
            "--nsid 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17",
        ] {
            let error = options(words).unwrap_err();
            assert_eq!(kind_of(&error), Kind::Usage, "{words}: {error}");
        }
    }
}
