// SPDX-License-Identifier: MIT OR Apache-2.0
//! What every command that traces does: look at the machine, refuse what can't be done, attach, say
//! so; and now and then look whether the machine is still what it was.

use std::io::Write;
use std::io::stderr;
use std::process::exit as exit_now;
use std::sync::mpsc::Receiver;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use signal_hook::consts::SIGHUP;
use signal_hook::consts::SIGINT;
use signal_hook::consts::SIGTERM;
use signal_hook::iterator::Signals;

use crate::abi::Count;
use crate::abi::Counters;
use crate::attach::attach;
use crate::exit::Failure;
use crate::exit::Kind;
use crate::host::Host;
use crate::host::missing_capabilities;
use crate::host::sysfs::Controller;
use crate::host::watch::Watch;
use crate::kstack::Hooked;
use crate::kstack::Symbolizer;
use crate::ledger::Ledger;
use crate::ledger::Shown;
use crate::options::Filter;
use crate::options::Probing;
use crate::options::StackAt;
use crate::options::Tracing;
use crate::path::milestone::Milestone;
use crate::probe::catalog::CATALOG;
use crate::probe::plan::AttachPlan;
use crate::probe::plan::PointPlan;
use crate::session::Layout;
use crate::session::Session;
use crate::session::Slot;
use crate::session::not_allowed;
use crate::session::possible_cpus;
use crate::session::take_over_log;

/// How often to look at the machine.
pub const RESCAN: Duration = Duration::from_secs(1);

/// Says something on stderr. Nobody may be listening: that is no error.
pub fn say(text: &str) {
    let _ = writeln!(stderr(), "nvme-deep: {text}");
}

/// What is asked for must be there, before anything is attached.
fn check_devices(filter: &Filter, controllers: &[Controller]) -> Result<()> {
    let no_device = |message: String| Err(Failure::error(Kind::NoDevice, message));
    if controllers.is_empty() {
        return no_device(
            "this machine has no NVMe controller (/sys/class/nvme is empty): load the nvme \
             driver, or look at lspci for a controller that it should have"
                .into(),
        );
    }
    let names: Vec<String> = controllers.iter().map(Controller::name).collect();
    for &wanted in &filter.ctrls {
        if !controllers.iter().any(|c| c.instance == wanted) {
            return no_device(format!(
                "there is no controller nvme{wanted}: this machine has {}",
                names.join(", ")
            ));
        }
    }
    let chosen = |c: &&Controller| filter.ctrls.is_empty() || filter.ctrls.contains(&c.instance);
    let all: Vec<_> = controllers
        .iter()
        .filter(chosen)
        .flat_map(|c| &c.namespaces)
        .collect();
    for &wanted in &filter.nsids {
        // 0 and the broadcast id are what admin commands carry
        let special = wanted == 0 || wanted == u32::MAX;
        if !special && !all.iter().any(|ns| ns.nsid == wanted) {
            let have: Vec<String> = all
                .iter()
                .map(|ns| format!("{} ({})", ns.nsid, ns.name))
                .collect();
            return no_device(format!(
                "there is no namespace with id {wanted}: there {}",
                if have.is_empty() {
                    "are none".into()
                } else {
                    format!("is {}", have.join(", "))
                }
            ));
        }
    }
    Ok(())
}

/// Signals that end the run arrive here; the second one ends the process at once.
fn stop_signals() -> Result<Receiver<()>> {
    let mut signals =
        Signals::new([SIGINT, SIGTERM, SIGHUP]).context("failed to listen for signals")?;
    let (sender, receiver) = channel();
    thread::spawn(move || {
        for (n, _) in signals.forever().enumerate() {
            if n > 0 {
                exit_now(130);
            }
            let _ = sender.send(());
        }
    });
    Ok(receiver)
}

/// Type information from a file that queues contradict is not to be believed in anything.
///
/// # Errors
/// If they have.
pub fn check_fit(counters: &Counters) -> Result<()> {
    match counters.get(Count::Misfit) {
        0 => Ok(()),
        n => Err(Failure::error(
            Kind::Kernel,
            format!(
                "the types in use do not fit this kernel: {n} commands led to no controller that \
                 owns their queue; nothing was measured. Make a file from this very kernel (see \
                 btf/README.md), or use --attach tracepoint"
            ),
        )),
    }
}

