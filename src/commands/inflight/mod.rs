// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `inflight` command: what is in flight now.

mod traced;

use std::io::BufWriter;
use std::io::Write;
use std::io::stdout;
use std::sync::mpsc::Receiver;
use std::sync::mpsc::RecvTimeoutError;
use std::sync::mpsc::channel;
use std::thread::sleep;
use std::time::Duration;
use std::time::Instant;

use anyhow::Result;
use nvme_deep::error::Error;
use nvme_deep::error::Kind;
use nvme_deep::inflight::Memory;
use nvme_deep::inflight::Ticks;
use nvme_deep::inflight::Types;
use nvme_deep::inflight::Walker;
use nvme_deep::machine::System;
use nvme_deep::machine::clock::monotonic_ns;
use nvme_deep::machine::missing_capabilities;
use nvme_deep::machine::sysfs::Controller;
use nvme_deep::machine::types::Layouts;
use nvme_deep::model::event::StackId;
use nvme_deep::model::stack::Frame;
use nvme_deep::model::transport::Transport;
use nvme_deep::nvme::decode::CommandSet;
use nvme_deep::nvme::sqe::Sqe;
use nvme_deep::render::inflight::Lookup;
use nvme_deep::render::inflight::json;
use nvme_deep::render::inflight::text;
use nvme_deep::render::theme::Theme;
use nvme_deep::report::inflight::Ages;
use nvme_deep::report::inflight::InFlight;
use nvme_deep::report::inflight::Observed;
use nvme_deep::report::inflight::QueueId;
use nvme_deep::report::inflight::Reading;
use nvme_deep::session::KernelMemory;
use nvme_deep::session::settings::Filter;
use nvme_deep::session::take_over_log;

use crate::cli::options::InflightOptions;
use crate::commands::run::Wake;
use crate::commands::run::stop_signals;
use crate::commands::say;
use crate::commands::start::check_devices;
use crate::exit::Failure;

/// Time between the two readings of a look: more than the 25.5 ms for which a controller may delay an
/// interrupt to join it with later ones (NVMe base 2.1, Interrupt Coalescing).
const APART: Duration = Duration::from_millis(30);

/// Where to begin, and how to go on.
struct Access {
    memory: KernelMemory,
    types: Types,
    /// Address of `nvme_subsystems`.
    subsystems: u64,
    /// Address of `jiffies`.
    jiffies: Option<u64>,
}

fn lacks(what: &str) -> anyhow::Error {
    Failure::error(Kind::Kernel, what.to_owned())
}

impl Access {
    fn open(options: &InflightOptions, system: &System) -> Result<Self> {
        let missing = missing_capabilities();
        if !missing.is_empty() {
            return Err(Error::NotPermitted { missing }.into());
        }
        let layouts = Layouts::load(system, options.btf.as_deref()).map_err(Error::Btf)?;
        let types = Types::new(|name| layouts.of(name)).map_err(|missing| {
            lacks(&format!(
                "{missing}: give BTF of the whole kernel with its modules (--btf FILE)"
            ))
        })?;
        let names = ["nvme_subsystems", "jiffies"];
        let found = system.addresses(names);
        let [subsystems, jiffies] = found.map_err(|e| lacks(&e.to_string()))?;
        let subsystems = subsystems.ok_or_else(|| {
            lacks(
                "/proc/kallsyms has no address of nvme_subsystems: run as root, with \
                 kernel.kptr_restrict below 2; it takes CONFIG_KALLSYMS_ALL and the NVMe driver",
            )
        })?;
        Ok(Self {
            memory: KernelMemory::open()?,
            types,
            subsystems,
            jiffies,
        })
    }

    /// The length of a jiffy, and how many have passed.
    fn ticks(&mut self) -> Option<Ticks> {
        let mut now = [0; 8];
        let is_read = self.memory.read(self.jiffies?, &mut now);
        let since_boot = Duration::from_nanos(monotonic_ns());
        Ticks::new(u64::from_ne_bytes(now), since_boot).filter(|_| is_read)
    }
}

/// A run of the command.
struct Looks<'o> {
    options: &'o InflightOptions,
    system: System,
    access: Access,
    shown: u64,
}

/// What a run observes, at any moment.
trait Observer {
    /// What it has observed until now.
    ///
    /// # Errors
    /// If it cannot be read.
    fn observe(&mut self) -> Result<Observed>;

    /// The frames of a stack.
    fn stack(&self, id: StackId) -> Option<Vec<Frame>>;
}

