// SPDX-License-Identifier: MIT OR Apache-2.0
//! Single commands that a verdict is about, and who issued the commands of a cause: processes and cgroups, with
//! their shares of the time.

use super::facts::Facts;
use crate::model::event::{CommandId, Submission};
use crate::model::group::comm_text;
use crate::model::ids::NamespaceId;
use crate::nvme::decode::{CommandSet, blocks};
use crate::nvme::opcode::QueueKind;
use crate::nvme::sqe::Sqe;
use crate::when::RunClock;
use serde::{Serialize, Serializer};
use std::collections::{BTreeMap, BTreeSet};

/// Times in texts have tenths of a second.
const APART_NS: u64 = 100_000_000;
/// Most of a list that a text has, and most processes and cgroups that a cause names.
const SHOWN: usize = 3;
/// Smallest share of a process or cgroup that is named.
const LEAST: f64 = 0.005;

/// A command that a verdict is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Affected {
    /// Its time, CLOCK_MONOTONIC nanoseconds.
    pub begin_ns: u64,
    /// The end of it.
    pub end_ns: u64,
    /// Controller and namespace.
    #[serde(rename = "nsid", serialize_with = "nsid")]
    pub disk: NamespaceId,
    /// Queue id.
    pub qid: u16,
    /// Command id; `None`: not known.
    pub cid: Option<u16>,
    /// Opcode, likewise.
    #[serde(rename = "opcode_value")]
    pub code: Option<u8>,
    /// Its first and its last block.
    pub blocks: Option<(u64, u64)>,
    /// Who issued it.
    #[serde(skip)]
    pub issuer: Option<Issuer>,
}

/// The controller is the subject of the verdict.
fn nsid<S: Serializer>(disk: &NamespaceId, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u32(disk.nsid)
}

/// The first of a list, and how many more there are.
pub fn first_of(all: impl IntoIterator<Item = String>) -> String {
    let all: Vec<String> = all.into_iter().collect();
    let more = all.len().saturating_sub(SHOWN);
    let text = all.into_iter().take(SHOWN).collect::<Vec<_>>().join(", ");
    if more > 0 { format!("{text} and {more} more") } else { text }
}

/// Times in order; those that are at most so far apart are one.
pub fn joined(times: impl Iterator<Item = (u64, u64)>, apart_ns: u64) -> Vec<(u64, u64)> {
    let mut times: Vec<(u64, u64)> = times.collect();
    times.sort_unstable();
    let mut all: Vec<(u64, u64)> = Vec::new();
    for (from, to) in times {
        match all.last_mut() {
            Some((_, end)) if from.saturating_sub(*end) <= apart_ns => *end = to.max(*end),
            _ => all.push((from, to)),
        }
    }
    all
}

/// Times as text: the first, and how many more there are.
pub fn times_text(clock: RunClock, times: impl Iterator<Item = (u64, u64)>) -> String {
    first_of(joined(times, APART_NS).into_iter().map(|span| clock.span(span)))
}

/// The first and the last block of an I/O command; `None`: it has none.
pub fn blocks_of(sqe: &Sqe) -> Option<(u64, u64)> {
    let found = blocks(QueueKind::Io, CommandSet::Nvm, sqe)?;
    Some((found.slba, found.slba.saturating_add(u64::from(found.nlb.checked_sub(1)?))))
}

impl Affected {
    /// A command of an event, which ended then after this time.
    pub fn of_event(
        id: &CommandId,
        submission: Option<&Submission>,
        (begin_ns, end_ns): (u64, u64),
    ) -> Self {
        Self {
            begin_ns,
            end_ns,
            disk: id.namespace(),
            qid: id.qid,
            cid: Some(id.cid),
            code: Some(id.opcode.code),
            blocks: submission.and_then(|s| blocks_of(&s.sqe)),
            issuer: submission.and_then(Issuer::of),
        }
    }

    /// How long it took, in nanoseconds.
    pub const fn time_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.begin_ns)
    }
}

impl Facts {
    /// Their blocks by disk, as text: `nvme0n1 8-15, nvme0n1 64-71`; empty: they have none.
    pub fn blocks_of(&self, affected: &[Affected]) -> String {
        let of_disk = |a: &Affected| Some((self.disk_name(a.disk.ctrl, a.disk.nsid), a.blocks?));
        let all: BTreeSet<(String, (u64, u64))> = affected.iter().filter_map(of_disk).collect();
        first_of(all.iter().map(|(disk, (first, last))| format!("{disk} {first}-{last}")))
    }
}

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

