// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a plan says: what is attached for each thing that is wanted, and why not better.

use serde::Serialize;

use super::catalog::CATALOG;
use super::catalog::Home;
use super::catalog::Method;
use super::catalog::Role;
use crate::model::milestone::Milestone;
use crate::model::stage::StageSet;

/// A way that was not taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Rejection {
    /// `fentry`, `rawtp`, `kprobe`, `tracepoint`.
    pub method: Method,
    /// The hook that it fails at, as `fexit nvme_queue_rq`.
    pub hook: String,
    /// Why, in a few words.
    pub why: String,
    /// The kernel refused it when it was tried.
    pub tried: bool,
}

/// The method of one point, and the methods that were rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PointPlan {
    /// What it shows.
    pub role: Role,
    /// The way that was taken.
    pub method: Option<Method>,
    /// Its programs, by number.
    pub hooks: Vec<usize>,
    /// Better methods that are not available; all of them, if none was chosen.
    pub rejected: Vec<Rejection>,
}

impl PointPlan {
    /// `start`, ...; `requeue` and others for what is no point.
    pub const fn name(&self) -> &'static str {
        self.role.name()
    }

    /// The point of a command's life.
    pub const fn point(&self) -> Option<Milestone> {
        self.role.point()
    }
}

/// How the start of a request is learned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StartSource {
    /// Not at all, or the stage set has no use for it.
    None,
    /// `block_io_start`: an own clock reading, for every request.
    Hook,
    /// The request's `start_time_ns`: before 6.5 it is a clock reading of its own, unless iostats
    /// are off.
    Field,
}

/// How a completion finds its setup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Pairing {
    /// By the request: exact.
    Request,
    /// By controller, queue and tag, which is all that classic tracepoints print.
    Tag,
}

/// What will be attached and what not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttachPlan {
    /// The stage set that it is for.
    pub stage_set: StageSet,
    /// How commands are followed.
    pub pairing: Pairing,
    /// Every point that the stage set wants, and requeues.
    pub points: Vec<PointPlan>,
    /// Where the start comes from.
    pub start: StartSource,
    /// The kernel counts what kprobe and tracepoint programs miss.
    pub misses_counted: bool,
    /// Commands whose set-up or completion was not observed are found all the same.
    pub recovers: bool,
}

/// Why there is no plan: every way to a point that can't be done without, and why not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoPlan {
    /// The point.
    pub point: Milestone,
    /// The method that the user insists on.
    pub only: Option<Method>,
    /// The ways.
    pub rejected: Vec<Rejection>,
}

impl NoPlan {
    /// The reasons in one line, each once.
    pub fn reasons(&self) -> String {
        let mut parts: Vec<(String, Vec<&str>)> = Vec::new();
        for r in &self.rejected {
            match parts.iter_mut().find(|(why, _)| *why == r.why) {
                Some((_, methods)) => methods.push(r.method.name()),
                None => parts.push((r.why.clone(), vec![r.method.name()])),
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
    /// All programs, by number, each once.
    pub fn hooks(&self) -> Vec<usize> {
        let mut all: Vec<usize> = self.points.iter().flat_map(|p| p.hooks.clone()).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// The plan of anything; `None` where it is not wanted.
    pub fn of(&self, role: Role) -> Option<&PointPlan> {
        self.points.iter().find(|p| p.role == role)
    }

    /// The plan of a point; `None` where the stage_set does not want it.
    pub fn point(&self, point: Milestone) -> Option<&PointPlan> {
        self.of(Role::Point(point))
    }

    /// Whether this point will be observed.
    pub fn has(&self, point: Milestone) -> bool {
        (point == Milestone::Start && self.start == StartSource::Field)
            || self.point(point).is_some_and(|p| p.method.is_some())
    }

    /// Whether this will be observed.
    pub fn has_role(&self, role: Role) -> bool {
        self.of(role).is_some_and(|p| p.method.is_some())
    }

    /// The method of methods that a point uses.
    pub fn method_of(&self, point: Milestone) -> Option<Method> {
        self.point(point).and_then(|p| p.method)
    }

    /// The first and the last point that a command can be seen at.
    pub fn span(&self) -> (Milestone, Milestone) {
        let had = |p: &Milestone| self.stage_set.has_point(*p) && self.has(*p);
        let first = Milestone::ALL.into_iter().find(had);
        let last = Milestone::ALL.into_iter().rfind(had);
        (
            first.unwrap_or(Milestone::SetupOut),
            last.unwrap_or(Milestone::Complete),
        )
    }

    /// Whether an interrupt's completions may be skipped together and nothing shows it but commands
    /// without an end.
    pub fn may_lose_completions(&self) -> bool {
        !self.recovers
            && self
                .method_of(Milestone::Complete)
                .is_some_and(Method::loses)
    }

    /// Modules whose functions carry kprobes. Unlike all other ways a kprobe does not keep its
    /// module from being unloaded, and dies with it in silence.
    pub fn unpinned_modules(&self) -> Vec<&'static str> {
        let on = |home: Home| {
            let hooks = self.hooks();
            hooks.iter().any(|&h| {
                CATALOG[h].target.home() == home && CATALOG[h].kind.method() == Method::Kprobe
            })
        };
        [Home::NvmeCore, Home::NvmePci]
            .into_iter()
            .filter(|&home| on(home))
            .filter_map(Home::module)
            .collect()
    }

    /// Whether programs that finish commands may nest on one CPU: then every addition must be
    /// atomic.
    pub fn needs_atomics(&self) -> bool {
        let raw = |p: &PointPlan| p.method.is_some_and(|f| f != Method::Fentry);
        self.points.iter().any(raw)
    }
}
