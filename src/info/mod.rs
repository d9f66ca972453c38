// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `info` command: what is in a recording, and which questions it answers.

use crate::error::{Failure, Kind};
use crate::model::event::EventKind;
use crate::model::ledger::{EventClass, Ledger};
use crate::model::machine::ControllerInfo;
use crate::model::report::disk_names::DiskNames;
use crate::model::stage::StageSet;
use crate::model::text::{Text, printable};
use crate::nvme::opcode::QueueKind;
use crate::recording::{Fact, Item, Reader, RingInfo, RunInfo};
use crate::run::args::common::{ColorArg, JSON, JSON_LONG, ONLY_EXAMPLES};
use crate::run::exit::Exited;
use crate::run::stdout::{output_width, stdout};
use crate::run::{exit, input};
use crate::units::{counted, size_text};
use crate::view::header::{Header, fill};
use crate::view::json::typed_line;
use crate::view::ledger::write_ledger;
use crate::view::theme::Theme;
use anyhow::Result;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Column of the texts.
const COLUMN: usize = 10;

/// What was read of a file.
#[derive(Default)]
struct Found {
    controllers: Vec<ControllerInfo>,
    disks: DiskNames,
    /// By controller and namespace, each opcode. Admin commands have no namespace.
    commands: BTreeMap<(u32, Option<u32>), BTreeMap<String, u64>>,
    events: u64,
    last_ns: u64,
    /// The length of the run, of a file that has its end.
    length: Option<Duration>,
    ledger: Option<Ledger>,
    /// Commands after the ledger.
    later: u64,
}

impl Found {
    fn add(&mut self, item: Item<'_>) {
        match item {
            Item::Event(event) => {
                self.events += 1;
                self.last_ns = self.last_ns.max(event.at_ns);
                self.later += u64::from(EventClass::of(&event.what) == EventClass::Command);
                let (EventKind::Command(id, ..)
                | EventKind::Missed { id, .. }
                | EventKind::Complete(id, _)) = &event.what
                else {
                    return;
                };
                let nsid = (id.opcode.queue == QueueKind::Io).then_some(id.nsid);
                let of_disk = self.commands.entry((id.ctrl, nsid)).or_default();
                *of_disk.entry(id.opcode.name_or_code()).or_default() += 1;
            }
            Item::Fact(Fact::Controllers(all)) => {
                self.disks.recorded(&all);
                ControllerInfo::update(&mut self.controllers, all);
            }
            Item::Fact(Fact::Ledger(found)) => (self.ledger, self.later) = (found.ledger, 0),
            Item::Fact(Fact::End(found)) => {
                (self.ledger, self.later) = (found.ledger, 0);
                self.length = Some(Duration::from_nanos(found.at_ns));
            }
            _ => {}
        }
    }
}

/// A question that people ask, and the command that answers it.
#[derive(Serialize)]
struct Question {
    question: &'static str,
    /// Whether the file can answer it.
    answered: bool,
    /// The command, or what the file lacks.
    how: String,
}

/// The questions that a recording of the driver can answer.
fn questions(info: &RunInfo, has_commands: bool) -> Vec<Question> {
    let lack = match (has_commands, info.pairs) {
        (false, true) => Some("it has no commands"),
        (_, false) => Some("two events per command: read it by `trace --events` or `pattern`"),
        (true, true) => None,
    };
    if let Some(how) = lack {
        return ["why", "where", "who", "when", "which"]
            .map(|question| Question { question, answered: false, how: how.to_owned() })
            .into();
    }
    let (why, where_is) = match info.stage_set {
        StageSet::Total | StageSet::Host | StageSet::Join => {
            let lacks = "no stages were recorded";
            ((false, lacks.to_owned()), (false, lacks.to_owned()))
        }
        StageSet::Basic | StageSet::Fine => (
            (true, "diagnose, without the waits before the request".to_owned()),
            (true, "latency, without the waits before the request".to_owned()),
        ),
        StageSet::Full => ((true, "diagnose".to_owned()), (true, "latency".to_owned())),
    };
    let who = match (info.submitters, info.redacted) {
        (true, false) => (true, "latency --by process".to_owned()),
        (true, true) => (true, "latency --by process, by numbers: it is redacted".into()),
        (false, _) => {
            let how = "latency --by process: the caller, not the submitter";
            (true, how.to_owned())
        }
    };
    let when = match info.wall_ns {
        Some(_) => "latency 1 --delta, heatmap",
        None => "latency 1 --delta, heatmap, by seconds since its start: it has no times of day",
    };
    let when = (true, when.to_owned());
    let which = match info.stack {
        Some(_) => "trace --slowest 20 --kstack",
        None => "trace --slowest 20, without stacks",
    };
    let which = (true, which.to_owned());
    [("why", why), ("where", where_is), ("who", who), ("when", when), ("which", which)]
        .into_iter()
        .map(|(question, (answered, how))| Question { question, answered, how })
        .collect()
}

