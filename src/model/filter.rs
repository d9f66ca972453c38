// SPDX-License-Identifier: MIT OR Apache-2.0
//! Filters: which commands. The BPF side applies them to a live run; here they select recorded events.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::event::{Event, Submission, Task};
use super::group::comm_of;
use super::origin::Who;
use crate::nvme::decode;
use crate::nvme::decode::CommandSet;
use crate::nvme::opcode::{Opcode, QueueKind};

/// Number of controllers that fit into a row key.
pub const MAX_CTRLS: u32 = 256;
/// Most entries of a list.
pub const MAX_LIST: usize = 16;

/// Filters. All of them must match; an empty set matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Controller instances.
    pub ctrls: BTreeSet<u32>,
    /// Namespace ids.
    pub nsids: BTreeSet<u32>,
    /// Opcodes.
    pub opcodes: BTreeSet<Opcode>,
    /// Queues; 0 is the admin queue.
    pub qids: BTreeSet<u16>,
    /// Exclude the admin queue.
    pub no_admin: bool,
    /// Exclude all other queues.
    pub no_io: bool,
    /// Processes. One of these or of `comms` must match.
    pub pids: BTreeSet<u32>,
    /// Names of threads.
    pub comms: BTreeSet<String>,
    /// A cgroup: its directory, or of a recording as it was given.
    pub cgroup: Option<PathBuf>,
    /// The first and the last logical block of a range that a command must touch.
    pub lba: Option<(u64, u64)>,
    /// Of a recording: the ids of the cgroups that are the one of the filter, or below it.
    pub within: BTreeSet<u64>,
    /// Of a recording: whose process and cgroup these are.
    pub who: Who,
}

/// An option with values, unless there is none.
fn option(name: &str, values: Vec<String>) -> Vec<String> {
    let value = values.join(",");
    match value.chars().next() {
        None => vec![],
        // a name such as `-bash` is no option
        Some('-') => vec![format!("{name}={value}")],
        Some(_) => vec![name.to_owned(), value],
    }
}

fn numbers<T: ToString>(set: &BTreeSet<T>) -> Vec<String> {
    set.iter().map(T::to_string).collect()
}

/// A word as a shell reads it: in single quotes if it has characters that a shell may interpret.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./,:@%+=".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

impl Filter {
    /// The options of this filter, in their canonical spelling. Empty: all commands.
    pub fn words(&self) -> Vec<String> {
        let Self {
            ctrls,
            nsids,
            opcodes,
            qids,
            no_admin,
            no_io,
            pids,
            comms,
            cgroup,
            lba,
            within: _,
            who: _,
        } = self;
        let opcode = |op: &Opcode| format!("{}:{}", op.queue, op.name_or_code());
        let flag = |set: bool, name: &str| if set { vec![name.to_owned()] } else { vec![] };
        let path = cgroup.iter().map(|path| path.display().to_string());
        let processes = numbers(pids).into_iter().chain(comms.iter().cloned());
        let range = lba.iter().map(|(first, last)| format!("{first}-{last}"));
        [
            option("--ctrl", ctrls.iter().map(|n| format!("nvme{n}")).collect()),
            option("--nsid", numbers(nsids)),
            option("--qid", numbers(qids)),
            option("--opcode", opcodes.iter().map(opcode).collect()),
            flag(*no_admin, "--no-admin"),
            flag(*no_io, "--no-io"),
            option("--process", processes.collect()),
            option("--cgroup", path.collect()),
            option("--lba", range.collect()),
        ]
        .concat()
    }

    /// The options of this filter as one text, quoted for a shell.
    pub fn text(&self) -> String {
        let words: Vec<String> = self.words().iter().map(|word| quoted(word)).collect();
        words.join(" ")
    }

    /// Whether commands of this controller match.
    pub fn has_ctrl(&self, instance: u32) -> bool {
        self.ctrls.is_empty() || self.ctrls.contains(&instance)
    }

    /// Whether it selects by what only the submission of a command has.
    pub fn needs_submission(&self) -> bool {
        self.lba.is_some() || self.selects_who()
    }

    /// Whether it selects by who asked for the command.
    pub fn selects_who(&self) -> bool {
        !self.pids.is_empty() || !self.comms.is_empty() || self.cgroup.is_some()
    }

    /// Whether who asked for a command matches.
    fn matches_who(&self, opcode: Opcode, submission: &Submission) -> bool {
        let Self { pids, comms, within, who, .. } = self;
        let matches = |task: Task| {
            let is_named = || comms.iter().any(|name| comm_of(&task.comm) == name.as_bytes());
            let any_process = pids.is_empty() && comms.is_empty();
            (any_process || pids.contains(&task.pid) || is_named())
                && (self.cgroup.is_none() || within.contains(&task.cgroup))
        };
        !self.selects_who() || submission.task(opcode, *who).is_some_and(matches)
    }