/// A process or a cgroup, and its share of the time of a cause.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Part {
    /// `fio[1234]`, or the path of the cgroup.
    pub name: String,
    /// The id of the process or of the cgroup.
    pub id: u64,
    /// Of a process: `submitter` of the bios, or `caller` of the driver.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<&'static str>,
    /// 0 to 1.
    pub share: f64,
}

/// Who issued the commands of a cause, those with most time first.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Who {
    /// Processes.
    #[serde(rename = "who")]
    pub processes: Vec<Part>,
    /// Cgroups.
    pub cgroups: Vec<Part>,
}

/// The largest shares.
fn largest(parts: impl Iterator<Item = Part>) -> Vec<Part> {
    let mut parts: Vec<Part> = parts.filter(|part| part.share >= LEAST).collect();
    parts.sort_by(|a, b| b.share.total_cmp(&a.share));
    parts.truncate(SHOWN);
    parts
}

/// Processes or cgroups as text; empty: none is known.
pub fn listed(parts: &[Part]) -> String {
    let shares = parts.iter().map(|p| format!("{} {:.0}%", p.name, p.share * 100.0));
    let end = if parts.is_empty() { "" } else { " of this time" };
    shares.collect::<Vec<_>>().join(", ") + end
}

impl Who {
    /// The processes, as text; empty: none is known.
    pub fn text(&self) -> String {
        let are_callers = self.processes.first().is_some_and(|p| p.by == Some("caller"));
        listed(&self.processes) + if are_callers { " (callers of the driver)" } else { "" }
    }
}

impl Facts {
    /// Who issued commands that took these times.
    pub fn who(&self, times: impl Iterator<Item = (Option<Issuer>, f64)>) -> Who {
        let mut all = 0.0;
        let mut processes: BTreeMap<u32, (Issuer, f64)> = BTreeMap::new();
        let mut cgroups: BTreeMap<u64, f64> = BTreeMap::new();
        for (issuer, time) in times {
            all += time;
            let Some(issuer) = issuer.filter(|_| time > 0.0) else { continue };
            let (named, sum) = processes.entry(issuer.pid).or_insert((issuer, 0.0));
            *sum += time;
            if issuer.is_main && !named.is_main {
                *named = issuer;
            }
            if issuer.cgroup != 0 {
                *cgroups.entry(issuer.cgroup).or_default() += time;
            }
        }
        let processes = processes.into_iter().map(|(pid, (issuer, sum))| Part {
            name: issuer.name(),
            id: pid.into(),
            by: Some(if issuer.is_submitter { "submitter" } else { "caller" }),
            share: sum / all,
        });
        let name = |id| self.cgroups.get(&id).map_or(format!("id {id}"), ToString::to_string);
        let cgroup = |(id, sum)| Part { name: name(id), id, by: None, share: sum / all };
        Who { processes: largest(processes), cgroups: largest(cgroups.into_iter().map(cgroup)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnose::facts::Collector;
    use crate::diagnose::verdict::Subject;
    use crate::testing::{EventBuilder, STAGES};

    #[test]
    fn times_that_overlap_are_one_and_a_text_has_the_first_three() {
        const S: u64 = 1_000_000_000;
        let times = [(5, 6), (1, 3), (2, 4), (8, 9), (11, 12), (15, 16)];
        let times = times.into_iter().map(|(from, to)| (from * S, to * S));
        assert_eq!(joined(times.clone(), APART_NS).first(), Some(&(S, 4 * S)));
        let text = times_text(RunClock::default(), times);
        assert_eq!(text, "1.0-4.0 s, 5.0-6.0 s, 8.0-9.0 s and 2 more");
        assert_eq!(times_text(RunClock::default(), [].into_iter()), "");
    }

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
        let name =
            |count| Facts::default().who(all.into_iter().take(count)).processes.remove(0).name;
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
        let facts = collector.finish();
        let commands = facts.of(Subject::Controller(0));
        let who = facts.who(commands.map(|c| (c.at.issuer, c.total() as f64)));
        let [fio, db] = who.processes.as_slice() else { panic!("{who:?}") };
        assert_eq!((&*fio.name, &*db.name), ("fio[51]", "db[7]"));
        assert!((fio.share - 0.5).abs() < 0.02 && (fio.share + db.share - 1.0).abs() < 1e-9);
        assert_eq!((who.cgroups[0].id, &*who.cgroups[0].name), (9, "/db.slice"));
        let text = listed(&who.cgroups);
        assert!(text.starts_with("/db.slice ") && text.ends_with("% of this time"), "{text}");
    }
}