/// What was recorded of each command, in words.
fn recorded(info: &RunInfo) -> Vec<String> {
    let stages = match info.stage_set {
        StageSet::Total => "no stages".to_owned(),
        set => format!("{} stages", set.name()),
    };
    let stack = info.stack.map(|at| format!("stacks at {}", at.name()));
    let parts = [
        Some(stages),
        info.context.then(|| "conditions".to_owned()),
        info.submitters.then(|| "submitters".to_owned()),
        info.cgroups.then(|| "cgroups".to_owned()),
        Some(stack.unwrap_or_else(|| "no stacks".to_owned())),
        info.redacted.then(|| "redacted: no names".to_owned()),
    ];
    parts.into_iter().flatten().collect()
}

/// The commands of a disk, or the admin commands of a controller.
#[derive(Serialize)]
struct DiskLine {
    disk: String,
    model: Option<Text>,
    commands: u64,
    by_opcode: BTreeMap<String, u64>,
}

/// All that is known of a file.
#[derive(Serialize)]
struct Info<'i> {
    file: String,
    bytes: u64,
    /// How the file is not whole.
    flaw: Option<String>,
    host: Option<&'i Text>,
    kernel: Option<&'i Text>,
    arch: &'i Text,
    machine: Option<&'i Text>,
    /// Nanoseconds since 1970.
    begin_ns: Option<i64>,
    seconds: f64,
    target: Option<String>,
    target_events: Option<u64>,
    disks: Vec<DiskLine>,
    recorded: Vec<String>,
    /// Options that selected commands.
    selected: String,
    /// Why a ring was written, and how far back it reaches.
    #[serde(skip_serializing_if = "Option::is_none")]
    ring: Option<String>,
    questions: Vec<Question>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ledger: Option<&'i Ledger>,
}

impl<'i> Info<'i> {
    fn new(
        file: String,
        bytes: u64,
        flaw: Option<String>,
        run: &'i RunInfo,
        of: &'i Found,
    ) -> Self {
        let disk = |((ctrl, nsid), opcodes): (&(u32, Option<u32>), &BTreeMap<String, u64>)| {
            let controller = of.controllers.iter().find(|c| c.instance == *ctrl);
            let model = controller.map(|c| c.model.clone()).filter(|m| !m.trim().is_empty());
            DiskLine {
                disk: match nsid {
                    Some(nsid) => of.disks.disk(*ctrl, *nsid),
                    None => format!("nvme{ctrl} admin"),
                },
                model,
                commands: opcodes.values().sum(),
                by_opcode: opcodes.clone(),
            }
        };
        let target = run.target.as_ref();
        let begin = run.begin_ns;
        let selected = [run.filter.to_string(), run.chosen_by()];
        let selected: Vec<_> = selected.into_iter().filter(|text| !text.is_empty()).collect();
        Self {
            file,
            bytes,
            flaw,
            host: run.host.as_ref(),
            kernel: run.kernel.as_ref(),
            arch: &run.arch,
            machine: run.machine.as_ref(),
            begin_ns: run.wall_ns.map(|offset| begin.wrapping_add_signed(offset).cast_signed()),
            seconds: of
                .length
                .unwrap_or_else(|| Duration::from_nanos(of.last_ns.saturating_sub(begin)))
                .as_secs_f64(),
            target: target.map(|target| format!("{} ({})", target.kind.name(), target.by)),
            target_events: target.map(|_| of.events),
            disks: of.commands.iter().filter(|_| target.is_none()).map(disk).collect(),
            recorded: if target.is_some() { Vec::new() } else { recorded(run) },
            selected: selected.join(" "),
            ring: run.ring.as_ref().map(RingInfo::text),
            questions: if target.is_some() {
                Vec::new()
            } else {
                questions(run, !of.commands.is_empty())
            },
            ledger: of.ledger.as_ref(),
        }
    }

    fn header(&self) -> Header {
        let is_driver = self.target.is_none();
        Header {
            file: Some(self.file.as_str().into()),
            host: self.host.cloned(),
            kernel: self.kernel.cloned(),
            begin_ns: self.begin_ns,
            from: Duration::ZERO,
            // an import has the clock of another machine
            length: is_driver.then(|| Duration::from_secs_f64(self.seconds)),
            commands: is_driver.then(|| self.disks.iter().map(|d| d.commands).sum()),
            accuracy: self.ledger.map(Ledger::accuracy),
            who: None,
        }
    }

