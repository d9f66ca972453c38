// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cgroups and submitters of a recording: what it lacks, and which cgroups a filter selects.

use crate::error::Kind;
use crate::machine::cgroups as cgroup_filter;
use crate::model::filter::Filter;
use crate::model::text::Text;
use crate::recording::{Item, RunInfo};
use crate::settings::{OriginDetail, Settings};
use anyhow::Result;

use crate::run::exit::Failure;

/// Adds the cgroups of a recording that a filter selects.
pub fn learn_cgroups(filter: &mut Filter, item: &Item<'_>) {
    if let Item::Cgroups(all) = item {
        for one in all {
            cgroup_filter::add(filter, one.id, &one.path);
        }
    }
}

/// Refuses cgroups and submitters that the recording lacks.
pub fn check_who(info: &RunInfo, path: &Text, settings: &Settings) -> Result<()> {
    let (filter, by) = (&settings.filter, settings.by());
    let refuse = |text| Err(Failure::error(Kind::Usage, text));
    let by_cgroup = by.iter().any(|by| by.is_cgroup());
    if (by_cgroup || filter.cgroup.is_some()) && !info.cgroups {
        return refuse(format!(
            "{path} has no cgroups: record again with plain `record`, or omit the options with cgroups"
        ));
    }
    if settings.required_origin() == OriginDetail::Submitters && !info.submitters {
        return refuse(format!(
            "{path} has no submitters: record again with plain `record`, or omit --submitters"
        ));
    }
    if info.redacted && (filter.cgroup.is_some() || !filter.comms.is_empty()) {
        return refuse(format!(
            "{path} has no names of cgroups and processes (it is redacted): record without \
             --redact, or choose in another way"
        ));
    }
    Ok(())
}
