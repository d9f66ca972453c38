// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who issued the commands: processes and cgroups, with their shares of the time of a cause.

use std::collections::{BTreeMap, HashMap};

use crate::model::event::Submission;
use crate::model::group::comm_text;
use crate::model::text::Text;

use serde::Serialize;

use super::facts::Facts;

/// Smallest share that is named.
const LEAST: f64 = 0.005;
/// Most processes, and most cgroups, that a cause names.
const SHOWN: usize = 3;

/// A process and a cgroup, as a command has them: of the task that submitted its bio, if that was
/// observed, else of the one that called the driver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Issuer {
    /// Process id.
    pub pid: u32,
    /// The name of the thread.
    comm: [u8; 16],
    /// It is the main thread, which names the process.
    is_main: bool,
    /// The id of the cgroup; 0: not known.
    pub cgroup: u64,
    /// It submitted the bio.
    pub is_submitter: bool,
}

impl Issuer {
    /// The issuer of a command; `None`: not observed.
    pub fn of(submission: &Submission) -> Option<Self> {
        let Submission { pid, tid, comm, knows_submitter, origin, .. } = *submission;
        let by = origin.submitter;
        let known = [by.cgroup, origin.io_cgroup, origin.task_cgroup];
        let cgroup = known.into_iter().find(|id| *id != 0).unwrap_or(0);
        let is_submitter = by.is_known();
        let (pid, tid, comm) =
            if is_submitter { (by.pid, by.tid, by.comm) } else { (pid, tid, comm) };
        let issuer = Self { pid, comm, is_main: tid == pid, cgroup, is_submitter };
        (is_submitter || knows_submitter).then_some(issuer)
    }

    /// `fio[1234]`, or `pid 1234` if the name was removed.
    pub fn name(&self) -> String {
        match &*comm_text(&self.comm) {
            "" => format!("pid {}", self.pid),
            comm => format!("{comm}[{}]", self.pid),
        }
    }
}

/// A process, and its share of the time of a cause.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Process {
    /// Its name and its number.
    pub name: String,
    /// Its number.
    pub pid: u32,
    /// `submitter` of the bios, or `caller` of the driver.
    pub by: &'static str,
    /// 0 to 1.
    pub share: f64,
}

/// A cgroup, likewise.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cgroup {
    /// Its id.
    pub id: u64,
    /// Its path, if it is known.
    pub path: Option<Text>,
    /// 0 to 1.
    pub share: f64,
}

impl Cgroup {
    /// Its path, or its id.
    pub fn name(&self) -> String {
        self.path.as_ref().map_or_else(|| format!("id {}", self.id), ToString::to_string)
    }
}

/// Who issued the commands of a cause, those with most time first.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Who {
    /// Processes.
    #[serde(rename = "who")]
    pub processes: Vec<Process>,
    /// Cgroups.
    pub cgroups: Vec<Cgroup>,
    /// What the shares are shares of.
    #[serde(skip)]
    pub whole: String,
}

/// The largest shares.
fn largest<K, T>(sums: BTreeMap<K, f64>, all: f64, of: impl Fn(K, f64) -> T) -> Vec<T> {
    let shares = sums.into_iter().map(|(key, sum)| (key, sum / all));
    let mut shares: Vec<(K, f64)> = shares.filter(|(_, share)| *share >= LEAST).collect();
    shares.sort_by(|a, b| b.1.total_cmp(&a.1));
    shares.into_iter().take(SHOWN).map(|(key, share)| of(key, share)).collect()
}

fn listed(shares: impl Iterator<Item = (String, f64)>) -> String {
    let shares = shares.map(|(name, share)| format!("{name} {:.0}%", share * 100.0));
    shares.collect::<Vec<_>>().join(", ")
}

impl Who {
    /// The processes, as text; `None`: none is known.
    pub fn text(&self) -> Option<String> {
        let is_submitter = self.processes.first()?.by == "submitter";
        let shares = listed(self.processes.iter().map(|p| (p.name.clone(), p.share)));
        let by = if is_submitter { "" } else { " (callers of the driver)" };
        Some(format!("{shares} of {}{by}", self.whole))
    }

