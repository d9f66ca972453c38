// SPDX-License-Identifier: MIT OR Apache-2.0
//! The builds of the BPF programs that trace the driver: one table. build.rs compiles them, and
//! session/builds.rs chooses one for a run.
//!
//! A build has settings whose value is fixed: the compiler leaves out what the programs do with other
//! values. The verifier removes code that is unreachable with the constants of a run, but not the
//! loads of these constants, nor what the compiler generates because of that code.

/// A setting (a field of `struct nd_config`), and its value: a number or an enumerator.
pub type Fixed = (&'static str, &'static str);

/// What a run must have for a build, besides the values that are fixed there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Commands are identified by their request.
    Requests,
    /// Commands are identified by controller, queue and tag.
    Tags,
    /// The kernel describes itself by BTF: the build uses functions and variables of the kernel.
    KernelBtf,
    /// Set-ups are observed by a tracepoint.
    SetupEvent,
    /// Single commands.
    Trace,
    /// The programs for conditions are not in the build.
    NoContext,
}

impl Need {
    /// What a run lacks if this is not met.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Requests => "commands are known by their tags alone (classic tracepoints)",
            Self::Tags => "commands are known by their requests",
            Self::KernelBtf => "the kernel has no BTF (CONFIG_DEBUG_INFO_BTF)",
            Self::SetupEvent => "set-ups are observed by a kprobe",
            Self::Trace => "it is not about single commands",
            Self::NoContext => "conditions are asked for",
        }
    }
}

/// A build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name, that of the object.
    pub name: &'static str,
    /// The source: bpf/SOURCE.bpf.c.
    pub source: &'static str,
    /// Macros that are defined, besides those of the fixed settings.
    pub macros: &'static [&'static str],
    /// The settings that are fixed.
    pub fixed: &'static [&'static [Fixed]],
    /// What a run must have.
    pub needs: &'static [Need],
}

/// The usual cases: the kernel has BTF of itself and of the driver, no completions are lost, no program
/// interrupts itself, no filter.
const USUAL: &[Fixed] = &[
    ("nests", "0"),
    ("lossy", "0"),
    ("by_name", "0"),
    ("check_fit", "0"),
    ("rq_second", "0"),
    ("cmd_arg", "0"),
    ("stack_at_entry", "0"),
    ("test_ignore_every", "0"),
    ("targ_any", "0"),
    ("targ_by_lba", "0"),
    ("targ_by_cgroup", "0"),
];

/// No single commands.
const HISTOGRAMS: &[Fixed] = &[("trace", "0"), ("stack", "0"), ("verdict", "0"), ("context", "0")];

const NO_DETAILS: &[Fixed] = &[("details", "0")];

/// Rows per controller, namespace and opcode, and nothing before the request is observed. The builds
/// for groups have `ND_BY`, those for the waits before the request `ND_WAITS`, those for cgroups of
/// single commands and for submitters `ND_WHO`.
const ROWS: &[Fixed] = &[("waits", "0"), ("by", "0"), ("who", "0")];
const GROUPS: &[Fixed] = &[("waits", "0")];
const WAITS: &[Fixed] = &[("waits", "1"), ("by", "0")];
const WHO: &[Fixed] = &[("waits", "0"), ("by", "0")];
const CALLERS: &[Fixed] = &[("who", "0")];
/// One event per command (ND_TRACE_PAIRS, which clang refuses as a condition), without a stack, but
/// with conditions.
const EVENTS: &[Fixed] = &[("trace", "2"), ("stack", "0"), ("context", "1")];

const TOTAL: &[Fixed] = &[
    ("mode", "ND_MODE_TOTAL"),
    ("end", "0"),
    ("start_hook", "0"),
    ("start_field", "0"),
    ("doorbell", "0"),
];
const BASIC: &[Fixed] = &[("mode", "ND_MODE_BASIC"), ("end", "0")];
const FINE: &[Fixed] = &[("mode", "ND_MODE_FINE")];

/// What recent kernels have: command ids with a generation.
const RECENT: &[Fixed] = &[("recover", "1")];
/// The kernel skips no programs (before 7.0, not preemptible), or those at tracepoints and at returns.
const NO_SKIPS: &[Fixed] = &[("setup_skips", "0"), ("exit_skips", "0")];
const SKIPS: &[Fixed] = &[("setup_skips", "1"), ("exit_skips", "1")];
const TOTAL_SKIPS: &[Fixed] = &[("setup_skips", "1"), ("exit_skips", "0")];
/// The best hooks for the start and the doorbell.
const HOOKS: &[Fixed] = &[("start_hook", "1"), ("start_field", "0"), ("doorbell", "1")];
/// No failed commands, no details.
const PLAIN: &[Fixed] = &[("details", "0"), ("count_status", "0")];

