// SPDX-License-Identifier: MIT OR Apache-2.0
//! The judges, one file per guest script, and what they share.

use std::panic::{AssertUnwindSafe, catch_unwind};

use self::guest::{Outcome, Suite};

/// Checks a part of what a guest has left, or panics.
type Judge = fn(&Outcome);

/// Boots the guest of a suite, unless this process did so before, and asks all judges.
fn ask(suite: &Suite, kernel: &str, judges: &[(&str, Judge)]) {
    let outcome = suite.run(kernel);
    let fails = |judge: &Judge| catch_unwind(AssertUnwindSafe(|| judge(&outcome))).is_err();
    let failed = judges.iter().filter(|(_, judge)| fails(judge));
    let failed: Vec<&str> = failed.map(|(name, _)| *name).collect();
    assert!(failed.is_empty(), "{failed:?}");
}

macro_rules! judges {
    ([$($judge:ident)*]) => { &[$((stringify!($judge), $judge as $crate::judge::Judge)),*] };
}

/// A module for each suite: its name, the suite, the judges, and the tests, each with its kernel. Those after the
/// bar have `only_in_test_all` in their path.
macro_rules! on_kernels {
    ($($name:ident $suite:ident $judges:tt {
        $($test:ident $kernel:literal)* $(| only_in_test_all $($rare:ident $other:literal)*)?
    })*) => {$(
        mod $name {
            use super::*;
            $(
                #[test]
                #[ignore = "boots a guest"]
                fn $test() {
                    $crate::judge::ask(&$suite, $kernel, $crate::judge::judges!($judges));
                }
            )*
            $(mod only_in_test_all {
                use super::*;
                $(
                    #[test]
                    #[ignore = "boots a guest"]
                    fn $rare() {
                        $crate::judge::ask(&$suite, $other, $crate::judge::judges!($judges));
                    }
                )*
            })?
        }
    )*};
}
pub(crate) use {judges, on_kernels};

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
