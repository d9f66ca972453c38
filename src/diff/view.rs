// SPDX-License-Identifier: MIT OR Apache-2.0
//! Comparisons of recordings as text and as JSON. The first line is the verdict.

pub use crate::diff::json::DiffJson;
use crate::diff::report::{Both, Claim, Diff, Group, LoadChange, Origin, Scope, remarks};
pub use crate::diff::text::DiffText;
use crate::model::command_class::CommandClass;
use crate::model::report::disk_names::namespace_name;
use crate::model::stage::StageSet;
use crate::nvme::opcode::QueueKind;
use crate::nvme::subject::command_name;
use crate::stats::ratio::Ratio;
use crate::stats::sample::STATISTICS;
use crate::units::rate;

/// What was compared.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'o> {
    /// The stages of the comparison.
    pub stage_set: StageSet,
    /// The recordings of both sides.
    pub origins: Both<&'o [Origin]>,
    /// Smallest change that is claimed: 0.02 is 2 %.
    pub least: f64,
}

/// A ratio with three digits, in at most four characters.
pub(crate) fn ratio(value: f64) -> String {
    if value >= 999.5 {
        ">999".into()
    } else if value < 9.995 {
        format!("{value:.2}")
    } else if value < 99.95 {
        format!("{value:.1}")
    } else {
        format!("{value:.0}")
    }
}

/// `1.42x [1.31, 1.55]`
pub(crate) fn with_interval(found: Ratio) -> String {
    let Ratio { ratio: middle, low, high, .. } = found;
    format!("{}x [{}, {}]", ratio(middle), ratio(low), ratio(high))
}

/// The name of a disk, as one of the recordings has it.
fn disk_of(origins: Both<&[Origin]>, ctrl: u32, nsid: u32) -> String {
    let recordings = origins.a.iter().chain(origins.b);
    let controllers = recordings.flat_map(|o| &o.controllers);
    let of_ctrl = controllers.filter(|c| c.instance == ctrl);
    let mut disks = of_ctrl.flat_map(|c| &c.disks).filter(|d| d.nsid == nsid && !d.name.is_empty());
    namespace_name(disks.next().map(|d| &d.name), ctrl, nsid)
}

impl Subject<'_> {
    /// The name of a stratum: `read 4k nvme0n1`.
    pub fn stratum(origins: Both<&[Origin]>, stratum: &CommandClass) -> String {
        let CommandClass { ctrl, nsid, opcode, size } = stratum;
        let disk = match opcode.queue {
            QueueKind::Admin => format!("nvme{ctrl}"),
            QueueKind::Io => disk_of(origins, *ctrl, *nsid),
        };
        let name = command_name(*opcode, *nsid);
        let name = name.map_or_else(|| opcode.to_string(), str::to_owned);
        let size = match size.bytes() {
            0 => String::new(),
            _ => format!(" {size}"),
        };
        format!("{name}{size} {disk}")
    }

    /// What rows without a change are.
    fn noise(&self) -> String {
        format!("within noise or below {:.0} % of the total", 100.0 * self.least)
    }

    /// The name of a disk, or of all that a controller has.
    pub(crate) fn disk(&self, ctrl: u32, nsid: u32) -> String {
        match nsid {
            0 => format!("nvme{ctrl}"),
            _ => disk_of(self.origins, ctrl, nsid),
        }
    }

    pub(crate) fn scope(&self, scope: Scope) -> String {
        match scope {
            Scope::CommandClass(stratum) => Self::stratum(self.origins, &stratum),
            Scope::Controller(ctrl) => format!("all I/O nvme{ctrl}"),
        }
    }

    /// The result in a sentence.
    pub(crate) fn verdict(&self, diff: &Diff) -> String {
        if diff.comparisons == 0 {
            return "too few commands to compare anything: record longer".into();
        }
        let Some(claim) = diff.main_claim() else {
            return format!("no change: all {}", self.noise());
        };
        let Claim { group, row, statistic, compared } = claim;
        let mut text = format!(
            "{}: {} {} {}",
            self.scope(group.scope),
            STATISTICS[statistic],
            row.name,
            with_interval(compared.ratio)
        );
        let mut others = diff.changed_rows() - 1;
        let total = group.rows.iter().find(|r| r.name == "total" && !row.is_total);
        let of_total = total.and_then(|r| r.changed().find(|(n, _)| *n == statistic));
        if let Some((_, total)) = of_total {
            text.push_str(&format!(", total {}x", ratio(total.ratio.ratio)));
            others -= 1;
        }
        text + &match others {
            0 => format!("; all else {}", self.noise()),
            1 => "; 1 more row changed".into(),
            n => format!("; {n} more rows changed"),
        }
    }

    /// What limits the comparison, a sentence each.
    pub(crate) fn remarks(&self, diff: &Diff) -> Vec<String> {
        let mut all: Vec<String> = diff.load_changes.iter().map(|c| self.load(c)).collect();
        for (name, strata) in [("A", &diff.only.a), ("B", &diff.only.b)] {
            if !strata.is_empty() {
                let names = strata.iter().map(|(stratum, commands)| {
                    format!("{} ({commands})", Self::stratum(self.origins, stratum))
                });
                let names: Vec<String> = names.collect();
                all.push(format!("only in {name}: {}", some(&names)));
            }
        }
        for group in &diff.groups {
            let odd = group.rows.iter().filter_map(|row| Some((row, row.observed?)));
            all.extend(odd.map(|(row, Both { a, b })| {
                format!(
                    "{} {}: observed for {:.0} % of the commands in A, {:.0} % in B, so nothing is \
                     claimed of it",
                    self.scope(group.scope),
                    row.name,
                    100.0 * a,
                    100.0 * b
                )
            }));
        }
        all.extend(remarks(self.origins, self.stage_set));
        all
    }

    fn load(&self, change: &LoadChange) -> String {
        match change {
            LoadChange::Mix { ctrl, stratum, share } => format!(
                "the mix of nvme{ctrl} differs ({}: {:.0} % of the commands in A, {:.0} % in B): \
                 its commands are not compared as a whole",
                Self::stratum(self.origins, stratum),
                100.0 * share.a,
                100.0 * share.b
            ),
            LoadChange::Depth { ctrl, load } => format!(
                "the load of nvme{ctrl} differs ({} IOPS with {:.1} in flight in A, {} with {:.1} \
                 in B): latencies may differ because of that",
                rate(load.a.iops()),
                load.a.in_flight(),
                rate(load.b.iops()),
                load.b.in_flight()
            ),
        }
    }
}

/// The first items of a list.
pub(crate) fn some(items: &[String]) -> String {
    const SHOWN: usize = 6;
    let more = items.len().saturating_sub(SHOWN);
    let first = &items[..items.len() - more];
    match more {
        0 => first.join(", "),
        n => format!("{} and {n} more", first.join(", ")),
    }
}

/// Whether any statistic of a group was compared.
pub(crate) fn was_compared(group: &Group) -> bool {
    group.rows.iter().any(|r| r.compared.iter().any(Option::is_some))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_fit_their_column() {
        let texts = [0.0, 0.994, 9.994, 9.996, 99.96, 999.4, 1e3, f64::INFINITY].map(ratio);
        let want = ["0.00", "0.99", "9.99", "10.0", "100", "999", ">999", ">999"];
        assert_eq!(texts, want);
    }
}
