// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `report` command: a page about recordings, to attach to a ticket.

use crate::model::event::Event;
use crate::model::group::By;
use crate::model::machine::{ControllerInfo, MachineInfo};
use crate::model::origin::Who;
use crate::model::report::disk_names::DiskNames;
use crate::model::report::latency::Diagnosed;
use crate::model::report::recount::Recount;
use crate::model::report::stacks::RecordedStacks;
use crate::model::report::submissions::{Submissions, TaskKind};
use crate::model::snapshot::Snapshot;
use crate::model::stage::StageSet;
use crate::model::text::Text;
use crate::nvme::opcode::QueueKind;
use crate::recording::{Fact, KernelLine};
use crate::report::html::Html;
use crate::run::args::common::{Checked, OutArgs, SessionOptions, WITH_FILTERS, ending_of};
use crate::run::args::filter::FilterArgs;
use crate::run::drive::{FileReader, Names, Run, Step, count, each, open_all, submissions_of};
use crate::run::eprint_note;
use crate::run::outfile::{OutFile, Rules};
use crate::run::slowest::Slowest;
use crate::settings::{Events, Mode, Settings};
use crate::units::{counted, size_text};
use crate::view::heatmap::grid::{Interval, Plot, Quantity};
use crate::when::RunClock;
use anyhow::{Context, Error, Result};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

mod html;
mod sections;

/// Slowest commands in the page.
const SLOWEST: usize = 200;

/// Diagnoses a recording. `true`: without names.
pub type Diagnose<'d> = dyn Fn(&Path, &Settings, bool) -> Result<Diagnosed> + 'd;

/// Commands that are counted in one way.
struct Counted {
    title: &'static str,
    recount: Recount,
    /// Other commands do not count.
    admin_only: bool,
    now: Snapshot,
}

/// What the page shows of a recording.
struct Gathered {
    /// The stages of the recording.
    stage_set: StageSet,
    who: Who,
    /// Rows, then groups by each of some properties.
    counted: Vec<Counted>,
    /// Latency and commands in flight over time.
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
}

impl Gathered {
    fn new(run: &Run<'_>) -> Result<Self> {
        let file = run.file().context("a recording")?;
        let (info, who, begin_ns) = (file.info(), file.settings.filter.who, run.begin_ns);
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
            plots: [Quantity::Latency(interval), Quantity::InFlight]
                .map(|quantity| Plot::new(quantity, begin_ns))
                .into(),
            submissions: submissions_of(run, &file.settings, TaskKind::Caller, "report")?,
            slowest: Some(Slowest::new(SLOWEST)),
            stacks: info.stack.map(|at| RecordedStacks::new(at, true)),
            disks: DiskNames::default(),
            controllers: Vec::new(),
            machine: None,
            clock: file.clock(),
            log: Vec::new(),
        })
    }

    fn event(&mut self, event: &Event, names: &mut Names) -> Result<()> {
        let is_admin = event.what.id().is_some_and(|id| id.opcode.queue == QueueKind::Admin);
        for counted in &mut self.counted {
            if is_admin || !counted.admin_only {
                count(&counted.recount, event, &mut counted.now)?;
            }
        }
        let (disk, set) = names.of_command(event.what.id());
        self.plots[0].event(event, disk, set);
        self.submissions.add(event, set);
        self.submit(event.at_ns);
        if let Some(slowest) = &mut self.slowest {
            slowest.add(event, names);
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

impl Gathered {
    fn fact(&mut self, fact: Fact) {
        match fact {
            Fact::Stacks(all) => {
                if let Some(stacks) = &mut self.stacks {
                    all.iter().for_each(|(id, frames)| stacks.stack(*id, frames));
                }
            }
            Fact::Cgroups(all) => {
                for counted in &mut self.counted {
                    let all = all.iter().map(|one| (one.id, one.path.clone()));
                    counted.now.names.cgroups.extend(all);
                }
            }
            Fact::Controllers(all) => {
                self.disks.recorded(&all);
                ControllerInfo::update(&mut self.controllers, all);
            }
            Fact::KernelLog(lines) => self.log.extend(lines),
            Fact::Machine(machine) => self.machine = Some(machine),
            _ => {}
        }
    }

    /// Reads a run to its end.
    fn read(&mut self, run: &mut Run<'_>) -> Result<()> {
        loop {
            match run.next()? {
                Step::Event { event, is_selected: true, names, .. } => {
                    self.event(event, names)?;
                }
                Step::Fact(fact) => self.fact(fact),
                Step::Ended => return Ok(()),
                _ => {}
            }
        }
    }
}

/// Runs the command to its end. `diagnose` is another command: it is passed in.
///
/// # Errors
/// One sentence each, with the exit code of its kind. What can be read of a damaged recording is in the page.
pub fn run(options: &ReportOptions, diagnose: &Diagnose<'_>) -> Result<()> {
    let mut files = open_all(&options.files, &options.settings, &FileReader::require_pairs)?;
    if options.out.redact {
        files.iter_mut().for_each(FileReader::redact);
    }
    let rules = Rules { force: options.out.force, inputs: &options.files, ..Rules::default() };
    let (output, mut out) = OutFile::create(&options.out.output, &rules)?;
    let mut parts = Vec::new();
    let done = each(files, false, false, &mut |run| {
        let mut gathered = Gathered::new(run)?;
        gathered.read(run)?;
        let end = run.end()?;
        gathered.cover(end.took);
        let number = parts.len() + 1;
        // each part of the page has its name above it, which may contain the machine's
        run.header.file = None;
        let named = !options.out.redact;
        let file = run.file().context("a recording")?;
        let name = match named {
            true => Text::file_name(&file.file),
            false => format!("recording {number}").into(),
        };
        // an error names the file
        let diagnosis = diagnose(&file.file, &options.settings, options.out.redact)
            .map_err(|error| if named { error } else { without(&error, &file.path, &name) });
        let part = sections::recording(gathered, (file, &run.header, &end), &diagnosis, number);
        parts.push((name, part));
        Ok(())
    });
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

/// The same error with another name of the file.
fn without(error: &Error, path: &str, name: &str) -> Error {
    Error::msg(format!("{error:#}").replace(path, name))
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

const EXAMPLES: &str = "\
Examples:
  nvme-deep report slow.nvd -o slow.html
      All about a recording in one file
  nvme-deep report before.nvd after.nvd --redact -o ticket.html
      Two recordings, one below the other, without names";

/// `report`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = WITH_FILTERS)]
#[command(after_long_help = EXAMPLES)]
pub struct ReportArgs {
    /// The recordings (see `record`)
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,

    #[command(flatten)]
    pub out: OutArgs,

    #[command(flatten)]
    pub filter: FilterArgs,
}

/// The options of the command, checked.
pub type ReportOptions = Checked<ReportArgs>;

impl SessionOptions for ReportArgs {
    fn settings(&self) -> Result<Settings> {
        ending_of(&self.out.output, &["html", "htm"])?;
        Ok(Settings {
            filter: self.filter.filter(true)?,
            window: self.filter.part(),
            ..Mode::Events(Events::default()).with(StageSet::Total)
        })
    }
}
