// SPDX-License-Identifier: MIT OR Apache-2.0
//! The settings of groups, cgroups and submitters.

use super::Config;
use super::configure::{has_top_counters, words_of};
use crate::abi::{by_bits, nd_by, nd_config, nd_targ, nd_who};
use crate::error::{CgroupError, Error, GroupError, Result};
use crate::machine::container;
use crate::model::run::Pairing;
use crate::probe::catalog::Role;
use crate::probe::plan::AttachPlan;
use crate::settings::Who;

/// The properties by which commands are grouped.
pub(super) fn groups(plan: &AttachPlan, config: &Config<'_>) -> Result<u16> {
    let by = config.settings.by();
    if !by.is_empty() && plan.pairing == Pairing::Tag {
        return Err(Error::Groups(GroupError::NoRequests));
    }
    let mut bits = by_bits(by);
    if by.iter().any(|by| by.is_cgroup()) {
        let has_io = config.system.cgroups_have_io();
        let has_io = has_io.ok_or(Error::Groups(GroupError::NoHierarchy))?;
        bits |= if has_io { nd_by::ND_BY_BIO.0 } else { 0 };
    }
    Ok(bits as u16)
}

/// Adds the filters by submitter.
fn add_submitter_filter(c: &mut nd_config, config: &Config<'_>) -> Result<()> {
    let filter = &config.settings.filter;
    let mut bits = 0;
    if !filter.submitter_pids.is_empty() {
        bits |= nd_targ::ND_TARG_PID.0;
        c.targ_submitter_pid_count = filter.submitter_pids.len() as u32;
        let pids = c.targ_submitter_pids.iter_mut();
        pids.zip(&filter.submitter_pids).for_each(|(to, pid)| *to = *pid);
    }
    if let Some(name) = &filter.submitter_comm {
        bits |= nd_targ::ND_TARG_COMM.0;
        c.targ_submitter_comm = words_of(name);
    }
    if let Some(path) = &filter.submitter_cgroup {
        bits |= nd_targ::ND_TARG_CGROUP.0;
        let id = container::cgroup_id(path).map_err(|error| Error::Cgroup {
            path: path.clone(),
            error: CgroupError::Unreadable(error),
        })?;
        c.targ_submitter_cgroup_id = id;
    }
    c.targ_by_submitter = bits as u8;
    Ok(())
}

/// Adds what is observed of who caused commands.
pub(super) fn add_who(c: &mut nd_config, plan: &AttachPlan, config: &Config<'_>) -> Result<()> {
    let settings = config.settings;
    let who = settings.who();
    if who == Who::Nobody {
        return Ok(());
    }
    // the slowest commands need the types of the driver, too
    let has_types = config.facts.vmlinux_btf
        && (!settings.reports_submitters() || has_top_counters(plan, config));
    if plan.pairing == Pairing::Tag || !has_types {
        return Err(Error::Groups(GroupError::NoTypes));
    }
    let has_io = config.system.cgroups_have_io();
    if who == Who::Cgroups && has_io.is_none() {
        return Err(Error::Groups(GroupError::NoHierarchy));
    }
    let mut bits = 0;
    if settings.origin() != Who::Nobody {
        bits |= nd_who::ND_WHO_ORIGIN.0;
    }
    if who == Who::Submitters {
        if !plan.has_role(Role::Submitter) {
            return Err(Error::Groups(GroupError::NoSubmitters));
        }
        bits |= nd_who::ND_WHO_SUBMITTER.0;
    }
    if has_io == Some(true) {
        bits |= nd_who::ND_WHO_BIO.0;
    }
    c.who = bits as u8;
    add_submitter_filter(c, config)
}
