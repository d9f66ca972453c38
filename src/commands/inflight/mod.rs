// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `inflight` command: what is in flight now.

pub mod access;
mod traced;

use std::io::{BufWriter, Write};
use std::sync::mpsc::channel;
use std::time::Duration;

use anyhow::Result;
use nvme_deep::machine::System;
use nvme_deep::machine::clock::monotonic_ns;
use nvme_deep::machine::sysfs::Controller;
use nvme_deep::model::event::StackId;
use nvme_deep::model::filter::Filter;
use nvme_deep::model::stack::Frame;
use nvme_deep::model::untrusted::Untrusted;
use nvme_deep::nvme::decode::CommandSet;
use nvme_deep::report::inflight::{InFlight, Observed};
use nvme_deep::session::take_over_log;
use nvme_deep::view::inflight::{Lookup, json, text};
use nvme_deep::view::theme::Theme;

use crate::cli::inflight::InflightArgs;
use crate::commands::drive::Turn;
use crate::commands::drive::turns::{NoUpkeep, Run, stop_signals};
use crate::commands::inflight::access::{Access, Scope};
use crate::commands::standard::stdout;
use crate::commands::start::check_devices;

/// A run of the command.
struct Looks<'o> {
    options: &'o InflightArgs,
    filter: Filter,
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
        check_devices(&self.filter, &controllers)?;
        let mut observer = observer;
        let scope = Scope { filter: &self.filter, age: self.options.age };
        let mut observe = || observer.as_mut().map(|o| o.observe()).transpose();
        let mut found = self.access.look(&controllers, scope, &mut observe)?;
        if self.options.old {
            found.commands.retain(|c| c.is_old);
        }
        self.show(&found, &controllers, observer.as_deref())?;
        self.shown += 1;
        Ok(())
    }

    fn show(
        &self,
        found: &InFlight,
        controllers: &[Controller],
        observer: Option<&dyn Observer>,
    ) -> Result<()> {
        let names = |instance: u32, nsid: u32| -> Option<(Untrusted, CommandSet)> {
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
        let mut out = BufWriter::new(stdout());
        if self.options.json {
            json(found, lookup, monotonic_ns(), &mut out)?;
        } else {
            let color = self.options.color();
            if self.shown > 0 {
                writeln!(out)?;
            }
            text(found, lookup, Theme { color }, &mut out)?;
        }
        out.flush()?;
        Ok(())
    }
}

/// Runs the command.
///
/// # Errors
/// One sentence, with the exit code of its kind.
pub fn run(options: &InflightArgs) -> Result<()> {
    let filter = options.filter()?;
    match (options.interval, options.tracing(&filter)) {
        (Some(interval), Some(settings)) => traced::run(options, filter, interval, &settings),
        _ => untraced(options, filter),
    }
}

/// Looks, without a run that observes submissions.
fn untraced(options: &InflightArgs, filter: Filter) -> Result<()> {
    take_over_log(None);
    let system = System::at("/");
    check_devices(&filter, &system.controllers())?;
    let access = Access::open(options.btf.as_deref(), &system)?;
    let (sender, stop) = channel();
    stop_signals(sender)?;
    access.say_missing();
    let mut looks = Looks { options, filter, system, access, shown: 0 };
    let Some(interval) = options.interval else {
        return looks.take(None);
    };
    let mut next = Duration::ZERO;
    Run::begin(&stop, None).turns(&mut looks, &mut NoUpkeep, &mut |looks, tick| {
        if tick.now >= next {
            looks.take(None)?;
            next += interval;
        }
        Ok(match options.count {
            Some(count) if looks.shown >= count => Turn::Done,
            _ => Turn::Until(next),
        })
    })
}
