//! The `latency` command: look at the machine, plan, attach, report until told to stop.

use std::io::BufWriter;
use std::io::Write;
use std::io::stderr;
use std::io::stdout;
use std::process::exit as exit_now;
use std::sync::mpsc::Receiver;
use std::sync::mpsc::RecvTimeoutError;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;
use std::time::Instant;

use anyhow::Context;
use anyhow::Result;
use signal_hook::consts::SIGHUP;
use signal_hook::consts::SIGINT;
use signal_hook::consts::SIGTERM;
use signal_hook::iterator::Signals;

use crate::abi::Count;
use crate::abi::Counters;
use crate::attach::attach;
use crate::attach::slots;
use crate::exit::Failure;
use crate::exit::Kind;
use crate::host::Host;
use crate::host::missing_capabilities;
use crate::host::sysfs::Controller;
use crate::host::watch::Watch;
use crate::ledger::Ledger;
use crate::ledger::Scan;
use crate::options::LatencyOptions;
use crate::path::milestone::Milestone;
use crate::probe::catalog::CATALOG;
use crate::probe::plan::AttachPlan;
use crate::report::Report;
use crate::report::rows;
use crate::session::Layout;
use crate::session::Session;
use crate::session::not_allowed;
use crate::session::possible_cpus;
use crate::session::take_over_log;
use crate::snapshot::Snapshot;
use crate::view::json;
use crate::view::text::TextView;
use crate::view::theme::Theme;

/// How often to look for controllers that have come.
const RESCAN: Duration = Duration::from_secs(1);
/// How often to empty the ring of single commands.
const DRAIN: Duration = Duration::from_millis(20);

/// Says something on stderr. Nobody may be listening: that is no error.
fn say(text: &str) {
    let _ = writeln!(stderr(), "nvme-deep: {text}");
}

/// What is asked for must be there, before anything is attached.
fn check_devices(options: &LatencyOptions, controllers: &[Controller]) -> Result<()> {
    let no_device = |message: String| Err(Failure::error(Kind::NoDevice, message));
    if controllers.is_empty() {
        return no_device(
            "this machine has no NVMe controller (/sys/class/nvme is empty): load the nvme \
             driver, or look at lspci for a controller that it should have"
                .into(),
        );
    }
    let names: Vec<String> = controllers.iter().map(Controller::name).collect();
    for &wanted in &options.probing.filter.ctrls {
        if !controllers.iter().any(|c| c.instance == wanted) {
            return no_device(format!(
                "there is no controller nvme{wanted}: this machine has {}",
                names.join(", ")
            ));
        }
    }
    let chosen = |c: &&Controller| {
        options.probing.filter.ctrls.is_empty() || options.probing.filter.ctrls.contains(&c.instance)
    };
    let all: Vec<_> = controllers
        .iter()
        .filter(chosen)
        .flat_map(|c| &c.namespaces)
        .collect();
    for &wanted in &options.probing.filter.nsids {
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

struct Run<'o, 's, 'obj> {
    options: &'o LatencyOptions,
    session: &'s mut Session<'obj>,
    host: Host,
    begin: Instant,
    text: TextView,
    /// Controllers that found no room; told once.
    homeless: Vec<u32>,
    watch: Watch,
    /// Why what is attached sees nothing any more, in a sentence.
    gone: Option<String>,
}

impl Run<'_, '_, '_> {
    fn write(&self, report: &Report, out: &mut dyn Write) -> Result<()> {
        if self.options.json {
            json::report(report, self.options.hist, out)?;
        } else {
            self.text.report(report, out)?;
        }
        out.flush()?;
        Ok(())
    }

    fn report(
        &self,
        at: Duration,
        now: &Snapshot,
        shown: &Snapshot,
        covers: Duration,
        scan: Option<Scan>,
    ) -> Report {
        let Self {
            options, session, ..
        } = self;
        Report {
            cut: options.probing.cut,
            is_final: scan.is_some(),
            at,
            covers,
            rows: rows(shown, options.probing.cut, options.probing.lat.as_ref(), covers),
            ledger: Ledger::new(
                session.plan(),
                &now.counters,
                &now.misses,
                now.commands(),
                scan,
            ),
        }
    }

    /// A report while running: of the run so far, or of the time since the last one.
    fn interim(&self, last: &mut (Duration, Snapshot), out: &mut dyn Write) -> Result<()> {
        let at = self.begin.elapsed();
        let now = self.session.snapshot()?;
        check_fit(&now.counters)?;
        let report = if self.options.delta {
            self.report(at, &now, &now.minus(&last.1), at - last.0, None)
        } else {
            self.report(at, &now, &now, at, None)
        };
        *last = (at, now);
        self.write(&report, out)
    }

    fn rescan(&mut self) -> Result<()> {
        check_fit(&self.session.counters()?)?;
        self.gone = self.watch.gone(&self.host);
        for controller in self.host.controllers() {
            let new = !self.homeless.contains(&controller.instance);
            if !self.session.place(&controller)? && new {
                say(&format!(
                    "no room for {}, which has come or grown since the start: its commands are \
                     counted as untracked; start again to measure them",
                    controller.name()
                ));
                self.homeless.push(controller.instance);
            }
        }
        Ok(())
    }

    /// Writes the single commands that have come, if they are wanted.
    fn drain(&self, out: &mut dyn Write) -> Result<()> {
        if !self.options.probing.commands {
            return Ok(());
        }
        let records = self.session.command_ring()?.take(Duration::ZERO)?;
        let any = !records.is_empty();
        for record in records {
            let record = record.context("a command record that can't be decoded")?;
            json::command(&record, self.options.probing.cut, out)?;
        }
        if any {
            out.flush()?;
        }
        Ok(())
    }

    /// Reports until the count, the duration or a signal ends it; then the final report.
    fn until_told(&mut self, stop: &Receiver<()>, out: &mut dyn Write) -> Result<()> {
        let ended = self.interims(stop, out);
        let at = self.begin.elapsed();
        let hits = self.session.counters()?.hits.iter().sum();
        let deaf = self.watch.deaf(&self.host, hits);
        self.session.detach();
        ended?;
        self.drain(out)?;
        let now = self.session.snapshot()?;
        check_fit(&now.counters)?;
        let scan = self.session.scan()?;
        let report = self.report(at, &now, &now, at, Some(scan));
        self.write(&report, out)?;
        match self.gone.take().or(deaf) {
            None => Ok(()),
            Some(why) => Err(Failure::error(Kind::Run, why)),
        }
    }

    fn interims(&mut self, stop: &Receiver<()>, out: &mut dyn Write) -> Result<()> {
        let LatencyOptions {
            interval,
            count,
            duration,
            delta,
            ..
        } = *self.options;
        let commands = self.options.probing.commands;
        // in the cumulative view the final report is the last of the count
        let interims = count.map_or(u64::MAX, |n| if delta { n } else { n - 1 });
        let counted = interval.zip(count).map(|(step, n)| times(step, n));
        let end = duration.into_iter().chain(counted).min();
        let mut shown = 0;
        let mut last = (Duration::ZERO, Snapshot::default());
        let mut next_scan = RESCAN;
        loop {
            let next_report = interval
                .filter(|_| shown < interims)
                .map(|step| times(step, shown + 1));
            let mut until = next_scan;
            until = next_report.map_or(until, |t| t.min(until));
            until = end.map_or(until, |t| t.min(until));
            if commands {
                until = until.min(self.begin.elapsed() + DRAIN);
            }
            match stop.recv_timeout(until.saturating_sub(self.begin.elapsed())) {
                Err(RecvTimeoutError::Timeout) => {}
                _ => return Ok(()),
            }
            self.drain(out)?;
            let now = self.begin.elapsed();
            if next_report.is_some_and(|t| now >= t) {
                self.interim(&mut last, out)?;
                shown += 1;
            }
            if end.is_some_and(|t| now >= t) {
                return Ok(());
            }
            if now >= next_scan {
                self.rescan()?;
                if self.gone.is_some() {
                    return Ok(());
                }
                next_scan = now + RESCAN;
            }
        }
    }
}

