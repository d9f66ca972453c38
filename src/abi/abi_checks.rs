// SPDX-License-Identifier: MIT OR Apache-2.0
//! Modules that build without the BPF side have numbers of their own. Those that the BPF side has,
//! too, must be the same: otherwise this file does not compile.

use std::mem::offset_of;

use super::maps::skel::types::{
    nd_complete, nd_count, nd_early_times, nd_end, nd_event, nd_hist_rule, nd_hook, nd_kind,
    nd_known, nd_origin, nd_other, nd_outcome, nd_pair, nd_saw, nd_sender, nd_stages,
    nd_submission, nd_submit, nd_times, nd_wait_point,
};
use super::maps::{
    CELL_HEAD, nd_cell, nd_ctrl, nd_failure, nd_hist, nd_key, nd_limit, nd_stack_sum, nd_usdt_limit,
};
use crate::abi::events::wait_bits;
use crate::abi::record::{
    EARLY_TIMES, RawEnd, RawEvent, RawOrigin, RawOther, RawOutcome, RawPair, RawSender,
    RawSubmission, RawSubmit, TIMES, kind, known,
};
use crate::model::counters::{COUNTS, Count, TYPES};
use crate::model::filter::{MAX_CTRLS, MAX_LIST};
use crate::model::ids::{CTRL, NSID_MASK, PATTERN_BITS};
use crate::model::point::{IN_RECORDS, NO_COMPLETE, NO_SETUP, Point};
use crate::model::stage::StageSet;
use crate::model::{histogram, origin as bios};
use crate::probe::catalog::CATALOG;
use crate::target::spdk::ARGS;

/// Each number of Rust and the enumerator that it must equal.
macro_rules! same {
    ($($rust:expr => $enum:ident::$name:ident;)*) => {
        $(const _: () = assert!($rust as u32 == $enum::$name.0, stringify!($name));)*
    };
}

same! {
    NO_SETUP => nd_saw::ND_NO_SETUP;
    NO_COMPLETE => nd_saw::ND_NO_COMPLETE;
    (1 << IN_RECORDS.len()) - 1 => nd_saw::ND_SAW_ALL;
    Point::Bio.pattern_bit().unwrap() => nd_saw::ND_SAW_BIO;
    wait_bits(Point::Bio.pattern_bit().unwrap()) => nd_wait_point::ND_WAIT_BIO;
    wait_bits(Point::Submit.pattern_bit().unwrap()) => nd_wait_point::ND_WAIT_SUBMIT;
    wait_bits(Point::Freeze.pattern_bit().unwrap()) => nd_wait_point::ND_WAIT_FREEZE;
    wait_bits(Point::Iocost.pattern_bit().unwrap()) => nd_wait_point::ND_WAIT_IOCOST;
    wait_bits(Point::Wbt.pattern_bit().unwrap()) => nd_wait_point::ND_WAIT_WBT;
    wait_bits(Point::Tag.pattern_bit().unwrap()) => nd_wait_point::ND_WAIT_TAG;
    wait_bits(Point::Zone.pattern_bit().unwrap()) => nd_wait_point::ND_WAIT_ZONE;
    wait_bits(!0) => nd_wait_point::ND_WAIT_ALL;
    PATTERN_BITS => nd_key::ND_KEY_PATTERN_BITS;
    CTRL => nd_key::ND_KEY_CTRL_SHIFT;
    NSID_MASK => nd_key::ND_KEY_NSID_MASK;
    StageSet::Total.measured() => nd_stages::ND_STAGES_TOTAL;
    StageSet::Basic.measured() => nd_stages::ND_STAGES_BASIC;
    StageSet::Fine.measured() => nd_stages::ND_STAGES_FINE;
    StageSet::Full.measured() => nd_stages::ND_STAGES_FULL;
    CATALOG.len() => nd_hook::ND_HOOK_MAX;
    COUNTS.len() => nd_count::ND_COUNT_MAX;
    Count::LateDoorbell => nd_count::ND_LATE_DOORBELL;
    Count::EarlyIrq => nd_count::ND_EARLY_IRQ;
    Count::Negative => nd_count::ND_NEGATIVE;
    Count::FewerPoints => nd_count::ND_FEWER_POINTS;
    Count::UnpairedWait => nd_count::ND_UNPAIRED_WAIT;
    TYPES => nd_failure::ND_FAIL_RETRIED;
    histogram::SUB_BITS => nd_hist_rule::ND_HIST_SUB_BITS;
    histogram::MAX_EXP => nd_hist_rule::ND_HIST_MAX_EXP;
    histogram::BUCKETS => nd_hist_rule::ND_HIST_BUCKETS;
    bios::SHIFT => nd_limit::ND_BIOS_SHIFT;
    ARGS => nd_usdt_limit::ND_USDT_ARGS;
    MAX_CTRLS => nd_limit::ND_MAX_CTRLS;
    MAX_LIST => nd_limit::ND_MAX_LIST;
    kind::SUBMIT => nd_kind::ND_KIND_SUBMIT;
    kind::COMPLETE => nd_kind::ND_KIND_COMPLETE;
    kind::PAIR => nd_kind::ND_KIND_PAIR;
    kind::SQ => nd_kind::ND_KIND_SQ;
    kind::TIMEOUT => nd_kind::ND_KIND_TIMEOUT;
    kind::CANCEL => nd_kind::ND_KIND_CANCEL;
    kind::REQUEUE => nd_kind::ND_KIND_REQUEUE;
    kind::RETRY => nd_kind::ND_KIND_RETRY;
    kind::ASYNC => nd_kind::ND_KIND_ASYNC;
    kind::STATE => nd_kind::ND_KIND_STATE;
    known::BYTES => nd_known::ND_KNOWN_BYTES;
    known::SUBMITTER => nd_known::ND_KNOWN_SUBMITTER;
    known::ORIGIN => nd_known::ND_KNOWN_ORIGIN;
}