impl Looks<'_> {
    /// Looks once, and shows what is found.
    fn take(&mut self, observer: Option<&mut (dyn Observer + '_)>) -> Result<()> {
        let controllers = self.system.controllers();
        check_devices(&self.options.filter, &controllers)?;
        let mut observer = observer;
        let found = self.look(&controllers, observer.as_deref_mut())?;
        self.show(&found, &controllers, observer.as_deref())?;
        self.shown += 1;
        Ok(())
    }

    /// Reads everything, and what is old, again.
    fn look(
        &mut self,
        controllers: &[Controller],
        observer: Option<&mut (dyn Observer + '_)>,
    ) -> Result<InFlight> {
        let options = self.options;
        let mut observer = observer;
        let mut observe = || observer.as_mut().map(|o| o.observe()).transpose();
        // the ages of both readings are those of this moment: what is not old now gets no verdict
        let (ticks, at_ns) = (self.access.ticks(), monotonic_ns());
        let limit = options.age;
        let first = self.read(controllers)?;
        let mut run = observe()?;
        let has_old = first.has_old(&Ages {
            ticks,
            at_ns,
            limit,
            run: run.as_ref(),
        });
        let second = if has_old {
            sleep(APART);
            let second = self.read(controllers)?;
            run = observe()?;
            Some(second)
        } else {
            None
        };
        let second = second.as_ref().unwrap_or(&first);
        let wanted = |(_, qid): QueueId, sqe: Option<&Sqe>| {
            let Filter { nsids, qids, .. } = &options.filter;
            // a command without an SQE may be of any namespace
            let nsid = sqe.is_none_or(|sqe| nsids.contains(&sqe.nsid()));
            let qid = u16::try_from(qid).is_ok_and(|qid| qids.contains(&qid));
            (nsids.is_empty() || nsid) && (qids.is_empty() || qid)
        };
        let ages = Ages {
            ticks,
            at_ns,
            limit,
            run: run.as_ref(),
        };
        let mut found = InFlight::new(&first, second, &ages, wanted);
        if options.old {
            found.commands.retain(|c| c.is_old);
        }
        Ok(found)
    }

    fn read(&mut self, controllers: &[Controller]) -> Result<Reading> {
        let Access {
            memory,
            types,
            subsystems,
            ..
        } = &mut self.access;
        let has_pci = types.has_pci();
        let mut walker = Walker::new(memory, types);
        let found = walker.controllers(*subsystems);
        let found = found.ok_or_else(|| lacks("the list of NVMe subsystems can't be read"))?;
        let is_pci = |instance: u32| {
            let ctrl = controllers.iter().find(|c| c.instance == instance);
            has_pci && ctrl.is_some_and(|c| Transport::named(&c.transport) == Transport::Pcie)
        };
        let wanted = |instance| self.options.filter.has_ctrl(instance);
        Ok(Reading::take(&mut walker, &found, wanted, is_pci))
    }

    fn show(
        &self,
        found: &InFlight,
        controllers: &[Controller],
        observer: Option<&dyn Observer>,
    ) -> Result<()> {
        let names = |instance: u32, nsid: u32| -> Option<(String, CommandSet)> {
            let ctrl = controllers.iter().find(|c| c.instance == instance)?;
            let ns = ctrl.namespaces.iter().find(|ns| ns.nsid == nsid)?;
            Some((ns.name.clone(), ns.set))
        };
        let frames = |id| observer.and_then(|o| o.stack(id));
        let lookup = Lookup {
            names: &names,
            stacks: self.options.kstack.then_some(&frames),
            traced: observer.is_some(),
        };
        let mut out = BufWriter::new(stdout().lock());
        if self.options.json {
            json(found, lookup, monotonic_ns(), &mut out)?;
        } else {
            let color = self.options.color;
            if self.shown > 0 {
                writeln!(out)?;
            }
            text(found, lookup, Theme { color }, &mut out)?;
        }
        out.flush()?;
        Ok(())
    }
}

/// Waits for the next look. Returns false if a signal ends the run.
fn wait(stop: &Receiver<Wake>, until: Instant) -> bool {
    let left = until.saturating_duration_since(Instant::now());
    matches!(stop.recv_timeout(left), Err(RecvTimeoutError::Timeout))
}

/// Warns if the driver's queues cannot be read.
fn say_missing(access: &Access) {
    if !access.types.has_pci() {
        say("this kernel does not describe the PCI driver's queues: there are no verdicts");
    }
}

/// Runs the command.
///
/// # Errors
/// One sentence, with the exit code of its kind.
pub fn run(options: &InflightOptions) -> Result<()> {
    match (options.interval, options.tracing()) {
        (Some(interval), Some(settings)) => traced::run(options, interval, &settings),
        _ => untraced(options),
    }
}

/// Looks, without a run that observes submissions.
fn untraced(options: &InflightOptions) -> Result<()> {
    take_over_log(None);
    let system = System::at("/");
    let access = Access::open(options, &system)?;
    let (sender, stop) = channel();
    stop_signals(sender)?;
    say_missing(&access);
    let mut looks = Looks {
        options,
        system,
        access,
        shown: 0,
    };
    let begin = Instant::now();
    for n in 0_u32.. {
        looks.take(None)?;
        let (Some(interval), true) = (
            options.interval,
            options.count.is_none_or(|count| looks.shown < count),
        ) else {
            break;
        };
        if !wait(&stop, begin + interval * (n + 1)) {
            break;
        }
    }
    Ok(())
}
