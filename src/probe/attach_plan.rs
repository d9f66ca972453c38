// SPDX-License-Identifier: MIT OR Apache-2.0
//! The attach plan: what is attached for each point and each other event, and why no better method.

use serde::Serialize;

use super::catalog::{CATALOG, Home, Method, Role};
use super::reasons::Reason;
use crate::model::counters::{Count, Counters};
use crate::model::machine::Pairing;
use crate::model::point::Point;
use crate::model::stage::StageSet;

/// A method that was rejected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Rejection {
    /// `fentry`, `rawtp`, `kprobe`, `tracepoint`.
    pub method: Method,
    /// The hook at which it fails, as in `fexit nvme_queue_rq`.
    pub hook: String,
    /// The reason, in a few words.
    pub why: Reason,
    /// The kernel refused it when it was tried.
    pub tried: bool,
}

/// The method of one point, and the methods that were rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PointPlan {
    /// What it observes.
    pub role: Role,
    /// The chosen method.
    pub method: Option<Method>,
    /// Its programs, by number.
    pub hooks: Vec<usize>,
    /// Better methods that are not available; all methods, if none was chosen.
    pub rejected: Vec<Rejection>,
}

impl PointPlan {
    /// `start`, ...; `requeue` and others for roles that are not points.
    pub const fn name(&self) -> &'static str {
        self.role.name()
    }

    /// The point of a command's life; `None` for other roles.
    pub const fn point(&self) -> Option<Point> {
        self.role.point()
    }
}

/// The source of a request's start time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StartSource {
    /// None: not available, or the stage set does not use it.
    None,
    /// `block_io_start`: a separate clock reading for every request.
    Hook,
    /// `block_getrq`: a clock reading for the bio that gets the request. Requests without a bio use
    /// `start_time_ns`.
    Bio,
    /// The request's `start_time_ns`: before 6.5 a separate clock reading, unless iostats are off.
    Field,
}

/// What is attached, and what is not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttachPlan {
    /// The stage set.
    pub stage_set: StageSet,
    /// How completions are matched with setups.
    pub pairing: Pairing,
    /// The points of the stage set, requeues, and the other events of a trace.
    pub points: Vec<PointPlan>,
    /// Points of the stage set at which nothing can wait on this kernel, and why.
    pub absent: Vec<(Point, Reason)>,
    /// The source of start times.
    pub start: StartSource,
    /// The kernel counts the missed runs of kprobe and tracepoint programs.
    pub misses_counted: bool,
    /// Commands whose setup or completion was not observed are recovered.
    pub recovers: bool,
    /// A program may interrupt itself on its CPU ([`super::facts::KernelFacts::programs_nest`]).
    pub nests: bool,
    /// CPUs share histograms: they would take too much memory.
    pub shares_cells: bool,
}

/// Why there is no plan: no method is left for an essential point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoPlan {
    /// The point.
    pub point: Point,
    /// The only method that the user permits.
    pub only: Option<Method>,
    /// The rejected methods.
    pub rejected: Vec<Rejection>,
}

impl NoPlan {
    /// The reasons in one line, without repetitions.
    pub fn reasons(&self) -> String {
        let mut parts: Vec<(&Reason, Vec<&str>)> = Vec::new();
        for r in &self.rejected {
            match parts.iter_mut().find(|(why, _)| **why == r.why) {
                Some((_, methods)) => methods.push(r.method.name()),
                None => parts.push((&r.why, vec![r.method.name()])),
            }
        }
        let parts: Vec<String> = parts
            .into_iter()
            .map(|(why, methods)| format!("{}: {why}", methods.join(", ")))
            .collect();
        parts.join("; ")
    }
}

