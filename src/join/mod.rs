// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `join` command: a recording of the driver and one of the host side.

use crate::join::pairing::{
    Guest, Join, Offset, by_readings, guest_command, pair_controllers, served,
};
use crate::join::view::{JoinClock, JoinView};
use crate::model::ledger::{Accuracy, HostLedger};
use crate::model::machine::{ClockReading, ControllerInfo, SharedClock};
use crate::model::report::disk_names::DiskNames;
use crate::model::stage::StageSet;
use crate::model::target::HostClock;
use crate::model::text::printable;
use crate::recording::{Fact, HostRecording};
use crate::run::args::common::{ColorArg, JSON, JSON_LONG, ONLY_EXAMPLES, number};
use crate::run::args::filter::ctrl_instance;
use crate::run::drive::{FileReader, Run, Step};
use crate::run::exit::usage;
use crate::run::input;
use crate::run::input::{check_target_end, read_recording};
use crate::run::stdout::stdout;
use crate::settings::Settings;
use crate::view::theme::Theme;
use anyhow::Result;
use clap::ValueEnum;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

pub(crate) mod pairing;
mod timeline;
pub(crate) mod view;

/// Commands of a guest that are kept from any file.
const MOST_COMMANDS: u64 = 400_000;

/// The guest's side.
#[derive(Default)]
struct Driver {
    commands: Vec<Guest>,
    /// Finished commands without times, and those without an end.
    without_times: u64,
    controllers: Vec<ControllerInfo>,
    readings: Vec<ClockReading>,
    is_exact: bool,
}

/// Reads the recording of the driver, which must have these controllers.
fn read_guest(path: &Path, ctrls: BTreeSet<u32>) -> Result<(Driver, FileReader)> {
    let mut settings = Settings::of(StageSet::Total);
    settings.filter.ctrls = ctrls;
    let mut replay = FileReader::open(path, &settings)?;
    replay.require_pairs()?;
    let mut guest = Driver::default();
    // a file of this size has no more, unless it is forged
    let (most, path) = (MOST_COMMANDS + replay.size / 2, replay.path.to_string());
    let mut run = Run::of(&mut replay);
    loop {
        match run.next()? {
            Step::Event { event, names, .. } => {
                match guest_command(event, names.of_command(event.what.id()).1) {
                    Some(command) => guest.commands.push(command),
                    None => guest.without_times += u64::from(event.what.outcome().is_some()),
                }
                if guest.commands.len() as u64 > most {
                    return Err(usage(format!(
                        "{path} is damaged, or made to do harm: it has more commands than a file of its \
                         size can hold"
                    )));
                }
            }
            Step::Fact(Fact::Controllers(all)) => {
                ControllerInfo::update(&mut guest.controllers, all);
            }
            Step::Fact(Fact::Readings(all)) => guest.readings.extend(all),
            Step::Fact(_) | Step::Tick { .. } => {}
            Step::Ended => break,
        }
    }
    let ledger = replay.ledger();
    guest.is_exact = ledger.is_some_and(|l| l.accuracy() == Accuracy::Exact);
    Ok((guest, replay))
}

/// The method by which the clocks are compared, and the offset if it does not come from the pairs.
fn clock(
    args: &JoinArgs,
    (guest, replay): (&Driver, &FileReader),
    host: &HostRecording,
) -> Result<(JoinClock, Option<Offset>)> {
    let boots = (&replay.info().boot_id, &host.info.boot_id);
    let of_one_boot = boots.0.is_some() && boots.0 == boots.1;
    let is_monotonic = host.target.clock == HostClock::Monotonic;
    let is_same = of_one_boot && is_monotonic;
    let usual = if is_same { JoinClock::Same } else { JoinClock::Pairs };
    let clock = args.clock.unwrap_or(usual);
    let refused = |why: &str| Err(usage(format!("--clock {why}; use --clock pairs")));
    let (name, third) = match clock {
        JoinClock::Pairs => return Ok((clock, None)),
        JoinClock::Same if is_same => return Ok((clock, Some(Offset::same()))),
        JoinClock::Same => {
            return refused("same: the recordings are not of one boot with one clock");
        }
        JoinClock::Tsc => ("tsc", SharedClock::Tsc),
        JoinClock::Ptp => ("ptp", SharedClock::HostWall),
    };
    let mut recordings = [(&args.guest, replay.info()), (&args.host, &host.info)].into_iter();
    let on_arm = recordings.find(|(_, info)| info.arch == "aarch64");
    if let (JoinClock::Tsc, Some((path, _))) = (clock, on_arm) {
        let shown = printable(path);
        let why = "was made on arm64, which has no TSC; use --clock ptp or --clock pairs";
        return Err(usage(format!("--clock tsc: {shown} {why}")));
    }
    if !is_monotonic {
        let why = "the times of the host side are not of its CLOCK_MONOTONIC";
        return refused(&format!("{name}: {why}"));
    }
    let times = || guest.commands.iter().map(|c| c.issue_ns.cast_signed());
    let span = times().min().zip(times().max()).unwrap_or((i64::MAX, i64::MIN));
    match by_readings(&guest.readings, &host.readings, third, span) {
        Ok(offset) => Ok((clock, Some(offset))),
        Err(why) => refused(&format!("{name}: {why}")),
    }
}

