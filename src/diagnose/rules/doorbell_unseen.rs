// SPDX-License-Identifier: MIT OR Apache-2.0
//! The device did not notice a doorbell: the command waited until the next submission on its queue.

use std::collections::BTreeSet;

use super::stray::{Queues, Stray};
use crate::diagnose::report::{Affected, Answer, Cause, Facts, Gaps, Subject};
use crate::machine::inflight::StuckState;
use crate::units::{counted, nanos};

/// One command that waited this long suffices.
const CERTAIN_NS: u64 = 1_000_000_000;

/// What the next submission on its queue did for a stray.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// Nothing, or others were completed meanwhile.
    Nothing,
    /// It freed it. This is the time of its set-up.
    Freed(u64),
    /// It came when the CPU ran again that had submitted the stray: the machine may have stood still.
    Resumed,
}

/// The next submission freed a command if nothing on the queue was completed before, and then this command
/// was, as fast as any.
fn next_of(stray: &Stray<'_>, gaps: &Gaps) -> Next {
    let command = stray.command;
    let next = stray.later().first().map(|next| next.setup_ns);
    let Some(next_ns) = next.filter(|next_ns| *next_ns <= command.cqe_ns) else {
        return Next::Nothing;
    };
    let rest = command.cqe_ns - next_ns;
    let silent = stray.queue.iter().all(|c| c.cqe_ns <= command.setup_ns || c.cqe_ns >= next_ns);
    if !silent || rest >= stray.time_ns() / 10 || rest >= stray.median_ns * 3 + 5_000_000 {
        return Next::Nothing;
    }
    let cpu = command.submit_cpu.map(u32::from);
    let away = cpu.map_or(0, |cpu| gaps.within(cpu, (command.setup_ns, next_ns)));
    match away > (next_ns - command.setup_ns) / 2 {
        true => Next::Resumed,
        false => Next::Freed(next_ns),
    }
}

/// Strays that the next submission freed.
#[derive(Default)]
struct Freed {
    count: u64,
    /// The submissions that freed them: queue id and time.
    by: BTreeSet<(u16, u64)>,
    longest_ns: u64,
    /// Whether one waited so long that it suffices, and timers show that its CPU ran.
    is_certain: bool,
    affected: Vec<Affected>,
    /// Others waited while their CPU did not run.
    resumed: u64,
}

impl Freed {
    fn of(facts: &Facts, ctrl: u32) -> Self {
        let queues = Queues::of(facts, ctrl);
        let mut freed = Self::default();
        for stray in queues.strays(facts) {
            match next_of(&stray, &facts.gaps) {
                Next::Nothing => {}
                Next::Resumed => freed.resumed += 1,
                Next::Freed(next_ns) => {
                    freed.count += 1;
                    freed.affected.push(Affected::of_command(facts, stray.command));
                    freed.by.insert((stray.command.qid, next_ns));
                    freed.longest_ns = freed.longest_ns.max(stray.time_ns());
                    let waited = (stray.command.setup_ns, next_ns);
                    let cpu = stray.command.submit_cpu.map(u32::from);
                    let ran = cpu.is_some_and(|cpu| facts.has_all_gaps(cpu, waited));
                    freed.is_certain |= ran && stray.time_ns() >= CERTAIN_NS;
                }
            }
        }
        freed
    }

    /// One may be a machine that stood still, where no timer shows it.
    fn is_certain(&self) -> bool {
        self.by.len() > 1 || self.is_certain
    }

    /// The answer where it is not certain.
    fn answer(&self, lacks: Option<String>) -> Answer {
        if let Some(why) = lacks.filter(|_| self.count > 0) {
            return Answer::Open(why);
        }
        if self.longest_ns >= CERTAIN_NS {
            return Answer::Open(
                "commands waited once for the next submission on their queue; no timer shows whether the \
                 machine stood still"
                    .into(),
            );
        }
        Answer::Absent(match self.resumed {
            0 => "no command waited for the next submission on its queue".into(),
            _ => format!(
                "{} waited for the next submission while the CPU that submits did not run",
                counted(self.resumed, "command")
            ),
        })
    }
}

