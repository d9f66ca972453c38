// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `join` command: a recording of the driver and one of the host side.

use crate::error::{Failure, Kind};
use crate::join::clock::Offset;
use crate::join::matching::{Guest, Join, served};
use crate::join::readings::by_readings;
use crate::join::view::JoinClock;
use crate::model::event::Event;
use crate::model::ledger::Ledger;
use crate::model::machine::{ClockReading, ControllerInfo, SharedClock};
use crate::model::stage::StageSet;
use crate::model::target::{HostClock, HostController, Served, TargetInfo, TargetKind};
use crate::nvme::decode::CommandSet;
use crate::recording::Fact;
use crate::run::args::common::{ColorArg, JSON, JSON_LONG, ONLY_EXAMPLES, number};
use crate::run::args::filter::ctrl_instance;
use crate::run::drive::{FileReader, Run, Step};
use crate::run::exit::usage;
use crate::run::input;
use crate::run::stdout::stdout;
use crate::settings::Settings;
use anyhow::{Error, Result};
use clap::ValueEnum;
use std::collections::BTreeMap;
use std::io::{BufWriter, Write};
use std::mem::take;
use std::path::PathBuf;

mod clock;
mod matching;
mod readings;
mod timeline;
mod view;

/// Commands that are kept from any file, beyond one for each two bytes of it.
const MOST_COMMANDS: u64 = 400_000;

/// What a recording has for a join.
struct Side<T> {
    commands: Vec<T>,
    /// Finished commands without times, or with times out of order.
    without_times: u64,
    /// The guest's controllers.
    controllers: Vec<ControllerInfo>,
    /// The target's.
    targets: Vec<HostController>,
    readings: Vec<ClockReading>,
    /// Of a target's recording.
    target: TargetInfo,
    /// `None`: it has no end.
    ledger: Option<Ledger>,
    file: FileReader,
}

/// Both recordings, joined.
struct Joined<'a> {
    args: &'a JoinArgs,
    join: Join,
    /// How the clocks were compared.
    clock: JoinClock,
    guest: Side<Guest>,
    host: Side<Served>,
    /// The controllers of the host side, by those in the guest.
    pairs: BTreeMap<u32, u32>,
}

impl<T> Side<T> {
    fn is_exact(&self) -> bool {
        self.ledger.as_ref().is_some_and(Ledger::is_exact)
    }
}

/// Reads the commands of a recording, as far as `take` makes something of their events.
fn read<T>(
    mut file: FileReader,
    take: impl Fn(&Event, CommandSet) -> Option<T>,
) -> Result<Side<T>> {
    let (mut commands, mut without_times) = (Vec::new(), 0);
    let (mut controllers, mut targets, mut readings) = (Vec::new(), Vec::new(), Vec::new());
    // a file of this size has no more, unless it is forged
    let (most, path) = (MOST_COMMANDS + file.size / 2, file.path.to_string());
    let mut run = Run::of(&mut file);
    loop {
        match run.next()? {
            Step::Event { event, names, .. } => {
                match take(event, names.of_command(event.what.id()).1) {
                    Some(command) => commands.push(command),
                    None => without_times += u64::from(event.what.outcome().is_some()),
                }
                if commands.len() as u64 > most {
                    return Err(usage(format!(
                        "{path} is damaged, or made to do harm: it has more commands than a file of its \
                         size can hold"
                    )));
                }
            }
            Step::Fact(Fact::Controllers(all)) => ControllerInfo::update(&mut controllers, all),
            Step::Fact(Fact::TargetControllers(all)) => targets = all,
            Step::Fact(Fact::Readings(all)) => readings.extend(all),
            Step::Fact(_) | Step::Tick { .. } => {}
            Step::Ended => break,
        }
    }
    let ledger = file.ledger().cloned();
    let target = file.info().target.clone().unwrap_or_default();
    let side =
        Side { commands, without_times, controllers, targets, readings, target, ledger, file };
    Ok(side)
}

/// The method by which the clocks are compared, and the offset if it does not come from the pairs.
fn clock(
    args: &JoinArgs,
    guest: &Side<Guest>,
    host: &Side<Served>,
) -> Result<(JoinClock, Option<Offset>)> {
    let infos = (guest.file.info(), host.file.info());
    let boots = (&infos.0.boot_id, &infos.1.boot_id);
    let of_one_boot = boots.0.is_some() && boots.0 == boots.1;
    let is_monotonic = host.target.clock == HostClock::Monotonic;
    let is_same = of_one_boot && is_monotonic;
    let usual = if is_same { JoinClock::Same } else { JoinClock::Pairs };
    let clock = args.clock.unwrap_or(usual);
    let refused = |why: &str| {
        let name = clock.to_possible_value().map(|value| value.get_name().to_owned());
        Err(usage(format!("--clock {}: {why}; use --clock pairs", name.unwrap_or_default())))
    };
    let third = match clock {
        JoinClock::Pairs => return Ok((clock, None)),
        JoinClock::Same if is_same => return Ok((clock, Some(Offset::same()))),
        JoinClock::Same => return refused("the recordings are not of one boot with one clock"),
        JoinClock::Tsc => SharedClock::Tsc,
        JoinClock::Ptp => SharedClock::HostWall,
    };
    if !is_monotonic {
        return refused("the times of the host side are not of its CLOCK_MONOTONIC");
    }
    let times = || guest.commands.iter().map(|c| c.issue_ns.cast_signed());
    let span = times().min().zip(times().max()).unwrap_or((i64::MAX, i64::MIN));
    match by_readings(&guest.readings, &host.readings, third, span) {
        Ok(offset) => Ok((clock, Some(offset))),
        Err(why) => refused(&why),
    }
}

