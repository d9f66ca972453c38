// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the numbers of each side come from, and what else differs between the sides.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::diff::report::Both;
use crate::model::controller::ControllerInfo;
use crate::model::ledger::Accuracy;
use crate::model::stage::StageSet;
use crate::model::untrusted::Untrusted;
use crate::recording::RunInfo;

/// A recording that was read.
#[derive(Clone, Debug)]
pub struct Origin {
    /// Its path.
    pub path: Untrusted,
    /// What was recorded, where and when.
    pub info: RunInfo,
    /// The controllers, under the numbers of the comparison.
    pub controllers: Vec<ControllerInfo>,
    /// Commands that were read.
    pub commands: u64,
    /// The time that they cover.
    pub covers: Duration,
    /// Accuracy by its ledger.
    pub accuracy: Accuracy,
    /// Whether the file is read to its end. If not, it is damaged, or was interrupted.
    pub is_whole: bool,
}

/// The distinct values of a side, as text: `6.1.0` or `6.1.0, 6.12.1`.
fn distinct<'o>(
    side: &'o [Origin],
    of: impl Fn(&'o Origin) -> Option<&'o Untrusted>,
) -> Option<String> {
    let all: BTreeSet<String> = side.iter().filter_map(of).map(ToString::to_string).collect();
    (!all.is_empty()).then(|| all.into_iter().collect::<Vec<_>>().join(", "))
}

fn model(origin: &Origin, instance: u32) -> Option<&Untrusted> {
    let mut all = origin.controllers.iter();
    let found = all.find(|c| c.instance == instance)?;
    Some(&found.model).filter(|model| !model.raw().trim().is_empty())
}

const fn stages(set: StageSet) -> &'static str {
    match set {
        StageSet::Total => "no",
        StageSet::Basic => "basic",
        StageSet::Fine => "fine",
        StageSet::Full => "full",
    }
}

/// One sentence for each circumstance that limits what the comparison shows. `used` is the stage set
/// of the comparison.
pub fn remarks(sides: Both<&[Origin]>, used: StageSet) -> Vec<String> {
    let mut remarks = Vec::new();
    let mut differs = |what: &str, a: Option<String>, b: Option<String>| {
        if let (Some(a), Some(b)) = (a, b)
            && a != b
        {
            remarks.push(format!("{what}: {a} in A, {b} in B"));
        }
    };
    let of_both = |of: fn(&Origin) -> Option<&Untrusted>| sides.map(|side| distinct(side, of));
    let kernels = of_both(|o| o.info.kernel.as_ref());
    differs("the kernels differ", kernels.a, kernels.b);
    let machines = of_both(|o| o.info.machine.as_ref());
    differs("the hypervisors differ", machines.a, machines.b);
    let instances: BTreeSet<u32> =
        (sides.a.iter().flat_map(|o| &o.controllers)).map(|c| c.instance).collect();
    for instance in instances {
        let models = sides.map(|side| distinct(side, |o| model(o, instance)));
        let what = format!("nvme{instance} is another model");
        differs(&what, models.a, models.b);
    }
    let filters = of_both(|o| Some(&o.info.filter));
    if filters.a != filters.b {
        remarks.push("the recordings were made with different filters".into());
    }
    for (name, side) in [("A", sides.a), ("B", sides.b)] {
        if let Some(more) = side.iter().find(|o| o.info.stage_set != used) {
            remarks.push(format!(
                "{name} has {} stages, and the other side {}: compared by {}",
                stages(more.info.stage_set),
                stages(used),
                match used {
                    StageSet::Total => "latency only",
                    _ => "the basic ones",
                }
            ));
        }
        remarks.extend(side.iter().flat_map(accuracy));
    }
    remarks
}

/// What limits the numbers of a recording.
fn accuracy(origin: &Origin) -> Vec<String> {
    let path = &origin.path;
    let mut remarks = Vec::new();
    match &origin.accuracy {
        Accuracy::Exact => {}
        Accuracy::Unknown => remarks.push(format!(
            "the accuracy of {path} is not known: its kernel does not count what it missed"
        )),
        Accuracy::Degraded(why) => {
            remarks.push(format!("{path} is DEGRADED: {}", why.join(", ")));
        }
    }
    if !origin.is_whole {
        let seconds = origin.covers.as_secs_f64();
        remarks.push(format!("{path} is incomplete: its first {seconds:.1} s are compared"));
    }
    remarks
}