/// The ledger of a session that reported single commands, after its end.
///
/// # Errors
/// If they can't be read, or say that nothing was measured.
pub fn ledger_of_trace(session: &Session<'_>, shown: &Shown) -> Result<Ledger> {
    let counters = session.counters()?;
    check_fit(&counters)?;
    let ledger = Ledger::new(
        session.plan(),
        &counters,
        &session.misses(),
        counters.get(Count::Finished),
        Some(session.scan()?),
    );
    Ok(ledger
        .with_trace(&counters, shown)
        .with_cost(session.plan(), session.own_cost()))
}

/// How a run ends, for the first line, unless the options say so.
pub const fn until(has_end: bool) -> &'static str {
    if has_end { "" } else { "; Ctrl-C ends it" }
}

/// What the way of attaching costs in truth, for the first line.
fn caveat(plan: &AttachPlan) -> String {
    let way = match plan.family_of(Milestone::Complete) {
        Some(family) if family.loses() => family.name(),
        _ => return String::new(),
    };
    let counted = if plan.misses_counted {
        "counted in the report"
    } else {
        "and this kernel does not count how many"
    };
    format!(" by {way}: completions may be missed, {counted}")
}

/// The points that the cut wants and does not get.
fn lacks(plan: &AttachPlan) -> String {
    let lacking: Vec<&str> = plan
        .points
        .iter()
        .filter_map(PointPlan::point)
        .filter(|&p| !plan.has(p))
        .map(Milestone::name)
        .collect();
    if lacking.is_empty() {
        String::new()
    } else {
        format!("; without {} (the report says why)", lacking.join(", "))
    }
}

fn announce(probing: &Probing, until: &str, session: &Session<'_>, controllers: &[Controller]) {
    let filter = &probing.filter;
    let plan = session.plan();
    let names: Vec<String> = controllers
        .iter()
        .filter(|c| filter.ctrls.is_empty() || filter.ctrls.contains(&c.instance))
        .map(|c| format!("{} ({})", c.name(), c.model))
        .collect();
    say(&format!(
        "tracing {} with {} hooks{}{until}",
        names.join(", "),
        plan.hooks().len(),
        caveat(plan) + &lacks(plan)
    ));
    if probing.attaching.verbose == 0 {
        return;
    }
    for point in &plan.points {
        for rejected in &point.rejected {
            let (name, way) = (point.name(), rejected.family.name());
            say(&format!("{name}: not by {way}: {}", rejected.why));
        }
        for &number in &point.hooks {
            let hook = &CATALOG[number];
            say(&format!(
                "{}: {} {}",
                point.name(),
                hook.kind.name(),
                hook.target
            ));
        }
    }
}

/// A machine that has what is asked for.
pub struct Ready {
    /// It.
    pub host: Host,
    /// Told to stop.
    pub stop: Receiver<()>,
    controllers: Vec<Controller>,
    layout: Layout,
}

impl Ready {
    /// Looks at the machine.
    ///
    /// # Errors
    /// No privileges, no such device. One sentence, with its exit code.
    pub fn look(probing: &Probing) -> Result<Self> {
        take_over_log(probing.attaching.verbose > 1);
        let missing = missing_capabilities();
        if !missing.is_empty() {
            return Err(not_allowed(&missing));
        }
        let host = Host::at("/");
        let controllers = host.controllers();
        check_devices(&probing.filter, &controllers)?;
        let cpus = possible_cpus()?;
        let layout = Layout::new(probing, cpus, &controllers);
        Ok(Self {
            stop: stop_signals()?,
            host,
            controllers,
            layout,
        })
    }

    /// Attaches, and says so. `until` ends the sentence; `irq_entry` is for stacks, see
    /// [`Symbolizer::irq_entry`].
    ///
    /// # Errors
    /// Those of [`attach`].
    pub fn attach<'obj>(
        &self,
        slots: &'obj mut [Slot],
        probing: &Probing,
        until: &str,
        irq_entry: Option<(u64, u64)>,
    ) -> Result<Session<'obj>> {
        let (host, controllers) = (&self.host, &self.controllers);
        let session = attach(slots, host, probing, &self.layout, controllers, irq_entry)?;
        announce(probing, until, &session, &self.controllers);
        Ok(session)
    }
}

/// Which functions a kind of stack begins with.
pub const fn hooked(at: StackAt) -> Hooked {
    match at {
        StackAt::Submit => Hooked::Submit,
        StackAt::Complete => Hooked::Complete,
    }
}

/// A symbolizer that has said what it can't do. Reads the symbol table, which takes a while.
pub fn symbolizer() -> Symbolizer {
    let symbolizer = Symbolizer::new();
    if let Some(why) = symbolizer.hidden() {
        say(why);
    }
    symbolizer
}

