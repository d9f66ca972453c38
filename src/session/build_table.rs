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
    /// Setups are observed by a tracepoint.
    SetupEvent,
}

/// A build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name, and the object's.
    pub name: &'static str,
    /// The source: bpf/SOURCE.bpf.c.
    pub source: &'static str,
    /// A macro that is defined besides the fixed settings.
    pub defines: Option<&'static str>,
    /// The settings that are fixed.
    pub fixed: &'static [&'static [Fixed]],
    /// What a run must have.
    pub needs: &'static [Need],
}

/// The usual cases: the kernel has BTF of itself and of the driver, no completions are lost, no program
/// interrupts itself, no filter.
const USUAL: &[Fixed] = &[
    ("recover", "1"),
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
const HISTOGRAMS: &[Fixed] = &[("trace", "0"), ("stack", "0"), ("context", "0")];

/// Rows per controller, namespace and opcode; nothing before the request, and nobody's name is observed.
const ROWS: &[Fixed] = &[("waits", "0"), ("by", "0"), ("who", "0")];

/// From the setup to the completion, nothing else.
const TOTAL: &[Fixed] = &[
    ("mode", "ND_MODE_TOTAL"),
    ("end", "0"),
    ("start_hook", "0"),
    ("start_field", "0"),
    ("doorbell", "0"),
];

/// The stages of `--stages`. The fine ones end where blk-mq ends a command.
const BASIC: &[Fixed] = &[("mode", "ND_MODE_BASIC"), ("end", "0")];

const USUAL_NEEDS: &[Need] = &[Need::Requests, Need::KernelBtf, Need::SetupEvent];

/// All builds. A run uses the first that it may.
pub const BUILDS: [Entry; 6] = [
    Entry {
        name: "nvme_deep_total",
        source: "nvme_deep",
        defines: Some("ND_FENCE"),
        fixed: &[USUAL, ROWS, HISTOGRAMS, TOTAL],
        needs: USUAL_NEEDS,
    },
    Entry {
        name: "nvme_deep_basic",
        source: "nvme_deep",
        defines: Some("ND_FENCE"),
        fixed: &[USUAL, ROWS, HISTOGRAMS, BASIC],
        needs: USUAL_NEEDS,
    },
    // single commands, groups, fine stages, and what comes before the request
    Entry {
        name: "nvme_deep_usual",
        source: "nvme_deep",
        defines: Some("ND_FENCE"),
        fixed: &[USUAL],
        needs: USUAL_NEEDS,
    },
    Entry {
        name: "nvme_deep",
        source: "nvme_deep",
        defines: None,
        fixed: &[],
        needs: &[Need::Requests, Need::KernelBtf],
    },
    // for kernels that only a file describes: without functions and variables of the kernel
    Entry {
        name: "nvme_deep_plain",
        source: "nvme_deep",
        defines: Some("ND_NO_KFUNC"),
        fixed: &[&[("waits", "0"), ("who", "0")]],
        needs: &[Need::Requests],
    },
    // classic tracepoints
    Entry {
        name: "tracepoint",
        source: "tracepoint",
        defines: None,
        fixed: &[ROWS],
        needs: &[Need::Tags],
    },
];