    /// Whether an event of a recording matches. Events that are not of a command match if their
    /// controller does.
    pub fn matches(&self, event: &Event) -> bool {
        let Self { ctrls: _, nsids, opcodes, qids, no_admin, no_io, lba, .. } = self;
        let any = |set: bool, found: bool| !set || found;
        if !self.has_ctrl(event.what.ctrl()) {
            return false;
        }
        let Some(id) = event.what.id() else {
            return true;
        };
        let admin = id.opcode.queue == QueueKind::Admin;
        if admin && *no_admin || !admin && *no_io {
            return false;
        }
        let of_id = any(!nsids.is_empty(), nsids.contains(&id.nsid))
            && any(!opcodes.is_empty(), opcodes.contains(&id.opcode))
            && any(!qids.is_empty(), qids.contains(&id.qid));
        let Some(submission) = event.what.submission().filter(|_| of_id) else {
            return of_id;
        };
        let blocks = || decode::blocks(id.opcode.queue, CommandSet::Nvm, &submission.sqe);
        let touches = |(first, last): (u64, u64)| {
            blocks().is_some_and(|b| b.slba <= last && b.slba.saturating_add(b.nlb.into()) > first)
        };
        lba.is_none_or(touches) && self.matches_who(id.opcode, submission)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::event::{CtrlState, EventKind};
    use crate::testing::EventBuilder;

    /// A read of blocks 100 to 107 by process 7, thread name `fio`.
    fn read() -> Event {
        EventBuilder::read().ctrl(1).qid(2).nsid(4).blocks(100, 8).submit()
    }

    fn matches(change: impl Fn(&mut Filter)) -> bool {
        let mut filter = Filter::default();
        change(&mut filter);
        filter.matches(&read())
    }

    #[test]
    fn each_filter_selects() {
        assert!(matches(|_| {}));
        assert!(matches(|f| f.ctrls = [1].into()) && !matches(|f| f.ctrls = [0].into()));
        assert!(matches(|f| f.nsids = [4].into()) && !matches(|f| f.nsids = [1].into()));
        assert!(matches(|f| f.qids = [2].into()) && !matches(|f| f.qids = [1].into()));
        assert!(matches(|f| f.pids = [7].into()) && !matches(|f| f.pids = [8].into()));
        assert!(matches(|f| f.no_admin = true) && !matches(|f| f.no_io = true));
        let comms = |f: &mut Filter, name: &str| f.comms = [name.to_owned()].into();
        assert!(matches(|f| comms(f, "fio")) && !matches(|f| comms(f, "fi")));
        assert!(matches(|f| (comms(f, "dd"), f.pids = [7].into()).1), "one of them");
        for (range, hit) in
            [((107, 200), true), ((0, 100), true), ((108, 200), false), ((0, 99), false)]
        {
            assert_eq!(matches(|f| f.lba = Some(range)), hit, "{range:?}");
        }
    }

    #[test]
    fn who_asked_for_it_selects() {
        let with = |who, known: bool, filter: Filter| {
            let mut event = read();
            let origin = &mut event.what.submission_mut().unwrap().origin;
            origin.io_cgroup = 2;
            origin.submitter.cgroup = 3;
            (origin.submitter.pid, origin.submitter.tid) = (70, if known { 71 } else { 0 });
            origin.submitter.comm[..2].copy_from_slice(b"db");
            Filter { who, ..filter }.matches(&event)
        };
        for (who, known, pid, name, cgroup) in [
            (Who::Submitter, true, 70, "db", 3),
            (Who::Caller, true, 7, "fio", 2),
            (Who::Submitter, false, 0, "", 0),
        ] {
            let none = Filter::default;
            for id in 0..4 {
                let within = Filter { cgroup: Some("/x".into()), within: [id].into(), ..none() };
                assert_eq!(with(who, known, within), id == cgroup && id > 0, "{who:?} {id}");
            }
            for id in [7, 70] {
                let pids = Filter { pids: [id].into(), ..none() };
                assert_eq!(with(who, known, pids), id == pid, "{who:?} {id}");
            }
            for comm in ["db", "fio"] {
                let named = Filter { comms: [comm.to_owned()].into(), ..none() };
                assert_eq!(with(who, known, named), comm == name, "{who:?} {comm}");
            }
            assert!(with(who, known, none()));
        }
    }

    #[test]
    fn a_command_without_a_bio_counts_for_its_caller() {
        let filter = Filter { pids: [7].into(), who: Who::Submitter, ..Filter::default() };
        let flush = Opcode { queue: QueueKind::Io, code: 0 };
        let submission = *read().what.submission().unwrap();
        assert!(filter.matches_who(flush, &submission));
        assert!(!filter.matches_who(Opcode { code: 1, ..flush }, &submission));
    }

    #[test]
    fn an_event_of_a_controller_matches_its_controller_only() {
        let what = EventKind::State { ctrl: 1, state: CtrlState(2), requested: false };
        let state = Event { at_ns: 1, what };
        let mut filter = Filter { qids: [9].into(), ..Filter::default() };
        assert!(filter.matches(&state));
        filter.ctrls = [2].into();
        assert!(!filter.matches(&state));
    }
}
