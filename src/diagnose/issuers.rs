// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who issued the commands: processes and cgroups, with their parts of the time of a cause.

use std::collections::{BTreeMap, HashMap};

use crate::model::event::Submission;
use crate::model::group::comm_text;
use crate::model::text::Text;

use super::command::Command;
use super::facts::Facts;
use super::report::{Cause, Concerns};
use super::subject::Subject;

/// Most issuers of a run. The commands of later ones have none.
const MOST: usize = 10_000;
/// Smallest part that is named.
const LEAST: f64 = 0.005;
/// Most processes, and most cgroups, that a cause names.
const SHOWN: usize = 3;

/// A process and a cgroup, as a command has them: of the task that submitted its bio, if that was
/// observed, else of the one that called the driver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Issuer {
    /// Process id.
    pub pid: u32,
    /// The name of its main thread, else of the first that was seen.
    comm: [u8; 16],
    /// The id of the cgroup; 0: not known.
    pub cgroup: u64,
    /// It submitted the bio.
    pub is_submitter: bool,
}

impl Issuer {
    /// The issuer of a command, and the id of its thread; `None`: not observed.
    fn of(submission: &Submission) -> Option<(Self, u32)> {
        let Submission { pid, tid, comm, knows_submitter, origin, .. } = *submission;
        let by = origin.submitter;
        let [task, io] = [origin.task_cgroup, origin.io_cgroup];
        let cgroup = [by.cgroup, io, task].into_iter().find(|id| *id != 0).unwrap_or(0);
        if by.is_known() {
            let (pid, comm) = (by.pid, by.comm);
            return Some((Self { pid, comm, cgroup, is_submitter: true }, by.tid));
        }
        knows_submitter.then_some((Self { pid, comm, cgroup, is_submitter: false }, tid))
    }

    /// `fio[1234]`, or `pid 1234` if the name was removed.
    pub fn name(&self) -> String {
        match &*comm_text(&self.comm) {
            "" => format!("pid {}", self.pid),
            comm => format!("{comm}[{}]", self.pid),
        }
    }
}

/// The issuers of a run. Commands have their numbers.
#[derive(Clone, Debug, Default)]
pub struct Issuers {
    all: Vec<Issuer>,
    /// By process, cgroup, and whether it submitted the bio.
    places: HashMap<(u32, u64, bool), u32>,
}

impl Issuers {
    /// The number of the issuer of a command; 0: it is not known.
    pub fn number(&mut self, submission: Option<&Submission>) -> u32 {
        let Some((issuer, tid)) = submission.and_then(Issuer::of) else {
            return 0;
        };
        let Issuer { pid, cgroup, is_submitter, comm } = issuer;
        let key = (pid, cgroup, is_submitter);
        if let Some(place) = self.places.get(&key) {
            if tid == pid {
                self.all[*place as usize - 1].comm = comm;
            }
            return *place;
        }
        if self.all.len() >= MOST {
            return 0;
        }
        self.all.push(issuer);
        let place = self.all.len() as u32;
        self.places.insert(key, place);
        place
    }

    /// The issuer with this number.
    pub fn get(&self, number: u32) -> Option<&Issuer> {
        self.all.get((number as usize).checked_sub(1)?)
    }
}

/// A process or a cgroup, and its part.
#[derive(Clone, Debug, PartialEq)]
pub struct Part<T> {
    /// What it is.
    pub of: T,
    /// Its part of the time, 0 to 1.
    pub share: f64,
}

/// Who issued the commands of a cause. Those with most time first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Who {
    /// Processes submitted the bios; otherwise they called the driver.
    pub are_submitters: bool,
    /// Processes.
    pub processes: Vec<Part<Issuer>>,
    /// Cgroups: the id, and the path if it is known.
    pub cgroups: Vec<Part<(u64, Option<Text>)>>,
}

/// The largest parts.
fn largest<K, T>(sums: BTreeMap<K, (T, f64)>, all: f64) -> Vec<Part<T>> {
    let parts = sums.into_values().map(|(of, sum)| Part { of, share: sum / all });
    let mut parts: Vec<Part<T>> = parts.filter(|part| part.share >= LEAST).collect();
    parts.sort_by(|a, b| b.share.total_cmp(&a.share));
    parts.truncate(SHOWN);
    parts
}