    fn text(&self, theme: Theme, out: &mut dyn Write) -> std::io::Result<()> {
        write!(out, "{}", self.header().text(theme, output_width()))?;
        let mut line = |name: &str, text: &str| {
            let mut label = theme.head(&format!("{name:<COLUMN$}"));
            for line in fill(text, COLUMN) {
                writeln!(out, "{label}{line}")?;
                label = " ".repeat(COLUMN);
            }
            Ok::<_, std::io::Error>(())
        };
        let state = self.flaw.as_deref().unwrap_or("whole");
        line("file", &format!("{}, {state}", size_text(self.bytes)))?;
        let machine = [Some(self.arch), self.machine].into_iter().flatten();
        let machine: Vec<&str> = machine.map(|text| &**text).filter(|t| !t.is_empty()).collect();
        if !machine.is_empty() {
            line("machine", &machine.join(", "))?;
        }
        if let (Some(target), Some(events)) = (&self.target, self.target_events) {
            line("target", &format!("{target}, {}", counted(events, "event")))?;
            return line("read it", "with `host trace`, `host latency` or `join`");
        }
        for disk in &self.disks {
            let opcodes = disk.by_opcode.iter().map(|(name, n)| format!("{name} {n}"));
            let opcodes = opcodes.collect::<Vec<_>>().join(", ");
            let model = disk.model.as_ref().map(|model| format!(" ({model})"));
            let model = model.unwrap_or_default();
            let commands = counted(disk.commands, "command");
            line("disk", &format!("{}{model}: {commands}: {opcodes}", disk.disk))?;
        }
        if self.disks.is_empty() {
            line("disk", "no command was recorded")?;
        }
        line("recorded", &self.recorded.join(", "))?;
        if !self.selected.is_empty() {
            line("selected", &self.selected)?;
        }
        if let Some(ring) = &self.ring {
            line("ring", ring)?;
        }
        for question in &self.questions {
            let answer = if question.answered { "yes" } else { "no" };
            line(question.question, &format!("{answer}: {}", question.how))?;
        }
        match self.ledger {
            Some(ledger) => write_ledger(ledger, theme, false, out),
            None => writeln!(out, "{:<10}the file ends before its first ledger", "accuracy"),
        }
    }
}

/// Runs the command.
///
/// # Errors
/// If a file cannot be read or is no recording; one sentence. A file that is not whole is shown, and the
/// exit code says so.
pub fn run(args: &InfoArgs) -> Result<()> {
    let mut out = BufWriter::new(stdout());
    let mut all_whole = true;
    for (n, path) in args.files.iter().enumerate() {
        if n > 0 && !args.json {
            writeln!(out)?;
        }
        all_whole &= show(path, args, &mut out)?;
    }
    out.flush()?;
    if all_whole { Ok(()) } else { Err(Exited(exit::number(Kind::Run)).into()) }
}

/// Shows a file, and returns whether it is whole.
fn show(path: &Path, args: &InfoArgs, out: &mut dyn Write) -> Result<bool> {
    let shown = printable(path);
    let (file, metadata) = input::open(path)?;
    let failure = |error| Failure::error(Kind::Usage, format!("{shown}: {error}"));
    let mut reader = Reader::open(BufReader::new(file)).map_err(failure)?;
    let mut found = Found::default();
    while let Some(item) = reader.next().map_err(failure)? {
        found.add(item);
    }
    let flaw = reader.ending().and_then(|ending| ending.flaw());
    let is_whole = flaw.is_none();
    if !is_whole {
        found.ledger = found.ledger.map(|ledger| ledger.cut_off(found.later));
    }
    let info = Info::new(shown.clone(), metadata.len(), flaw, reader.info(), &found);
    if args.json {
        typed_line("info", &info, out)?;
    } else {
        info.text(Theme { color: args.color.on_stdout(false) }, out)?;
    }
    Ok(is_whole)
}

const EXAMPLES: &str = "\
Examples:
  nvme-deep info run.nvd
      What is in a recording, and which questions it answers";

/// `info`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = ONLY_EXAMPLES)]
#[command(after_long_help = EXAMPLES)]
pub struct InfoArgs {
    /// Recordings (see `record`)
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,

    #[arg(long, short = 'j', help = JSON, long_help = JSON_LONG)]
    pub json: bool,

    /// When to use colour
    #[arg(long, hide_short_help = true, value_name = "WHEN", default_value = "auto")]
    pub color: ColorArg,
}