impl AttachPlan {
    /// All programs, by number, without repetitions.
    pub fn hooks(&self) -> Vec<usize> {
        let mut all: Vec<usize> = self.points.iter().flat_map(|p| p.hooks.clone()).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// The plan of a role; `None` if it is not wanted.
    pub fn of(&self, role: Role) -> Option<&PointPlan> {
        self.points.iter().find(|p| p.role == role)
    }

    /// The plan of a point; `None` if the stage set does not use it.
    pub fn point(&self, point: Point) -> Option<&PointPlan> {
        self.of(Role::Point(point))
    }

    /// Whether this point will be observed.
    pub fn has(&self, point: Point) -> bool {
        (point == Point::Start && self.start == StartSource::Field)
            || self.point(point).is_some_and(|p| p.method.is_some())
    }

    /// Whether this role will be observed.
    pub fn has_role(&self, role: Role) -> bool {
        self.of(role).is_some_and(|p| p.method.is_some())
    }

    /// Whether bios are followed with their submitters: with the waits before the request, or alone.
    pub fn sees_submitters(&self) -> bool {
        self.has(Point::Bio) || self.has_role(Role::Submitter)
    }

    /// Whether the stage set has waits before the request, and none is observed.
    pub fn lacks_waits(&self) -> bool {
        self.stage_set == StageSet::Full && !self.has(Point::Bio)
    }

    /// The waits before the request whose length is known: they are observed, or nothing can wait there. A wait
    /// without a known end is in one part with those that follow.
    pub fn known_waits(&self) -> impl Iterator<Item = Point> {
        let lacking = self.points.iter().filter(|p| p.method.is_none());
        let lacking = lacking.filter_map(PointPlan::point);
        let lacking = lacking.filter(|p| *p > Point::Bio && *p < Point::Start).max();
        let is_absent = move |point| {
            let mut absent = self.absent.iter();
            let is_absent = point > Point::Bio && absent.any(|(p, _)| *p == point);
            is_absent && lacking.is_none_or(|lacking| lacking < point)
        };
        let before = Point::ALL.into_iter().filter(|p| *p < Point::Start);
        before.filter(move |&p| self.has(Point::Bio) && (self.has(p) || is_absent(p)))
    }

    /// The method that observes a point.
    pub fn method_of(&self, point: Point) -> Option<Method> {
        self.point(point).and_then(|p| p.method)
    }

    /// The first and the last point at which a command can be observed.
    pub fn span(&self) -> (Point, Point) {
        let had = |p: &Point| self.stage_set.has_point(*p) && self.has(*p);
        let first = Point::ALL.into_iter().find(had);
        let last = Point::ALL.into_iter().rfind(had);
        (first.unwrap_or(Point::SetupOut), last.unwrap_or(Point::Complete))
    }

    /// Whether the completions of an interrupt may be skipped together, so that only commands
    /// without an end show it.
    pub fn may_lose_completions(&self) -> bool {
        !self.recovers && self.method_of(Point::Complete).is_some_and(Method::loses)
    }

    /// Setups that the kernel skipped and that nothing has shown yet. Their commands are in flight, or
    /// their completions were skipped too. `misses` are the kernel's recursion misses by hook number.
    pub fn unrecovered(&self, counters: &Counters, misses: &[u64]) -> u64 {
        let point = self.point(Point::SetupOut).filter(|_| self.recovers);
        let hooks = point.into_iter().flat_map(|p| &p.hooks);
        let skipped: u64 = hooks.filter_map(|&hook| misses.get(hook)).sum();
        skipped.saturating_sub(counters.get(Count::UnseenSetup))
    }

    /// Modules whose functions carry kprobes. Unlike the other methods, a kprobe does not prevent
    /// its module from being unloaded, and disappears with it without notice.
    pub fn unpinned_modules(&self) -> Vec<&'static str> {
        let on = |home: Home| {
            let hooks = self.hooks();
            hooks.iter().any(|&h| {
                CATALOG[h].target.home() == home && CATALOG[h].kind.method() == Method::Kprobe
            })
        };
        Home::ALL.into_iter().filter(|&home| on(home)).filter_map(Home::module).collect()
    }

    /// Whether programs that finish commands may nest on one CPU. Then every addition must be
    /// atomic.
    pub fn needs_atomics(&self) -> bool {
        let raw = |p: &PointPlan| p.method.is_some_and(|f| f != Method::Fentry);
        self.nests || self.points.iter().any(raw)
    }
}