impl Who {
    /// Sums up times by issuer. `None`: no issuer is known.
    fn of(facts: &Facts, times: impl Iterator<Item = (Option<Issuer>, f64)>) -> Option<Self> {
        let (mut all, mut known, mut submitted) = (0.0, 0.0, 0.0);
        let mut processes: BTreeMap<u32, (Issuer, f64)> = BTreeMap::new();
        let mut cgroups: BTreeMap<u64, ((u64, Option<Text>), f64)> = BTreeMap::new();
        for (issuer, time) in times {
            all += time;
            let Some(issuer) = issuer else { continue };
            known += time;
            submitted += if issuer.is_submitter { time } else { 0.0 };
            processes.entry(issuer.pid).or_insert((issuer, 0.0)).1 += time;
            if issuer.cgroup != 0 {
                let path = || (issuer.cgroup, facts.cgroups.get(&issuer.cgroup).cloned());
                cgroups.entry(issuer.cgroup).or_insert_with(|| (path(), 0.0)).1 += time;
            }
        }
        (known > 0.0).then(|| Self {
            are_submitters: submitted * 2.0 > known,
            processes: largest(processes, all),
            cgroups: largest(cgroups, all),
        })
    }

    /// The processes, as text.
    pub fn text(&self) -> String {
        let what = if self.are_submitters { "submitters" } else { "callers of the driver" };
        let parts = self.processes.iter().map(|part| (part.of.name(), part.share));
        format!("{} ({what})", listed(parts))
    }

    /// The cgroups, as text; `None`: none is known.
    pub fn cgroups_text(&self) -> Option<String> {
        let name = |(id, path): &(u64, Option<Text>)| match path {
            Some(path) => path.to_string(),
            None => format!("id {id}"),
        };
        let parts = self.cgroups.iter().map(|part| (name(&part.of), part.share));
        (!self.cgroups.is_empty()).then(|| listed(parts))
    }
}

fn listed(parts: impl Iterator<Item = (String, f64)>) -> String {
    let parts = parts.map(|(name, share)| format!("{name} {:.0} %", share * 100.0));
    parts.collect::<Vec<_>>().join(", ")
}