/// A pair of `--ctrl`: the controller in the guest, and its name on the host side.
fn typed(text: &str) -> Result<(u32, &str)> {
    let (ctrl, name) = text
        .split_once('=')
        .ok_or_else(|| usage(format!("--ctrl {text}: give a pair, as in nvme2=nvmet:1")))?;
    Ok((ctrl_instance(ctrl).map_err(usage)?, name))
}

/// The pairs of controllers, as typed or where only one is possible.
fn controllers(
    typed: &[(u32, &str)],
    guest: &[ControllerInfo],
    host: &HostRecording,
) -> Result<BTreeMap<u32, u32>> {
    let mut pairs = BTreeMap::new();
    for &(ctrl, name) in typed {
        let found = host.controllers.iter().find(|c| c.name == name);
        let found = found.ok_or_else(|| {
            let names = host.controllers.iter().map(|c| c.name.to_string());
            usage(format!(
                "--ctrl nvme{ctrl}={name}: the host side has no {name}; it has {}",
                names.collect::<Vec<_>>().join(", ")
            ))
        })?;
        pairs.insert(ctrl, found.number);
    }
    if pairs.is_empty() {
        pairs = pair_controllers(guest, host.target.kind, &host.controllers).map_err(usage)?;
    }
    if pairs.is_empty() {
        return Err(usage(
            "no controller is in both recordings: their transports, controller ids or NQNs differ; \
             --ctrl nvme0=NAME pairs two by name",
        ));
    }
    Ok(pairs)
}

/// Reasons for commands without a partner.
fn notes(guest: &Driver, ledger: &HostLedger, nameless: u64) -> Vec<String> {
    let mut notes = Vec::new();
    if !guest.is_exact {
        notes.push("the recording of the guest is not exact".into());
    }
    let lost = ledger.degraded().into_iter();
    notes.extend(lost.map(|what| format!("the host side has {what}")));
    if nameless > 0 {
        notes.push(format!(
            "{nameless} requests of the host side have no ids, or times out of order"
        ));
    }
    if guest.without_times > 0 {
        let n = guest.without_times;
        notes.push(format!("{n} commands of the guest have no times"));
    }
    notes
}

/// The error, after the reason if a recording is not whole.
fn of_the_rest(
    error: anyhow::Error,
    guest: &FileReader,
    host: &HostRecording,
    args: &JoinArgs,
) -> anyhow::Error {
    let sides = [(&args.guest, guest.incomplete()), (&args.host, host.ending().flaw())];
    let damaged = sides.into_iter().filter_map(|(path, how)| Some((printable(path), how?)));
    let damaged: Vec<String> = damaged.map(|(path, how)| format!("{path} {how}")).collect();
    match damaged.len() {
        0 => error,
        n => {
            let what = if n == 1 { "it" } else { "them" };
            usage(format!("{}. In what is left of {what}: {error}", damaged.join("; ")))
        }
    }
}