/// Latencies of a stage set.
const fn latencies(name: &'static str, fixed: &'static [&'static [Fixed]]) -> Entry {
    Entry {
        name,
        source: "nvme_deep",
        macros: &["ND_LOOP", "ND_NO_CONTEXT"],
        fixed,
        needs: &[Need::Requests, Need::KernelBtf, Need::SetupEvent, Need::NoContext],
    }
}

/// All builds. A run uses the first that it may.
pub const BUILDS: [Entry; 18] = [
    // what `latency` uses on recent kernels; the others cost some 20 instructions per command more
    latencies("nvme_deep_total_6", &[USUAL, ROWS, HISTOGRAMS, PLAIN, RECENT, TOTAL, NO_SKIPS]),
    latencies("nvme_deep_total_7", &[USUAL, ROWS, HISTOGRAMS, PLAIN, RECENT, TOTAL, TOTAL_SKIPS]),
    latencies(
        "nvme_deep_basic_6",
        &[USUAL, ROWS, HISTOGRAMS, PLAIN, RECENT, BASIC, HOOKS, NO_SKIPS],
    ),
    latencies("nvme_deep_basic_7", &[USUAL, ROWS, HISTOGRAMS, PLAIN, RECENT, BASIC, HOOKS, SKIPS]),
    // also what `top` and `serve` use
    latencies("nvme_deep_total", &[USUAL, ROWS, HISTOGRAMS, TOTAL]),
    latencies("nvme_deep_basic", &[USUAL, ROWS, HISTOGRAMS, BASIC]),
    latencies("nvme_deep_fine", &[USUAL, ROWS, HISTOGRAMS, FINE]),
    Entry {
        name: "nvme_deep_trace",
        source: "nvme_deep",
        macros: &["ND_LOOP"],
        fixed: &[USUAL, ROWS, NO_DETAILS],
        needs: &[Need::Requests, Need::KernelBtf, Need::SetupEvent, Need::Trace],
    },
    Entry {
        name: "nvme_deep",
        source: "nvme_deep",
        macros: &[],
        fixed: &[ROWS],
        needs: &[Need::Requests, Need::KernelBtf],
    },
    // with what comes before the request
    Entry {
        name: "nvme_deep_full",
        source: "nvme_deep",
        macros: &["ND_LOOP", "ND_NO_CONTEXT", "ND_WAITS"],
        fixed: &[USUAL, WAITS, CALLERS, HISTOGRAMS, PLAIN, FINE],
        needs: &[Need::Requests, Need::KernelBtf, Need::SetupEvent, Need::NoContext],
    },
    // what `record` and `diagnose` use
    Entry {
        name: "nvme_deep_record",
        source: "nvme_deep",
        macros: &["ND_LOOP", "ND_WAITS", "ND_WHO"],
        fixed: &[USUAL, WAITS, PLAIN, FINE, EVENTS],
        needs: &[Need::Requests, Need::KernelBtf, Need::SetupEvent, Need::Trace],
    },
    Entry {
        name: "nvme_deep_full_any",
        source: "nvme_deep",
        macros: &["ND_WAITS", "ND_WHO"],
        fixed: &[WAITS, FINE],
        needs: &[Need::Requests, Need::KernelBtf],
    },
    // with who caused each command
    Entry {
        name: "nvme_deep_who",
        source: "nvme_deep",
        macros: &["ND_WHO"],
        fixed: &[WHO],
        needs: &[Need::Requests, Need::KernelBtf],
    },
    // for kernels that only a file describes: without functions and variables of the kernel
    Entry {
        name: "nvme_deep_plain",
        source: "nvme_deep",
        macros: &["ND_NO_KFUNC"],
        fixed: &[ROWS],
        needs: &[Need::Requests],
    },
    // groups
    Entry {
        name: "nvme_deep_by",
        source: "nvme_deep",
        macros: &["ND_LOOP", "ND_NO_CONTEXT", "ND_BY"],
        fixed: &[USUAL, GROUPS, CALLERS, HISTOGRAMS, PLAIN],
        needs: &[Need::Requests, Need::KernelBtf, Need::SetupEvent, Need::NoContext],
    },
    Entry {
        name: "nvme_deep_by_any",
        source: "nvme_deep",
        macros: &["ND_NO_CONTEXT", "ND_BY", "ND_WHO"],
        fixed: &[GROUPS, HISTOGRAMS, PLAIN],
        needs: &[Need::Requests, Need::KernelBtf, Need::NoContext],
    },
    Entry {
        name: "nvme_deep_by_plain",
        source: "nvme_deep",
        macros: &["ND_NO_CONTEXT", "ND_NO_KFUNC", "ND_BY"],
        fixed: &[GROUPS, CALLERS, HISTOGRAMS, PLAIN],
        needs: &[Need::Requests, Need::NoContext],
    },
    // classic tracepoints
    Entry {
        name: "tracepoint",
        source: "tracepoint",
        macros: &[],
        fixed: &[ROWS],
        needs: &[Need::Tags],
    },
];
