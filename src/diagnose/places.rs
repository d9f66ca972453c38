// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the commands and the strata of a subject are. A recording may have as many subjects and
//! strata as commands: no rule may look at all of them for each of them.

use std::collections::BTreeMap;

use super::command::Command;
use super::strata::ClassFacts;
use super::subject::Subject;
use crate::model::command_class::CommandClass;

/// A stratum: its place, and those of its commands.
#[derive(Clone, Debug, Default)]
struct Kind {
    place: usize,
    commands: Vec<u32>,
}

/// Places in the lists of the facts, in the order of these. Subjects are controllers and disks.
#[derive(Clone, Debug, Default)]
pub struct Places {
    commands: BTreeMap<Subject, Vec<u32>>,
    strata: BTreeMap<Subject, Vec<u32>>,
    kinds: BTreeMap<CommandClass, Kind>,
}

/// The controller and the disk of a stratum.
const fn subjects(stratum: CommandClass) -> [Subject; 2] {
    let CommandClass { ctrl, nsid, .. } = stratum;
    [Subject::Controller(ctrl), Subject::Disk(ctrl, nsid)]
}

fn add(places: &mut BTreeMap<Subject, Vec<u32>>, stratum: CommandClass, place: u32) {
    for subject in subjects(stratum) {
        places.entry(subject).or_default().push(place);
    }
}

impl Places {
    /// Those of these commands and strata.
    pub fn of(commands: &[Command], strata: &[ClassFacts]) -> Self {
        let mut places = Self::default();
        for (place, command) in (0..).zip(commands) {
            add(&mut places.commands, command.stratum, place);
            let kind = places.kinds.entry(command.stratum).or_default();
            kind.commands.push(place);
        }
        for (place, facts) in (0_u32..).zip(strata) {
            add(&mut places.strata, facts.stratum, place);
            let kind = places.kinds.entry(facts.stratum).or_default();
            kind.place = place as usize;
        }
        places
    }

    /// The commands of a controller or disk.
    pub fn commands(&self, subject: Subject) -> &[u32] {
        self.commands.get(&subject).map_or(&[], Vec::as_slice)
    }

    /// The commands of a stratum.
    pub fn commands_of_kind(&self, stratum: CommandClass) -> &[u32] {
        let kind = self.kinds.get(&stratum);
        kind.map_or(&[], |kind| kind.commands.as_slice())
    }

    /// The strata of a controller or disk.
    pub fn strata(&self, subject: Subject) -> &[u32] {
        self.strata.get(&subject).map_or(&[], Vec::as_slice)
    }

    /// A stratum.
    pub fn stratum(&self, stratum: CommandClass) -> Option<usize> {
        self.kinds.get(&stratum).map(|kind| kind.place)
    }
}
