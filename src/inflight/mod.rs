// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `inflight` command: what is in flight now.

pub(crate) mod args;
mod traced;
pub mod view;

use std::io::{BufWriter, Write};
use std::time::Duration;

use crate::inflight::view::{Look, Lookup, json, text};
use crate::machine::System;
use crate::machine::clock::monotonic_ns;
use crate::machine::inflight::report::InFlight;
use crate::model::filter::Filter;
use crate::model::machine::ControllerInfo;
use crate::model::text::Text;
use crate::nvme::decode::CommandSet;
use crate::run::start::prepare;
use crate::run::stdout::output_width;
use crate::view::theme::Theme;
use anyhow::Result;

use self::traced::Tracer;
use crate::inflight::args::InflightArgs;
use crate::run::drive::turns::{Turns, stop_receiver};
use crate::run::inflight::{Access, Scope};
use crate::run::start::check_devices;
use crate::run::stdout::stdout;

/// A run of the command.
struct Looks<'o> {
    options: &'o InflightArgs,
    filter: Filter,
    system: System,
    access: Access,
    shown: u64,
}

impl Looks<'_> {
    /// Looks once, and shows what is found.
    fn take(&mut self, mut tracer: Option<&mut Tracer<'_>>) -> Result<()> {
        let controllers = self.system.controllers();
        check_devices(&self.filter, &controllers)?;
        let scope = Scope { filter: &self.filter, age: self.options.age };
        let mut observe = || tracer.as_mut().map(|tracer| tracer.observe()).transpose();
        let mut found = self.access.look(&controllers, scope, &mut observe)?;
        if self.options.old {
            found.commands.retain(|c| c.is_old);
        }
        self.show(&found, &controllers, tracer.as_deref())?;
        self.shown += 1;
        Ok(())
    }

    fn show(
        &self,
        found: &InFlight,
        controllers: &[ControllerInfo],
        tracer: Option<&Tracer<'_>>,
    ) -> Result<()> {
        let names = |instance: u32, nsid: u32| -> Option<(Text, CommandSet)> {
            let ctrl = controllers.iter().find(|c| c.instance == instance)?;
            let ns = ctrl.disks.iter().find(|ns| ns.nsid == nsid)?;
            Some((ns.name.clone(), ns.set()))
        };
        let frames = |id| tracer.and_then(|tracer| tracer.stack(id));
        let lookup = Lookup {
            names: &names,
            stacks: self.options.kstack.then_some(&frames),
            traced: tracer.is_some(),
        };
        let mut out = BufWriter::new(stdout());
        if self.options.json {
            json(found, lookup, monotonic_ns(), &mut out)?;
        } else {
            let color = self.options.color.on_stdout(self.options.json);
            if self.shown > 0 {
                writeln!(out)?;
            }
            let look = Look {
                theme: Theme { color },
                width: output_width(),
                limit: self.options.age,
                detail: self.options.verbose,
            };
            text(found, lookup, look, &mut out)?;
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
    prepare(None)?;
    let system = System::at("/");
    check_devices(&filter, &system.controllers())?;
    let access = Access::open(options.btf.as_deref(), &system)?;
    let stop = stop_receiver()?;
    access.say_missing();
    let mut looks = Looks { options, filter, system, access, shown: 0 };
    let Some(interval) = options.interval else {
        return looks.take(None);
    };
    let (mut turns, mut next) = (Turns::begin(stop, None), Duration::ZERO);
    loop {
        if turns.now() >= next {
            looks.take(None)?;
            next += interval;
        }
        if options.count.is_some_and(|count| looks.shown >= count) || !turns.wait(next) {
            return Ok(());
        }
    }
}