    /// The cgroups, as text; `None`: none is known.
    pub fn cgroups_text(&self) -> Option<String> {
        let shares = self.cgroups.iter().map(|c| (c.name(), c.share));
        (!self.cgroups.is_empty()).then(|| format!("{} of {}", listed(shares), self.whole))
    }
}

impl Facts {
    /// Who issued commands that took these times. `whole` says what the times add up to.
    pub fn who(&self, whole: &str, times: impl Iterator<Item = (Option<Issuer>, f64)>) -> Who {
        let (mut all, mut processes, mut cgroups) = (0.0, BTreeMap::new(), BTreeMap::new());
        let mut named: HashMap<u32, Issuer> = HashMap::new();
        for (issuer, time) in times {
            all += time;
            let Some(issuer) = issuer.filter(|_| time > 0.0) else { continue };
            let name = named.entry(issuer.pid).or_insert(issuer);
            if issuer.is_main && !name.is_main {
                *name = issuer;
            }
            *processes.entry(issuer.pid).or_default() += time;
            if issuer.cgroup != 0 {
                *cgroups.entry(issuer.cgroup).or_default() += time;
            }
        }
        let process = |pid, share| {
            let issuer = named.get(&pid).copied().unwrap_or_default();
            let by = if issuer.is_submitter { "submitter" } else { "caller" };
            Process { name: issuer.name(), pid, by, share }
        };
        let cgroup = |id, share| Cgroup { id, path: self.cgroups.get(&id).cloned(), share };
        Who {
            processes: largest(processes, all, process),
            cgroups: largest(cgroups, all, cgroup),
            whole: whole.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::diagnose::facts::Collector;
    use crate::diagnose::judge::Expectation;
    use crate::diagnose::verdict::Subject;
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
        let of = |submission: &Submission| {
            let issuer = Issuer::of(submission).unwrap();
            (issuer.name(), issuer.is_submitter, issuer.cgroup)
        };
        let caller = submission(51, 51, "kworker/1:1H", None);
        assert_eq!(of(&caller), ("kworker/1:1H[51]".into(), false, 0));
        let both = submission(51, 51, "kworker/1:1H", Some((7, 8)));
        assert_eq!(of(&both), ("db[7]".into(), true, 9));
        assert_eq!(of(&submission(5, 5, "", None)).0, "pid 5");
        let unknown = Submission { knows_submitter: false, ..caller };
        assert_eq!(Issuer::of(&unknown), None);
    }

    #[test]
    fn the_main_thread_names_the_process() {
        let all = [(10, "io_worker"), (9, "fio"), (11, "io_worker")];
        let all = all.map(|(tid, comm)| (Issuer::of(&submission(9, tid, comm, None)), 1.0));
        let name = |count| {
            Facts::default().who("all", all.into_iter().take(count)).processes.remove(0).name
        };
        assert_eq!((name(1), name(3)), ("io_worker[9]".into(), "fio[9]".into()));
    }

    #[test]
    fn shares_are_of_the_time_and_cgroups_have_their_names() {
        let mut collector = Collector::default();
        collector.facts.cgroups = [(9, "/db.slice".into())].into();
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
        let commands = facts.of(Subject::Controller(0));
        let who = facts.who("all", commands.map(|c| (c.issuer, c.total() as f64)));
        let [fio, db] = who.processes.as_slice() else { panic!("{who:?}") };
        assert_eq!((&*fio.name, &*db.name), ("fio[51]", "db[7]"));
        assert!((fio.share - 0.5).abs() < 0.02 && (fio.share + db.share - 1.0).abs() < 1e-9);
        assert_eq!((who.cgroups[0].id, who.cgroups[0].name()), (9, "/db.slice".into()));
        let text = who.cgroups_text().unwrap();
        assert!(text.starts_with("/db.slice ") && text.ends_with("% of all"), "{text}");
    }
}
