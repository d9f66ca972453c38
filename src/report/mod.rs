// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `report` command: a page about recordings, to attach to a ticket.

pub(crate) mod args;
mod html;
mod sections;

use std::cell::RefCell;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use crate::model::controller::ControllerInfo;
use crate::model::event::Event;
use crate::model::group::By;
use crate::model::machine::MachineInfo;
use crate::model::origin::Who;
use crate::model::report::disk_names::DiskNames;
use crate::model::report::recount::Recount;
use crate::model::report::stacks::RecordedStacks;
use crate::model::report::submissions::{Submissions, TaskKind};
use crate::model::snapshot::Snapshot;
use crate::model::stage::StageSet;
use crate::model::text::Text;
use crate::nvme::opcode::QueueKind;
use crate::recording::KernelLine;
use crate::settings::Settings;
use crate::units::{counted, size_text};
use crate::view::heatmap::grid::{Interval, Plot, Quantity};
use crate::when::RunClock;
use anyhow::Result;
use serde_json::Value;

use crate::report::args::ReportOptions;
use crate::report::html::Html;
use crate::run::drive::replay::{Replay, count};
use crate::run::drive::{
    Consumer, End, Feed, Form, Input, Item, Start, drive, open_all, submissions_of,
};
use crate::run::eprint_note;
use crate::run::outfile::{OutFile, Rules};
use crate::run::slowest::Slowest;

/// Slowest commands in the page.
const SLOWEST: usize = 200;

/// The diagnosis of a recording as `diagnose --json` has it. `true`: without names.
pub type Diagnose<'d> = dyn Fn(&Path, &Settings, bool) -> Result<Value> + 'd;

/// Commands that are counted in one way.
struct Counted {
    title: &'static str,
    recount: Recount,
    /// Other commands do not count.
    admin_only: bool,
    now: Snapshot,
}

/// What the page shows of a recording.
struct Gathered<'r> {
    /// The stages of the recording.
    stage_set: StageSet,
    who: Who,
    /// Rows, then groups by each of some properties.
    counted: Vec<Counted>,
    /// Latency and depth over time.
    plots: Vec<Plot>,
    submissions: Submissions,
    /// Until they are shown.
    slowest: Option<Slowest>,
    stacks: Option<RecordedStacks>,
    disks: DiskNames,
    controllers: Vec<ControllerInfo>,
    machine: Option<Box<MachineInfo>>,
    clock: RunClock,
    log: Vec<KernelLine>,
    finish: &'r dyn Fn(Self, End<'_>),
}

impl<'r> Gathered<'r> {
    fn new(start: &Start<'_>, finish: &'r dyn Fn(Self, End<'_>)) -> Result<Self> {
        let replay = start.recording.ok_or_else(|| anyhow::anyhow!("a recording"))?;
        let (info, who) = (replay.info(), replay.settings().filter.who);
        let stage_set = info.stage_set;
        let mut all = vec![("", vec![]), ("Processes", vec![By::Process])];
        all.extend(info.cgroups.then(|| ("Containers and cgroups", vec![By::Container])));
        all.push(("Admin commands", vec![By::Disk, By::Opcode, By::Process]));
        let counted = all.into_iter().map(|(title, by)| Counted {
            title,
            admin_only: by.contains(&By::Opcode),
            // as `latency` shows them
            recount: Recount { stage_set: stage_set.min(StageSet::Basic), lat: None, by, who },
            now: Snapshot::default(),
        });
        let interval =
            if stage_set == StageSet::Total { Interval::DRIVER } else { Interval::TOTAL };
        Ok(Self {
            stage_set,
            who,
            counted: counted.collect(),
            plots: [Quantity::Latency(interval), Quantity::Depth]
                .map(|quantity| Plot::new(quantity, start.begin_ns))
                .into(),
            submissions: submissions_of(start, replay.settings(), TaskKind::Caller, "report")?,
            slowest: Some(Slowest::new(SLOWEST)),
            stacks: info.stack.map(|at| RecordedStacks::new(at, true)),
            disks: DiskNames::default(),
            controllers: Vec::new(),
            machine: None,
            clock: RunClock { begin_ns: start.begin_ns, wall_ns: None },
            log: Vec::new(),
            finish,
        })
    }

    fn event(&mut self, event: &Event, feed: &mut Feed<'_>) -> Result<()> {
        let is_admin = event.what.id().is_some_and(|id| id.opcode.queue == QueueKind::Admin);
        for counted in &mut self.counted {
            if is_admin || !counted.admin_only {
                count(&counted.recount, event, &mut counted.now)?;
            }
        }
        let (disk, set) = feed.names.of_command(event.what.id());
        self.plots[0].event(event, disk, set);
        self.submissions.add(event, set);
        self.submit(event.at_ns);
        if let Some(slowest) = &mut self.slowest {
            slowest.add(event, feed.names);
        }
        if let Some(stacks) = &mut self.stacks {
            // stacks beyond its limit are not in the flame graph
            stacks.add(&event.what);
        }
        Ok(())
    }

    fn submit(&mut self, now_ns: u64) {
        while let Some((submitted, depth)) = self.submissions.next(now_ns) {
            self.plots[1].submission(&submitted, depth);
        }
    }

    /// Makes all pictures as long as the run.
    fn cover(&mut self, length: Duration) {
        self.submit(u64::MAX);
        let length = u64::try_from(length.as_nanos()).unwrap_or(u64::MAX).saturating_sub(1);
        for plot in &mut self.plots {
            plot.cover(self.clock.begin_ns.saturating_add(length));
        }
    }
}

impl Consumer for Gathered<'_> {
    const SHOWS: bool = false;
    const HEADS: bool = true;

