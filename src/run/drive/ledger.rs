// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ledger of a session.

use crate::error::{Failure, Kind};
use crate::model::counters::{Count, Counters};
use crate::model::ledger::{Ledger, Shown, TraceLedger};
use crate::model::machine::Scan;
use crate::model::snapshot::Snapshot;
use crate::session::Session;
use anyhow::Result;

use crate::run::eprint_note;

/// Fails if the types of the BTF file do not match the live queues.
///
/// # Errors
/// If they do not match.
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

/// The ledger of a session whose programs count the commands, in rows. `scan`: the slots, after its end.
///
/// # Errors
/// If the types do not fit the kernel.
pub fn ledger_of_rows(session: &Session, now: &Snapshot, scan: Option<Scan>) -> Result<Ledger> {
    let (plan, counters) = (session.plan(), &now.counters);
    check_fit(counters)?;
    let ledger = Ledger::new(plan, counters, &now.misses, now.commands(), scan);
    Ok(ledger.with_unmeasured(now.unmeasured()).with_cost(plan, session.run_times().as_ref()))
}

/// The ledger of a session whose events were shown. `scan`: the slots, after its end.
///
/// # Errors
/// If the counters cannot be read, or the types do not fit the kernel.
pub fn ledger_of_events(session: &Session, shown: &Shown, scan: Option<Scan>) -> Result<Ledger> {
    let (plan, counters) = (session.plan(), session.counters()?);
    check_fit(&counters)?;
    let finished = counters.get(Count::Finished);
    let ledger = Ledger::new(plan, &counters, &session.misses(), finished, scan);
    Ok(ledger.with_trace(&counters, shown).with_cost(plan, session.run_times().as_ref()))
}

/// Reports the commands of this process in a trace, if there are any.
pub fn say_own_share(ledger: &Ledger) {
    let share = ledger.trace.as_ref().and_then(TraceLedger::own_share);
    share.into_iter().for_each(|text| eprint_note(&text));
}