/// A pair of `--ctrl`: the controller in the guest, and its name on the host side.
fn typed(text: &str) -> Result<(u32, &str)> {
    let (ctrl, name) = text
        .split_once('=')
        .ok_or_else(|| usage(format!("--ctrl {text}: give a pair, as in nvme2=nvmet:1")))?;
    Ok((ctrl_instance(ctrl).map_err(usage)?, name))
}

/// The controller of the host side that each of the guest's is, as typed, or as far as only one is possible.
fn controllers(
    typed: &[(u32, &str)],
    guest: &[ControllerInfo],
    host: &Side<Served>,
) -> Result<BTreeMap<u32, u32>> {
    let names = host.targets.iter().map(|c| c.name.to_string()).collect::<Vec<_>>().join(", ");
    let mut pairs = BTreeMap::new();
    for &(ctrl, name) in typed {
        let found = host.targets.iter().find(|c| c.name == name).ok_or_else(|| {
            usage(format!("--ctrl nvme{ctrl}={name}: the host side has no {name}; it has {names}"))
        })?;
        pairs.insert(ctrl, found.number);
    }
    if pairs.is_empty() {
        pairs = possible(guest, host.target.kind, &host.targets).map_err(usage)?;
    }
    if pairs.is_empty() {
        return Err(usage(format!(
            "no controller is in both recordings: their transports, controller ids or NQNs differ; \
             --ctrl nvme0=NAME pairs two by name (host: {names})"
        )));
    }
    Ok(pairs)
}

fn possible(
    guest: &[ControllerInfo],
    kind: TargetKind,
    host: &[HostController],
) -> Result<BTreeMap<u32, u32>, String> {
    let may = |g: &ControllerInfo, h: &HostController| {
        let reachable = match kind {
            TargetKind::Nvmet => g.transport != "pcie",
            TargetKind::Qemu => g.transport == "pcie",
            TargetKind::Spdk => true,
        };
        let cntlid = g.cntlid.zip(h.cntlid).is_none_or(|(a, b)| a == b);
        let nqn = g.nqn.as_ref().zip(h.nqn.as_ref()).is_none_or(|(a, b)| a == b);
        reachable && cntlid && nqn
    };
    let mut pairs = BTreeMap::new();
    for h in host {
        let partners: Vec<u32> = guest.iter().filter(|g| may(g, h)).map(|g| g.instance).collect();
        let names: Vec<String> = partners.iter().map(|g| format!("nvme{g}")).collect();
        let why = match partners[..] {
            [] => continue,
            [g] if pairs.insert(g, h.number).is_none() => continue,
            [_] => format!("{} may be several controllers of the host side", names[0]),
            _ => format!("{} of the host side may be {}", h.name, names.join(" or ")),
        };
        return Err(format!("{why}: name the pair with --ctrl {}={}", names[0], h.name));
    }
    Ok(pairs)
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
    let host = FileReader::open(&args.host, &Settings::of(StageSet::Host))?;
    let mut host = read(host, |event, _| served(event))?;
    let mut settings = Settings::of(StageSet::Total);
    settings.filter.ctrls = typed.iter().map(|(ctrl, _)| *ctrl).collect();
    let guest = FileReader::open(&args.guest, &settings)?;
    guest.require_pairs()?;
    let mut guest = read(guest, Guest::of)?;
    // what follows may fail for what is missing
    let flaw = |file: &FileReader| Some(format!("{} {}", file.path, file.incomplete()?));
    let flaws: Vec<String> = [&guest.file, &host.file].into_iter().filter_map(flaw).collect();
    let of_the_rest = |error: Error| match flaws[..] {
        [] => error,
        _ => usage(format!("{}. In what is left: {error}", flaws.join("; "))),
    };
    let (clock, known) = clock(args, &guest, &host).map_err(of_the_rest)?;
    let pairs = controllers(&typed, &guest.controllers, &host).map_err(of_the_rest)?;
    let mut commands = take(&mut guest.commands);
    commands.retain_mut(|c| {
        let number = pairs.get(&c.ctrl);
        c.id.ctrl = number.copied().unwrap_or_default();
        number.is_some()
    });
    let mut served = take(&mut host.commands);
    served.retain(|s| pairs.values().any(|number| *number == s.id.ctrl));
    let is_exact = guest.is_exact() && host.is_exact();
    let resolution = host.target.resolution_ns;
    let join = Join::new(commands, served, resolution, known, is_exact);
    let joined = Joined { args, join, clock, guest, host, pairs };
    if let Some(path) = &args.output {
        timeline::write(&joined, path)?;
    } else {
        let mut out = BufWriter::new(stdout());
        match args.json {
            true => joined.json(&mut out)?,
            false => joined.text(args.color.on_stdout(false), &mut out)?,
        }
        out.flush()?;
    }
    joined.guest.file.check_complete()?;
    joined.host.file.check_complete()?;
    if joined.join.pairs.is_empty() {
        let text = "no command is in both recordings: did both run at the same time, for the same \
                    controller? --ctrl nvme0=NAME pairs others";
        return Err(Failure::error(Kind::Run, text));
    }
    Ok(())
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
