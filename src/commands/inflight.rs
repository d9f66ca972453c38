// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `inflight` command: what is in flight now.

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
use nvme_deep::model::transport::Transport;
use nvme_deep::nvme::decode::CommandSet;
use nvme_deep::nvme::sqe::Sqe;
use nvme_deep::render::inflight::json;
use nvme_deep::render::inflight::text;
use nvme_deep::render::theme::Theme;
use nvme_deep::report::inflight::InFlight;
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
        let layouts = Layouts::load(options.btf.as_deref()).map_err(Error::Btf)?;
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
}

impl Looks<'_> {
    /// Reads everything, and what is old, again.
    fn look(&mut self, controllers: &[Controller]) -> Result<InFlight> {
        let options = self.options;
        let first = self.read(controllers)?;
        // the ages of both readings are those of this moment: what is not old now gets no verdict
        let ticks = self.access.ticks();
        let has_old = first.oldest(ticks) >= Some(options.age);
        let second = if has_old {
            sleep(APART);
            Some(self.read(controllers)?)
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
        let mut found = InFlight::new(&first, second, ticks, options.age, wanted);
        if options.old {
            found.commands.retain(|c| c.age >= Some(options.age));
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

    fn show(&self, found: &InFlight, controllers: &[Controller], again: bool) -> Result<()> {
        let names = |instance: u32, nsid: u32| -> Option<(String, CommandSet)> {
            let ctrl = controllers.iter().find(|c| c.instance == instance)?;
            let ns = ctrl.namespaces.iter().find(|ns| ns.nsid == nsid)?;
            Some((ns.name.clone(), ns.set))
        };
        let mut out = BufWriter::new(stdout().lock());
        if self.options.json {
            json(found, &names, monotonic_ns(), &mut out)?;
        } else {
            let color = self.options.color;
            if again {
                writeln!(out)?;
            }
            text(found, &names, Theme { color }, &mut out)?;
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

/// Runs the command.
///
/// # Errors
/// One sentence, with the exit code of its kind.
pub fn run(options: &InflightOptions) -> Result<()> {
    take_over_log(None);
    let system = System::at("/");
    let access = Access::open(options, &system)?;
    let (sender, stop) = channel();
    stop_signals(sender)?;
    let mut looks = Looks {
        options,
        system,
        access,
    };
    if !looks.access.types.has_pci() {
        say("this kernel does not describe the PCI driver's queues: there are no verdicts");
    }
    let begin = Instant::now();
    for n in 0_u32.. {
        let controllers = looks.system.controllers();
        check_devices(&options.filter, &controllers)?;
        let found = looks.look(&controllers)?;
        looks.show(&found, &controllers, n > 0)?;
        let (Some(interval), true) = (
            options.interval,
            options.count.is_none_or(|count| u64::from(n) + 1 < count),
        ) else {
            break;
        };
        if !wait(&stop, begin + interval * (n + 1)) {
            break;
        }
    }
    Ok(())
}