/// Type information from a file that queues contradict is not to be believed in anything.
fn check_fit(counters: &Counters) -> Result<()> {
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

/// `n` steps, or as long as a duration can be.
fn times(step: Duration, n: u64) -> Duration {
    step.saturating_mul(u32::try_from(n).unwrap_or(u32::MAX))
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
        .filter_map(|p| p.point)
        .filter(|&p| !plan.has(p))
        .map(Milestone::name)
        .collect();
    if lacking.is_empty() {
        String::new()
    } else {
        format!("; without {} (the report says why)", lacking.join(", "))
    }
}

fn announce(options: &LatencyOptions, session: &Session<'_>, controllers: &[Controller]) {
    let plan = session.plan();
    let names: Vec<String> = controllers
        .iter()
        .filter(|c| options.probing.filter.ctrls.is_empty() || options.probing.filter.ctrls.contains(&c.instance))
        .map(|c| format!("{} ({})", c.name(), c.model))
        .collect();
    let until = if options.duration.is_some() || options.count.is_some() {
        ""
    } else {
        "; Ctrl-C for the final report"
    };
    say(&format!(
        "tracing {} with {} hooks{}{until}",
        names.join(", "),
        plan.hooks().len(),
        caveat(plan) + &lacks(plan)
    ));
    if options.probing.attaching.verbose == 0 {
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

/// Runs the command to its end.
///
/// # Errors
/// One sentence each, with the exit code of its kind; nothing stays attached.
pub fn run(options: &LatencyOptions) -> Result<()> {
    take_over_log(options.probing.attaching.verbose > 1);
    let missing = missing_capabilities();
    if !missing.is_empty() {
        return Err(not_allowed(&missing));
    }
    let host = Host::at("/");
    let controllers = host.controllers();
    check_devices(options, &controllers)?;
    let cpus = possible_cpus()?;
    let layout = Layout::new(options.probing.cut, options.probing.split_size, cpus, &controllers);
    let stop = stop_signals()?;
    let mut slots = slots();
    let mut session = attach(&mut slots, &host, &options.probing, &layout, &controllers)?;
    announce(options, &session, &controllers);
    let text = TextView {
        theme: Theme {
            color: options.color,
        },
        hist: options.hist,
    };
    let begin = Instant::now();
    let watch = Watch::begin(&host, session.plan());
    let mut run = Run {
        watch,
        gone: None,
        options,
        session: &mut session,
        host,
        begin,
        text,
        homeless: vec![],
    };
    let mut out = BufWriter::new(stdout().lock());
    run.until_told(&stop, &mut out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Args;
    use crate::cli::Command;
    use crate::exit::kind_of;
    use crate::host::sysfs::Namespace;
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
            }],
        }];
        check_devices(&args.try_into()?, &machine)
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
        let error = check_devices(&args.try_into().unwrap(), &[]).unwrap_err();
        assert_eq!(kind_of(&error), Kind::NoDevice);
    }
}
