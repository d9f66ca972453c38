// SPDX-License-Identifier: MIT OR Apache-2.0
//! The judges, one file per guest script, and what they share.

/// Tests that judge the outcome of a suite on a kernel: name, kernel, suite, judge.
macro_rules! on_kernels {
    ($($test:ident $kernel:literal $suite:ident $judge:ident)*) => {$(
        #[test]
        #[ignore = "boots a guest"]
        fn $test() {
            $judge(&$suite.run($kernel));
        }
    )*};
}
pub(crate) use on_kernels;

mod arm64;
mod by;
mod chosen;
mod connect;
mod containers;
mod context;
mod counts;
mod diff;
mod gone;
mod guest;
mod healthy;
mod host;
mod hostile;
mod image;
mod inflight;
mod json;
mod kvm;
mod large;
mod ledger;
mod lockdown;
mod machines;
mod methods;
mod nested;
mod orders;
mod patterns;
mod plants;
mod preempt;
mod recorder;
mod recordings;
mod rings;
#[path = "../../pattern/rule.rs"]
mod rule;
#[path = "../../top/screens.rs"]
mod screens;
mod serve;
mod table;
mod times;
mod top;
mod trace_faults;
mod trace_kernel;
mod trace_known;
mod trace_load;
mod trace_read;
mod trace_stacks;
mod trace_words;
mod types;
mod unit;
mod uprobes;
mod waits;
mod who;
mod words;
