// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the events of a target come from.

use crate::model::ledger::HostLedger;
use crate::model::target::{HostController, TargetInfo};
use anyhow::Result;

/// Takes an event of a target, and the controllers that are known.
pub type ToEvents<'t, E> = &'t mut dyn FnMut(&E, &[HostController]) -> Result<()>;

/// A target that is traced. `E`: its commands, changes of state, or counts of messages.
pub trait HostSource<E> {
    /// The target.
    fn target(&self) -> &TargetInfo;

    /// The controllers that were seen so far.
    fn controllers(&self) -> &[HostController] {
        &[]
    }

    /// Passes on new events by time, except the latest: earlier ones may still arrive. Returns true if
    /// there may be more.
    ///
    /// # Errors
    /// If the ring cannot be read, or data of the target contradict each other; errors of `to`.
    fn take(&mut self, to: ToEvents<'_, E>) -> Result<bool>;

    /// Fails if the target has ended: there will be no more events.
    ///
    /// # Errors
    /// If it has.
    fn alive(&self) -> Result<()>;

    /// Detaches everything, and returns the ledger. Passes on the events that are left, and the
    /// commands in flight.
    ///
    /// # Errors
    /// If the maps cannot be read; errors of `to`.
    fn end(&mut self, to: ToEvents<'_, E>) -> Result<HostLedger>;
}