    fn item(&mut self, item: &Item<'_>, feed: &mut Feed<'_>) -> Result<()> {
        match item {
            Item::Event(event) => return self.event(event, feed),
            Item::Stack(id, frames) => {
                if let Some(stacks) = &mut self.stacks {
                    stacks.stack(*id, frames);
                }
            }
            Item::Cgroups(all) => {
                for counted in &mut self.counted {
                    let all = all.iter().map(|one| (one.id, one.path.clone()));
                    counted.now.names.cgroups.extend(all);
                }
            }
            Item::Clock(wall_ns) => {
                self.clock.wall_ns.get_or_insert(*wall_ns);
            }
            Item::Controllers(all) => {
                self.disks.recorded(all);
                let is_old = |c: &ControllerInfo| all.iter().all(|new| new.instance != c.instance);
                self.controllers.retain(is_old);
                self.controllers.extend(all.iter().cloned());
            }
            Item::KernelLog(lines) => self.log.extend(lines.iter().cloned()),
            Item::Machine(machine) => self.machine = Some(machine.clone()),
            _ => {}
        }
        Ok(())
    }

    fn finish(mut self, end: End<'_>) -> Result<Result<()>> {
        self.cover(end.took);
        let finish = self.finish;
        finish(self, end);
        Ok(Ok(()))
    }
}

/// Runs the command to its end. `diagnose` is another command: it is passed in.
///
/// # Errors
/// One sentence each, with the exit code of its kind. What can be read of a damaged recording is in the page.
pub fn run(options: &ReportOptions, diagnose: &Diagnose<'_>) -> Result<()> {
    let mut replays = open_all(&options.files, &options.settings, &Replay::require_pairs)?;
    if options.redact {
        replays.iter_mut().for_each(Replay::redact);
    }
    let rules = Rules { force: options.force, inputs: &options.files, ..Rules::default() };
    let (output, mut out) = OutFile::create(&options.output, &rules)?;
    let parts = RefCell::new(Vec::new());
    let finish = |gathered: Gathered<'_>, mut end: End<'_>| {
        let number = parts.borrow().len() + 1;
        let file = end.recording.map_or(Path::new(""), Replay::file);
        let name = match end.header.file.take() {
            Some(_) => Text::file_name(file),
            None => format!("recording {number}").into(),
        };
        let diagnosis = diagnose(file, &options.settings, options.redact);
        let part = sections::recording(gathered, &end, &diagnosis, number);
        parts.borrow_mut().push((name, part));
    };
    let done = drive(Input::recordings(replays, Form::default(), true), &mut |start| {
        Gathered::new(start, &finish)
    });
    let parts = parts.take();
    if parts.is_empty() {
        return done;
    }
    let page = page(&parts);
    out.write_all(page.as_bytes()).map_err(|error| output.failed(error))?;
    let name = output.name();
    if output.keep()?.is_some() {
        let (recordings, size) = (counted(parts.len() as u64, "recording"), page.len() as u64);
        eprint_note(&format!("{name}: {recordings}, {}", size_text(size)));
    }
    done
}

/// The page of these recordings.
fn page(parts: &[(Text, Html)]) -> String {
    let mut body = Html::default();
    let names: Vec<&str> = parts.iter().map(|(name, _)| name.as_str()).collect();
    for (name, part) in parts {
        body.element(
            "p class=\"dim\"",
            &format!("nvme-deep {}: {name}", env!("CARGO_PKG_VERSION")),
        );
        body.part(part);
    }
    Html::page(&format!("nvme-deep: {}", names.join(", ")), &body)
}
