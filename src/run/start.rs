// SPDX-License-Identifier: MIT OR Apache-2.0
//! Start of every command that traces: inspect the machine, reject what is not possible, attach,
//! announce.

use super::drive::names::Devices;
use super::drive::turns::{Turns, Wake, stop_signals};
use super::eprint_note;
use crate::error::{Failure, Kind, not_permitted};
use crate::machine::{System, missing_capabilities};
use crate::model::event::StackId;
use crate::model::filter::Filter;
use crate::model::machine::ControllerInfo;
use crate::model::point::Point;
use crate::model::stack::{Frame, StackAt};
use crate::probe::catalog::CATALOG;
use crate::probe::plan::{AttachPlan, PointPlan};
use crate::session::attach;
pub use crate::session::{Capacity, HostSession, Layout, Session, kernel_facts, prepare, target};
use crate::settings::Settings;
use crate::symbols::Symbolizer;
use anyhow::Result;
use std::collections::HashSet;
use std::io::{Write, stderr};
use std::sync::mpsc::{Sender, channel};

/// Refuses controllers and namespaces of a filter that do not exist.
///
/// # Errors
/// If there is no controller, or one of these does not exist; one sentence.
pub fn check_devices(filter: &Filter, controllers: &[ControllerInfo]) -> Result<()> {
    let no_device = |message: String| Err(Failure::error(Kind::NoDevice, message));
    if controllers.is_empty() {
        return no_device(
            "this machine has no NVMe controller (/sys/class/nvme is empty): load the nvme \
             driver, or look at lspci for a controller that it should have"
                .into(),
        );
    }
    let mut devices = Devices::default();
    devices.add(controllers);
    let lacks = devices.lacks(None, filter);
    lacks.map_or(Ok(()), |what| no_device(format!("this machine has {what}")))
}

/// Losses of the attach method, for the first line.
fn caveat(plan: &AttachPlan) -> String {
    let method = match plan.method_of(Point::Complete) {
        Some(method) if method.loses() => method.name(),
        _ => return String::new(),
    };
    let counted = if plan.misses_counted {
        "counted in the report"
    } else {
        "and this kernel does not count how many"
    };
    format!(" by {method}, which can miss completions ({counted})")
}

/// Points of the stage set that are not observed, for the first line. `known`: the user knows that the waits
/// before the request are left out.
fn lacks(plan: &AttachPlan, known: bool) -> String {
    let lacking: Vec<&str> = plan
        .points
        .iter()
        .filter_map(PointPlan::point)
        .filter(|&p| !plan.has(p))
        .filter(|&p| p >= Point::Start || !(known && plan.lacks_waits()))
        .map(Point::name)
        .collect();
    if lacking.is_empty() {
        String::new()
    } else {
        format!("; not observed: {} (see the report)", lacking.join(", "))
    }
}

fn announce(settings: &Settings, until: &str, session: &Session, controllers: &[ControllerInfo]) {
    let filter = &settings.filter;
    let plan = session.plan();
    let names: Vec<String> = controllers
        .iter()
        .filter(|c| filter.has_ctrl(c.instance))
        .map(|c| format!("{} ({})", c.name(), c.model))
        .collect();
    eprint_note(&format!(
        "tracing {} with {} hooks{}{until}",
        names.join(", "),
        plan.hooks().len(),
        caveat(plan) + &lacks(plan, settings.leaves_out())
    ));
    if settings.attaching.verbose == 0 {
        return;
    }
    for (point, why) in &plan.absent {
        eprint_note(&format!("{}: nothing can wait here: {why}", point.name()));
    }
    for point in &plan.points {
        for rejected in &point.rejected {
            let (name, method) = (point.name(), rejected.method.name());
            eprint_note(&format!("{name}: not by {method}: {}", rejected.why));
        }
        for &number in &point.hooks {
            let hook = &CATALOG[number];
            eprint_note(&format!("{}: {} {}", point.name(), hook.kind.name(), hook.target.name()));
        }
    }
}

/// Copies libbpf's log to stderr.
fn copy_log(text: &str) {
    let _ = stderr().write_all(text.as_bytes());
}

/// A machine that has the requested devices.
pub struct Preflight {
    /// The machine.
    pub system: System,
    /// Ended by signals and messages.
    pub turns: Turns,
    /// Sends such messages.
    pub waker: Sender<Wake>,
    controllers: Vec<ControllerInfo>,
    layout: Layout,
}