/// A record and the struct of C that it must equal: the size, and where each field is.
macro_rules! same_layout {
    ($($rust:ident == $c:ident { $($field:ident)* })*) => {$(
        const _: () = assert!(size_of::<$rust>() == size_of::<$c>(), stringify!($c));
        $(const _: () = assert!(
            offset_of!($rust, $field) == offset_of!($c, $field),
            stringify!($c.$field)
        );)*
    )*};
}

same_layout! {
    RawEvent == nd_event { kind admin opcode qid cid ns ctrl pattern nsid }
    RawSubmission == nd_submission {
        stack cdw comm tgid tid nsid bytes flags metadata cpu known
    }
    RawSender == nd_sender { cgroup comm tgid tid }
    RawOrigin == nd_origin { task_cgroup io_cgroup by }
    RawOutcome == nd_outcome { stack result status retries flags cpu known beside }
    RawEnd == nd_end { event outcome setup_out_ns }
    RawSubmit == nd_submit { event submission }
    RawOther == nd_other { event value }
}

// the times follow
const _: () = assert!(offset_of!(nd_pair, submission) == offset_of!(RawPair, submission));
const _: () = assert!(offset_of!(nd_pair, times) == size_of::<RawPair>());
const _: () = assert!(offset_of!(nd_pair, early) == size_of::<RawPair>() + 8 * TIMES);
const _: () = assert!(offset_of!(nd_complete, times) == size_of::<RawEnd>());
const _: () = assert!(offset_of!(nd_complete, early) == size_of::<RawEnd>() + 8 * TIMES);
const _: () = assert!(size_of::<nd_times>() == 8 * TIMES);
const _: () = assert!(size_of::<nd_early_times>() == 8 * EARLY_TIMES);
const _: () = assert!(offset_of!(nd_early_times, bios) == 8 * (EARLY_TIMES - 1));

// tests/parity compares which point each bit and each time is of
const _: () = assert!(IN_RECORDS.len() == TIMES);
const _: () =
    assert!(size_of::<nd_cell>() == CELL_HEAD + StageSet::Full.measured() * size_of::<nd_hist>());
const _: () = assert!(size_of::<nd_stack_sum>() == size_of::<nd_hist>() + 8);
const _: () = assert!(size_of::<nd_ctrl>() == 16);
