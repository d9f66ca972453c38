// SPDX-License-Identifier: MIT OR Apache-2.0
//! Filters: which commands. The BPF side applies them to a live run; here they select recorded events.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::event::Event;
use super::group::comm_of;
use super::origin::Origin;
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
    /// Processes that call the driver.
    pub pids: BTreeSet<u32>,
    /// The name of the thread that calls the driver.
    pub comm: Option<String>,
    /// The directory of a cgroup, for the task that calls the driver.
    pub cgroup: Option<PathBuf>,
    /// The directory of the cgroup of a container, for the bio of the command.
    pub container: Option<PathBuf>,
    /// The first and the last logical block of a range that a command must touch.
    pub lba: Option<(u64, u64)>,
    /// Processes that submit the bio.
    pub submitter_pids: BTreeSet<u32>,
    /// The name of the thread that submits the bio.
    pub submitter_comm: Option<String>,
    /// The directory of the cgroup of the submission.
    pub submitter_cgroup: Option<PathBuf>,
    /// Of a recording: the ids of the cgroups that these filters select.
    pub within: Within,
}

/// The ids of cgroups that filters select.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Within {
    /// Of the caller.
    pub cgroup: BTreeSet<u64>,
    /// Of the I/O.
    pub container: BTreeSet<u64>,
    /// Of the submission.
    pub submitter: BTreeSet<u64>,
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
            comm,
            cgroup,
            container,
            lba,
            submitter_pids,
            submitter_comm,
            submitter_cgroup,
            within: _,
        } = self;
        let opcode = |op: &Opcode| format!("{}:{}", op.queue, op.name_or_code());
        let flag = |set: bool, name: &str| if set { vec![name.to_owned()] } else { vec![] };
        let path =
            |of: &Option<PathBuf>| of.iter().map(|path| path.display().to_string()).collect();
        let range = lba.iter().map(|(first, last)| format!("{first}-{last}"));
        [
            option("--ctrl", ctrls.iter().map(|n| format!("nvme{n}")).collect()),
            option("--nsid", numbers(nsids)),
            option("--qid", numbers(qids)),
            option("--opcode", opcodes.iter().map(opcode).collect()),
            flag(*no_admin, "--no-admin"),
            flag(*no_io, "--no-io"),
            option("--pid", numbers(pids)),
            option("--comm", comm.iter().cloned().collect()),
            option("--cgroup", path(cgroup)),
            option("--container", path(container)),
            option("--lba", range.collect()),
            option("--submitter-pid", numbers(submitter_pids)),
            option("--submitter-comm", submitter_comm.iter().cloned().collect()),
            option("--submitter-cgroup", path(submitter_cgroup)),
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
        !self.pids.is_empty()
            || self.comm.is_some()
            || self.lba.is_some()
            || self.selects_cgroups()
            || self.selects_submitters()
    }

    /// Whether it selects by a cgroup.
    pub const fn selects_cgroups(&self) -> bool {
        self.cgroup.is_some() || self.container.is_some() || self.submitter_cgroup.is_some()
    }

    /// Whether it selects by the submitter of the bio.
    pub fn selects_submitters(&self) -> bool {
        !self.submitter_pids.is_empty()
            || self.submitter_comm.is_some()
            || self.submitter_cgroup.is_some()
    }

    /// Whether who caused a command matches.
    fn matches_origin(&self, origin: &Origin) -> bool {
        let any = |set: bool, found: bool| !set || found;
        let (within, by) = (&self.within, &origin.submitter);
        any(self.cgroup.is_some(), within.cgroup.contains(&origin.task_cgroup))
            && any(self.container.is_some(), within.container.contains(&origin.io_cgroup))
            && any(self.submitter_cgroup.is_some(), within.submitter.contains(&by.cgroup))
            && any(
                !self.submitter_pids.is_empty(),
                by.is_known() && self.submitter_pids.contains(&by.pid),
            )
            && self.submitter_comm.as_ref().is_none_or(|name| comm_of(&by.comm) == name.as_bytes())
    }

    /// Whether an event of a recording matches. Events that are not of a command match if their
    /// controller does.
    pub fn matches(&self, event: &Event) -> bool {
        let Self { ctrls: _, nsids, opcodes, qids, no_admin, no_io, pids, comm, lba, .. } = self;
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
        any(!pids.is_empty(), pids.contains(&submission.pid))
            && comm.as_ref().is_none_or(|name| comm_of(&submission.comm) == name.as_bytes())
            && lba.is_none_or(touches)
            && self.matches_origin(&submission.origin)
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
        assert!(matches(|f| f.comm = Some("fio".into())));
        assert!(!matches(|f| f.comm = Some("fi".into())));
        for (range, hit) in
            [((107, 200), true), ((0, 100), true), ((108, 200), false), ((0, 99), false)]
        {
            assert_eq!(matches(|f| f.lba = Some(range)), hit, "{range:?}");
        }
    }

    #[test]
    fn who_caused_it_selects() {
        let caused = |filter: &Filter| {
            let mut event = read();
            if let Some(submission) = event.what.submission_mut() {
                let origin = &mut submission.origin;
                (origin.task_cgroup, origin.io_cgroup) = (1, 2);
                origin.submitter.cgroup = 3;
                (origin.submitter.pid, origin.submitter.tid) = (70, 71);
                origin.submitter.comm[..2].copy_from_slice(b"db");
            }
            filter.matches(&event)
        };
        let with = |change: &dyn Fn(&mut Filter)| {
            let mut filter = Filter::default();
            change(&mut filter);
            caused(&filter)
        };
        for id in 0..4 {
            let (ids, path) = (BTreeSet::from([id]), Some(PathBuf::from("/x")));
            assert_eq!(
                with(&|f| (f.cgroup, f.within.cgroup) = (path.clone(), ids.clone())),
                id == 1
            );
            assert_eq!(
                with(&|f| (f.container, f.within.container) = (path.clone(), ids.clone())),
                id == 2
            );
            assert_eq!(
                with(&|f| (f.submitter_cgroup, f.within.submitter) = (path.clone(), ids.clone())),
                id == 3
            );
        }
        assert!(with(&|f| f.submitter_pids = [70].into()));
        assert!(!with(&|f| f.submitter_pids = [7].into()));
        assert!(with(&|f| f.submitter_comm = Some("db".into())));
        assert!(!with(&|f| f.submitter_comm = Some("fio".into())));
        assert!(!matches(|f| f.submitter_pids = [0].into()), "not known");
    }

    #[test]
    fn an_event_of_a_controller_matches_its_controller_only() {
        let state = Event {
            at_ns: 1,
            what: EventKind::State { ctrl: 1, state: CtrlState(2), requested: false },
        };
        let mut filter = Filter { qids: [9].into(), ..Filter::default() };
        assert!(filter.matches(&state));
        filter.ctrls = [2].into();
        assert!(!filter.matches(&state));
    }
}