impl Preflight {
    /// Inspects the machine.
    ///
    /// # Errors
    /// Missing privileges, or no such device. One sentence, with its exit code.
    pub fn check(settings: &Settings) -> Result<Self> {
        prepare((settings.attaching.verbose > 1).then_some(copy_log))?;
        let missing = missing_capabilities();
        if !missing.is_empty() {
            return Err(not_permitted(&missing));
        }
        let system = System::at("/");
        let controllers = system.controllers();
        check_devices(&settings.filter, &controllers)?;
        let layout = Layout::new(settings, &Capacity::of(&system)?, &controllers);
        if let Some(text) = layout.remark()? {
            eprint_note(&text);
        }
        let (waker, stop) = channel();
        stop_signals(waker.clone())?;
        Ok(Self { turns: Turns::begin(stop, None), waker, system, controllers, layout })
    }

    /// Attaches and announces it. `until` ends the announcement. `irq_entry` is for stacks, see
    /// [`Symbolizer::irq_entry`].
    ///
    /// # Errors
    /// Errors of [`attach`].
    pub fn attach(
        &self,
        settings: &Settings,
        until: &str,
        irq_entry: Option<(u64, u64)>,
    ) -> Result<Session> {
        let (system, controllers) = (&self.system, &self.controllers);
        let session =
            attach(system, settings, &self.layout, controllers, irq_entry, &mut |text| {
                eprint_note(text)
            })?;
        announce(settings, until, &session, &self.controllers);
        Ok(session)
    }
}

/// A symbolizer. Reports it if the kernel hides its symbols. Reading the symbol table takes
/// seconds.
pub fn symbolizer() -> Symbolizer {
    let symbolizer = Symbolizer::new();
    if let Some(why) = symbolizer.hidden() {
        eprint_note(&why.to_string());
    }
    symbolizer
}

/// Rejects `--errors` if the status of commands can't be read.
///
/// # Errors
/// If the status can't be read; one sentence.
pub fn require_status(settings: &Settings, can_read_status: bool) -> Result<()> {
    if can_read_status || !settings.outcome().errors {
        return Ok(());
    }
    Err(Failure::error(
        Kind::Kernel,
        "--errors needs the status of commands, which can't be read here: no BTF describes the \
         driver's types. Give a file with --btf, or use --attach tracepoint",
    ))
}

/// The stacks of a session.
pub struct LiveStacks {
    symbolizer: Symbolizer,
    at: StackAt,
    known: HashSet<StackId>,
}

impl LiveStacks {
    /// Reads the symbol table, which takes seconds. Call this before anything is attached.
    pub fn new(at: StackAt) -> Self {
        Self { symbolizer: symbolizer(), at, known: HashSet::new() }
    }

    /// See [`Symbolizer::irq_entry`].
    pub fn irq_entry(&self) -> Option<(u64, u64)> {
        self.symbolizer.irq_entry()
    }

    /// The frames of a stack, the first time that it is asked for.
    pub fn learn(&mut self, id: StackId, session: &Session) -> Option<Vec<Frame>> {
        if !id.is_some() || !self.known.insert(id) {
            return None;
        }
        // no stack is removed from the map; if the read fails, the event has no stack
        let addresses = session.stack(id).ok().flatten().unwrap_or_default();
        Some(self.symbolizer.stack(&addresses, self.at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Command;
    use crate::cli::tests::parsed;
    use crate::error::kind_of;
    use crate::model::machine::DiskInfo;
    use crate::run::args::common::SessionOptions;

    fn check(words: &str, machine: &[ControllerInfo]) -> Result<()> {
        let Command::Latency(args) = parsed(&format!("latency {words}"))? else { panic!() };
        check_devices(&args.session.filter.filter(false)?, machine)
    }

    #[test]
    fn what_is_there_passes_and_what_is_not_says_what_there_is() {
        let disk = DiskInfo { name: "nvme1n1".into(), nsid: 1, ..DiskInfo::default() };
        let machine =
            [ControllerInfo { instance: 1, disks: vec![disk], ..ControllerInfo::default() }];
        assert!(check("--ctrl nvme1 --nsid 1", &machine).is_ok());
        assert!(check("--nsid 0,4294967295", &machine).is_ok());
        for (words, machine, says) in [
            ("--ctrl nvme0", &machine[..], "nvme1"),
            ("--nsid 2", &machine, "it has nvme1, nvme1n1 (id 1)"),
            ("", &[], "no NVMe controller"),
        ] {
            let error = check(words, machine).unwrap_err();
            assert_eq!(kind_of(&error), Kind::NoDevice);
            assert!(error.to_string().contains(says), "{error}");
        }
    }

    #[test]
    fn a_run_that_needs_the_status_is_refused_where_it_cannot_be_read() {
        let Command::Trace(args) = parsed("trace --errors --tee run.nvd").unwrap() else {
            panic!()
        };
        let settings = args.settings().unwrap();
        let refused = require_status(&settings, false).unwrap_err();
        assert_eq!(kind_of(&refused), Kind::Kernel);
        require_status(&settings, true).unwrap();
    }
}