/// Refuses what was requested by name and is not available on this kernel.
///
/// # Errors
/// One sentence.
pub fn refuse_unknown(tracing: &Tracing, session: &Session<'_>) -> Result<()> {
    if tracing.errors && !session.knows_verdicts() {
        return Err(Failure::error(
            Kind::Kernel,
            "--errors needs the status of commands, which can't be read here: no BTF describes \
             the driver's types. Give a file with --btf, or use --attach tracepoint",
        ));
    }
    Ok(())
}

/// Looks after a running session.
pub struct Care {
    host: Host,
    watch: Watch,
    /// Controllers that found no room; reported once.
    homeless: Vec<u32>,
    /// Why what is attached sees nothing any more, in a sentence.
    gone: Option<String>,
}

impl Care {
    /// To be called when everything is attached.
    pub fn of(session: &Session<'_>, host: Host) -> Self {
        Self {
            watch: Watch::begin(&host, session.plan()),
            host,
            homeless: vec![],
            gone: None,
        }
    }

    /// Controllers that have come get their slots. True: the session sees nothing any more.
    ///
    /// # Errors
    /// Types that do not fit; a map that can't be written.
    pub fn rescan(&mut self, session: &mut Session<'_>) -> Result<bool> {
        check_fit(&session.counters()?)?;
        self.gone = self.watch.gone(&self.host);
        for controller in self.host.controllers() {
            let new = !self.homeless.contains(&controller.instance);
            if !session.place(&controller)? && new {
                say(&format!(
                    "no room for {}, which has come or grown since the start: its commands are \
                     counted as untracked; start again to measure them",
                    controller.name()
                ));
                self.homeless.push(controller.instance);
            }
        }
        Ok(self.gone.is_some())
    }

    /// Before anything is detached: why the session may have seen nothing.
    ///
    /// # Errors
    /// Where the counters can't be read.
    pub fn last_look(&mut self, session: &Session<'_>) -> Result<()> {
        let hits = session.counters()?.hits.iter().sum();
        let deaf = self.watch.deaf(&self.host, hits);
        self.gone = self.gone.take().or(deaf);
        Ok(())
    }

    /// When everything has been shown: an error if the session went deaf.
    ///
    /// # Errors
    /// One sentence.
    pub fn verdict(self) -> Result<()> {
        match self.gone {
            None => Ok(()),
            Some(why) => Err(Failure::error(Kind::Run, why)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Args;
    use crate::cli::Command;
    use crate::exit::kind_of;
    use crate::host::sysfs::Namespace;
    use crate::nvme::decode::CommandSet;
    use crate::options::LatencyOptions;
    use clap::Parser;

    fn check(words: &str) -> Result<()> {
        let words = ["nvme-deep", "latency"]
            .into_iter()
            .chain(words.split_whitespace());
        let Command::Latency(args) = Args::try_parse_from(words)?.command else {
            panic!("not latency");
        };
        let machine = [Controller {
            instance: 1,
            model: "m".into(),
            transport: "pcie".into(),
            queues: Some(3),
            depth: Some(1024),
            namespaces: vec![Namespace {
                name: "nvme1n1".into(),
                nsid: 1,
                lba_bytes: 512,
                set: CommandSet::Nvm,
            }],
        }];
        let options: LatencyOptions = args.try_into()?;
        check_devices(&options.probing.filter, &machine)
    }

    #[test]
    fn what_is_there_passes_and_what_is_not_says_what_there_is() {
        assert!(check("--ctrl nvme1 --nsid 1").is_ok());
        assert!(check("--nsid 0,4294967295").is_ok());
        let error = check("--ctrl nvme0").unwrap_err();
        assert_eq!(kind_of(&error), Kind::NoDevice);
        assert!(error.to_string().contains("nvme1"), "{error}");
        let error = check("--nsid 2").unwrap_err();
        assert!(error.to_string().contains("1 (nvme1n1)"), "{error}");
    }

    #[test]
    fn no_nvme_at_all_is_an_error_of_its_own_kind() {
        let args = Args::try_parse_from(["nvme-deep", "latency"]).unwrap();
        let Command::Latency(args) = args.command else {
            panic!("not latency");
        };
        let error = check_devices(&LatencyOptions::try_from(args).unwrap().probing.filter, &[])
            .unwrap_err();
        assert_eq!(kind_of(&error), Kind::NoDevice);
    }
}