impl Facts {
    /// Who issued commands, by a part of the time of each.
    pub fn who_of<'c>(
        &self,
        commands: impl Iterator<Item = &'c Command>,
        time: impl Fn(&Command) -> f64,
    ) -> Option<Who> {
        let issuers = &self.commands.issuers;
        let times = commands.map(|command| {
            let weight = self.commands.weight(command) as f64;
            (issuers.get(command.issuer).copied(), time(command) * weight)
        });
        Who::of(self, times)
    }

    /// Who issued the commands that a cause concerns.
    pub fn who(&self, subject: Subject, cause: &Cause) -> Option<Who> {
        if !cause.affected.is_empty() {
            let times = cause.affected.iter().map(|a| (a.issuer, (a.time_ns() as f64).max(1.0)));
            return Who::of(self, times);
        }
        self.who_of(self.of_subject(subject), |command| match &cause.concerns {
            Concerns::All => command.total() as f64,
            Concerns::Stages(stages) => command.time_within(*stages) as f64,
            Concerns::Kinds(kinds) => {
                let own = kinds.iter().find(|(kind, _)| *kind == command.stratum);
                own.map_or(0.0, |(_, part)| part * command.total() as f64)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::diagnose::report::{Affected, Collector, Expectation};
    use crate::testing::{EventBuilder, STAGES};

    /// The submission of a thread; `by`: process and thread that submitted the bio.
    fn submission(pid: u32, tid: u32, comm: &str, by: Option<(u32, u32)>) -> Submission {
        let event = EventBuilder::read().submit();
        let mut submission = *event.what.submission().unwrap();
        (submission.pid, submission.tid, submission.comm) = (pid, tid, [0; 16]);
        submission.comm[..comm.len()].copy_from_slice(comm.as_bytes());
        if let Some((pid, tid)) = by {
            let submitter = &mut submission.origin.submitter;
            (submitter.pid, submitter.tid, submitter.cgroup) = (pid, tid, 9);
            submitter.comm[..2].copy_from_slice(b"db");
        }
        submission
    }

    #[test]
    fn the_submitter_counts_where_it_was_observed() {
        let mut issuers = Issuers::default();
        let mut name = |submission: &Submission| {
            let number = issuers.number(Some(submission));
            let issuer = issuers.get(number).unwrap();
            (number, issuer.name(), issuer.is_submitter, issuer.cgroup)
        };
        let caller = submission(51, 51, "kworker/1:1H", None);
        assert_eq!(name(&caller), (1, "kworker/1:1H[51]".into(), false, 0));
        let both = submission(51, 51, "kworker/1:1H", Some((7, 8)));
        assert_eq!(name(&both), (2, "db[7]".into(), true, 9));
        // the main thread names the process
        assert_eq!(name(&submission(9, 10, "io_worker", None)).1, "io_worker[9]");
        assert_eq!(name(&submission(9, 9, "fio", None)).1, "fio[9]");
        assert_eq!(name(&submission(9, 11, "io_worker", None)).1, "fio[9]");
        assert_eq!(name(&submission(5, 5, "", None)).1, "pid 5");
        let mut unknown = caller;
        unknown.knows_submitter = false;
        assert_eq!(issuers.number(Some(&unknown)), 0);
        assert_eq!(issuers.number(None), 0);
        assert_eq!(issuers.get(0), None);
    }

    #[test]
    fn shares_are_of_the_time_and_cgroups_have_their_names() {
        let mut collector = Collector::default();
        collector.began(1_000_000_000);
        collector.wall_clock(1_795_737_590_000_000_000);
        collector.cgroups(&[(9, "/db.slice".into())].into());
        for n in 0..100 {
            let mut stages = STAGES;
            // every fourth is of fio, and takes three times as long
            let is_fio = n % 4 == 0;
            stages[4] = if is_fio { 3_200_000 } else { 1_000_000 };
            let mut event = EventBuilder::staged(2_000_000_000 + n * 10_000_000, stages).command();
            let by = (!is_fio).then_some((7, 8));
            *event.what.submission_mut().unwrap() = submission(51, 51, "fio", by);
            collector.event(&event);
        }
        let facts = collector.finish(Duration::from_secs(1), None, Expectation::None);
        let cause = Cause::new("device", "nvme0", String::new(), "");
        let who = facts.who(Subject::Controller(0), &cause).unwrap();
        let [fio, db] = who.processes.as_slice() else { panic!("{who:?}") };
        assert_eq!((fio.of.name(), db.of.name()), ("fio[51]".into(), "db[7]".into()));
        assert!((fio.share - 0.5).abs() < 0.02 && (fio.share + db.share - 1.0).abs() < 1e-9);
        assert_eq!(who.cgroups[0].of, (9, Some("/db.slice".into())));
        let text = who.cgroups_text().unwrap();
        assert!(text.starts_with("/db.slice ") && text.ends_with(" %"), "{text}");
        // single commands come before the rest of the subject, and have times of day
        let command = facts.all().find(|c| c.issuer == 1).unwrap();
        let cause = cause.about(&facts, vec![Affected::of_command(&facts, command)]);
        assert_eq!(facts.who(Subject::Controller(0), &cause).unwrap().processes.len(), 1);
        let when = &cause.finding.evidence[0];
        assert_eq!((&*when.name, when.value.matches(':').count()), ("when", 2), "{when:?}");
    }

    #[test]
    fn the_number_of_issuers_is_bounded() {
        let mut issuers = Issuers::default();
        let numbers = (1..=MOST as u32 + 5).map(|pid| {
            let number = issuers.number(Some(&submission(pid, pid, "x", None)));
            u32::from(number == 0)
        });
        assert_eq!(numbers.sum::<u32>(), 5);
    }
}