pub fn check(facts: &Facts, subject: Subject) -> Answer {
    let Some(ctrl) = subject.ctrl() else {
        return Answer::Absent("no controller".into());
    };
    if let Some(transport) = facts.fabric(ctrl) {
        return Answer::Absent(format!("{transport} has no doorbells"));
    }
    let freed = Freed::of(facts, ctrl);
    let lacks = facts.lacks(subject);
    // another command of the queue may have been completed meanwhile
    let is_freed = lacks.is_none() && freed.is_certain();
    let stuck = facts.stuck(|verdict| verdict == Some(StuckState::NotFetched));
    let stuck = stuck.get(&ctrl).cloned();
    if stuck.is_none() && !is_freed {
        return freed.answer(lacks);
    }
    let name = format!("nvme{ctrl}");
    let cause = Cause::new(
        "doorbell-unseen",
        &name,
        format!("{name} did not notice doorbells: commands waited for the next submission"),
        "update the virtual machine monitor; until then switch shadow doorbells off there (QEMU \
         8.1 and later: `-device nvme,dbcs=off`)",
    )
    .with_risk("without shadow doorbells each doorbell is an exit");
    let stuck = stuck.unwrap_or_default();
    let mut affected = stuck.affected.clone();
    let mut cause = stuck.shown_in(cause);
    if is_freed {
        cause = cause
            .shown_by("commands that the next submission freed", freed.count)
            .shown_by("the longest waited", nanos(freed.longest_ns as f64));
        affected.extend(freed.affected);
    }
    cause = cause.about(facts, affected);
    let shadow = facts.controller(ctrl).and_then(|c| c.shadow_doorbells);
    Answer::cause(match shadow {
        Some(shadow) => cause.shown_by("shadow doorbells", if shadow { "yes" } else { "no" }),
        None => cause,
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::diagnose::report::{Collector, Expectation};
    use crate::model::activity::{Activity, CpuActivity, Gap};
    use crate::testing::{EventBuilder, STAGES};

    const MS: u64 = 1_000_000;
    const BEGIN: u64 = 1000 * MS;
    /// Long enough for one command to suffice.
    const PAUSE: u64 = 1600 * MS;

    /// A read each 10 ms on queue 1. After each of these numbers of them nothing happens for [`PAUSE`]; then the
    /// next one is submitted, and the one before is completed.
    fn facts(pauses: &[u64], activity: Option<(&[Gap], Option<u64>)>) -> Facts {
        facts_with(pauses, activity, 0)
    }

    /// The timer fires first at `from_ns`.
    fn facts_with(pauses: &[u64], activity: Option<(&[Gap], Option<u64>)>, from_ns: u64) -> Facts {
        let mut collector = Collector::default();
        let mut events = Vec::new();
        let mut at = BEGIN;
        for n in 0..100 {
            let mut stages = STAGES;
            let command = EventBuilder::staged(at, stages).cid(n as u16).qid(1).command();
            if pauses.contains(&n) {
                stages[4] += PAUSE;
                events.push(EventBuilder::staged(at, stages).cid(n as u16).qid(1).command());
                at += PAUSE;
            } else {
                events.push(command);
                at += 10 * MS;
            }
        }
        events.sort_by_key(|e| e.at_ns);
        events.iter().for_each(|e| collector.event(e));
        if let Some((gaps, timer)) = activity {
            let cpu = CpuActivity { gaps: timer, timed_from_ns: from_ns, ..CpuActivity::default() };
            let reading = |at_ns, gaps: &[Gap]| Activity {
                at_ns,
                cpus: vec![cpu],
                gaps: gaps.to_vec(),
                ..Activity::default()
            };
            collector.activity(reading(BEGIN, &[]));
            collector.activity(reading(at, gaps));
        }
        collector.finish(Duration::from_secs(4), None, Expectation::None)
    }

    fn answer(facts: &Facts) -> String {
        match check(facts, Subject::Controller(0)) {
            Answer::Cause(_) => "cause".to_owned(),
            Answer::Absent(why) | Answer::Open(why) => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn one_long_wait_suffices_where_timers_show_that_the_cpu_ran() {
        assert_eq!(answer(&facts(&[50], Some((&[], Some(0))))), "cause");
        for unseen in [None, Some((&[][..], None))] {
            let why = answer(&facts(&[50], unseen));
            assert!(why.contains("no timer shows"), "{why}");
        }
        assert_eq!(answer(&facts(&[50, 70], None)), "cause");
        // a timer that came too late to see the CPU run
        let paused = BEGIN + 50 * 10 * MS;
        for (from_ns, is_seen) in [(paused - MS, true), (paused + 100 * MS, false)] {
            let why = answer(&facts_with(&[50], Some((&[], Some(0))), from_ns));
            assert_eq!(why == "cause", is_seen, "{why}");
        }
    }

    #[test]
    fn a_machine_that_stood_still_did_not_miss_a_doorbell() {
        let gap = |begin_ns, ns| Gap { cpu: 0, begin_ns, end_ns: begin_ns + ns };
        let paused = BEGIN + 50 * 10 * MS;
        let whole = [gap(paused + MS, PAUSE - 2 * MS)];
        let why = answer(&facts(&[50], Some((&whole, Some(1)))));
        assert!(why.contains("1 command waited"), "{why}");
        // a short gap does not explain the wait
        let short = [gap(paused + MS, PAUSE / 4)];
        assert_eq!(answer(&facts(&[50], Some((&short, Some(1))))), "cause");
        // nor one of another CPU
        let other = [Gap { cpu: 1, ..whole[0] }];
        assert_eq!(answer(&facts(&[50], Some((&other, Some(1))))), "cause");
        // nor one of another time
        let before = [gap(BEGIN, PAUSE / 4)];
        assert_eq!(answer(&facts(&[50], Some((&before, Some(1))))), "cause");
    }
}