/// Runs the command to its end.
///
/// # Errors
/// One sentence each, with the exit code of its kind.
pub fn run(args: &JoinArgs) -> Result<()> {
    let typed: Vec<_> = args.ctrl.iter().map(|c| typed(c)).collect::<Result<_>>()?;
    if args.output.is_some() {
        // before it is read for the first time
        input::require_file(&args.guest, "--format perfetto")?;
    }
    let host = read_recording(&args.host)?;
    let ctrls = typed.iter().map(|(ctrl, _)| *ctrl).collect();
    let (mut guest, replay) = read_guest(&args.guest, ctrls)?;
    // what follows may fail for what is missing
    let of_the_rest = |error| of_the_rest(error, &replay, &host, args);
    let (clock, known) = clock(args, (&guest, &replay), &host).map_err(of_the_rest)?;
    let pairs = controllers(&typed, &guest.controllers, &host).map_err(of_the_rest)?;
    let mut commands = std::mem::take(&mut guest.commands);
    commands.retain_mut(|c| {
        let number = pairs.get(&c.ctrl);
        c.id.ctrl = number.copied().unwrap_or_default();
        number.is_some()
    });
    let (mut served, nameless) = served(&host.events);
    served.retain(|s| pairs.values().any(|number| *number == s.command.ctrl));
    let ledger = host.ledger.clone().unwrap_or_default();
    let is_whole = guest.is_exact && host.ledger.as_ref().is_some_and(HostLedger::is_exact);
    let resolution = host.target.resolution_ns;
    let join = Join::new(commands, served, resolution, known, is_whole);
    if let Some(path) = &args.output {
        timeline::write((args, path), (&replay, &host), &join)?;
        replay.check_complete()?;
        return check_target_end(&host, &args.host);
    }
    let mut disks = DiskNames::default();
    disks.recorded(&guest.controllers);
    let view = JoinView {
        disks: &disks,
        join: &join,
        clock,
        host_name: &|number| host.name_of(number),
        controllers: pairs.into_iter().collect(),
        slowest: args.slowest,
        notes: notes(&guest, &ledger, nameless),
    };
    let mut out = BufWriter::new(stdout());
    if args.json {
        view.json(&mut out)?;
    } else {
        let color = args.color.on_stdout(false);
        view.text(Theme { color }, &mut out)?;
    }
    out.flush()?;
    replay.check_complete()?;
    check_target_end(&host, &args.host)
}

const EXAMPLES: &str = "\
Examples:
  nvme-deep join guest.nvd host.nvd
      Where the time of each command went: driver, target, between them
  nvme-deep join guest.nvd host.nvd --format perfetto -o both.pftrace
      Both sides on one time line";

/// Formats of a time line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TimelineArg {
    /// For ui.perfetto.dev, on the guest's clock
    Perfetto,
}

/// `join`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = ONLY_EXAMPLES)]
#[command(after_long_help = EXAMPLES)]
pub struct JoinArgs {
    /// The recording of the driver (`record`)
    #[arg(value_name = "GUEST")]
    pub guest: PathBuf,

    /// The recording of the host side (`host trace -o`, `import -o`)
    #[arg(value_name = "HOST")]
    pub host: PathBuf,

    /// How to compare the clocks
    ///
    /// [default: same if both recordings are of one boot, else pairs]
    #[arg(long, value_name = "METHOD")]
    pub clock: Option<JoinClock>,

    /// Controllers of guest and host: `nvme2=nvmet:1`
    ///
    /// Needed where several are possible.
    #[arg(long, value_name = "CTRL=NAME", value_delimiter = ',')]
    pub ctrl: Vec<String>,

    /// Write both sides on one time line, not the report
    #[arg(long, value_name = "FORMAT", requires = "output")]
    pub format: Option<TimelineArg>,

    /// The file of --format
    ///
    /// Only you can read it.
    #[arg(long, short, value_name = "OUT", requires = "format", conflicts_with = "json")]
    pub output: Option<PathBuf>,

    /// Replace OUT if it exists
    #[arg(long, requires = "output")]
    pub force: bool,

    /// Show this many of the slowest commands one by one
    #[arg(long, short = 'n', value_name = "COUNT", default_value = "3", value_parser = number(0..=usize::MAX))]
    pub slowest: usize,

    #[arg(long, short = 'j', help = JSON, long_help = JSON_LONG)]
    pub json: bool,

    /// When to use colour
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub color: ColorArg,
}
