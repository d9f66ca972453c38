// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ledger of a session.

use crate::error::Kind;
use crate::model::counters::{Count, Counters};
use crate::model::ledger::{Ledger, Shown, TraceLedger};
use crate::model::run::Scan;
use crate::model::snapshot::Snapshot;
use crate::session::Session;
use anyhow::Result;

use crate::run::eprint_note;
use crate::run::exit::Failure;

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

/// The ledger of a session with histograms. `scan`: the slots, after the end of the session.
///
/// # Errors
/// If the types do not fit the kernel.
pub fn ledger_of(source: &Session, now: &Snapshot, scan: Option<Scan>) -> Result<Ledger> {
    check_fit(&now.counters)?;
    let plan = source.plan();
    let ledger = Ledger::new(plan, &now.counters, &now.misses, now.commands(), scan);
    Ok(ledger.with_unmeasured(now.unmeasured()).with_cost(plan, source.run_times().as_ref()))
}

/// Builds the ledger of a trace session. `scan`: the slots, after the end of the session.
///
/// # Errors
/// If the source can't be read, or the types do not fit the kernel.
pub fn ledger_of_trace(source: &Session, shown: &Shown, scan: Option<Scan>) -> Result<Ledger> {
    let counters = source.counters()?;
    check_fit(&counters)?;
    let ledger = Ledger::new(
        source.plan(),
        &counters,
        &source.misses(),
        counters.get(Count::Finished),
        scan,
    );
    Ok(ledger.with_trace(&counters, shown).with_cost(source.plan(), source.run_times().as_ref()))
}

/// Reports the commands of this process in a trace, if there are any.
pub fn say_own_share(ledger: &Ledger) {
    let share = ledger.trace.as_ref().and_then(TraceLedger::own_share);
    share.into_iter().for_each(|text| eprint_note(&text));
}
