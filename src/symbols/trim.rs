// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reduces a stack to the frames of the driver and its callers, independent of the attach method.
//!
//! A stack taken by a tracepoint begins in the BPF program and the tracepoint code, one taken by a
//! kprobe in the function itself. If a function deeper in the stack is traced by fentry or fexit, a
//! trampoline is between it and its caller. All these frames are removed. So is the code that an
//! interrupt interrupted: it has nothing to do with the command, differs each time, and would make
//! thousands of stacks out of one.

use crate::model::stack::{Frame, StackAt, Symbol};

/// The hooked function is among this many first frames, or was inlined.
const NEAR: usize = 16;
/// A call in the first bytes of a function is the one that tracing patches in (endbr64 and the call
/// are 9 bytes; on arm64, bti, mov and bl are 12). A compiler does not emit a call so early.
const ENTRY: u64 = 16;

/// Prefixes of the names of code that only tracing runs.
const TRACING: [&str; 22] = [
    "__bpf_trace_",
    "__ftrace_",
    "__kretprobe_",
    "__traceiter_",
    "aggr_pre_handler",
    "arch_ftrace_ops_list_func",
    "arch_rethook_trampoline",
    "bpf_dispatcher_",
    "bpf_get_stack",
    "bpf_prog_",
    "bpf_trace_run",
    "bpf_trampoline_",
    "fprobe_",
    "ftrace_",
    "kprobe_",
    "kretprobe_",
    "opt_pre_handler",
    "optimized_callback",
    "perf_trace_",
    "rethook_",
    "return_to_handler",
    "trace_call_bpf",
];
/// Of these, code that may be between a function and its caller: code that the kernel generates,
/// and the trampolines to which return probes redirect the return address.
const GENERATED: [&str; 7] = [
    "__kretprobe_trampoline",
    "arch_rethook_trampoline",
    "bpf_prog_",
    "bpf_trampoline_",
    "ftrace_trampoline",
    "kretprobe_trampoline",
    "return_to_handler",
];

/// Entry points of interrupts from devices and other CPUs, on x86 and arm64. Exceptions are not
/// included: a page fault is caused by the code in which it occurs.
const INTERRUPTS: [&str; 4] = ["asm_common_interrupt", "asm_sysvec_", "el0t_64_irq", "el1h_64_irq"];

impl StackAt {
    /// The names that the function has on different kernels.
    const fn functions(self) -> &'static [&'static str] {
        match self {
            Self::Submit => &["nvme_setup_cmd"],
            Self::Complete => {
                &["nvme_complete_batch_req", "nvme_complete_rq", "__nvme_complete_rq"]
            }
        }
    }

    fn is(self, frame: &Frame) -> bool {
        // the compiler may have made a clone
        let stem = |s: &Symbol| s.name.as_str().split('.').next().map(str::to_owned);
        let stem = frame.symbol.as_ref().and_then(stem);
        stem.is_some_and(|s| self.functions().contains(&s.as_str()))
    }
}

/// Whether the name of a frame has one of these prefixes. True for code without a name: if symbols
/// are visible, it is generated code.
fn named_one_of(frame: &Frame, names: &[&str]) -> bool {
    let Some(symbol) = &frame.symbol else {
        return true;
    };
    names.iter().any(|n| symbol.name.as_str().starts_with(n))
}

/// Whether `outer` is the entry of the function that `inner` is in.
///
/// A function that is traced by fexit may appear twice: its body, which the trampoline has called,
/// and the call of the trampoline in its first bytes. Real recursion calls from further down. So a
/// recursive function that is traced too (body, trampoline, entry, body, trampoline, entry) still
/// appears as often as it runs.
fn is_entry_of(outer: &Frame, inner: &Frame) -> bool {
    let (Some(o), Some(i)) = (&outer.symbol, &inner.symbol) else {
        return false;
    };
    let start = |frame: &Frame, symbol: &Symbol| frame.address.wrapping_sub(symbol.offset);
    let same = o.name == i.name && start(outer, o) == start(inner, i);
    same && o.offset <= ENTRY
}

/// Removes all frames that are not the driver's or its callers'. If there are no others (the kernel
/// hides the names), nothing is removed.
#[must_use]
pub fn trim(mut frames: Vec<Frame>, at: StackAt) -> Vec<Frame> {
    let Some(leading) = frames.iter().position(|f| !named_one_of(f, &TRACING)) else {
        return frames;
    };
    let hooked = frames.iter().take(NEAR).position(|f| at.is(f));
    frames.drain(..hooked.unwrap_or(leading));

    let mut kept: Vec<Frame> = Vec::with_capacity(frames.len());
    let mut after_generated = false;
    for frame in frames {
        if named_one_of(&frame, &GENERATED) {
            after_generated = true;
            continue;
        }
        let twice = after_generated && kept.last().is_some_and(|inner| is_entry_of(&frame, inner));
        after_generated = false;
        if !twice {
            kept.push(frame);
        }
    }
    let interrupt = |f: &Frame| f.symbol.is_some() && named_one_of(f, &INTERRUPTS);
    if let Some(entry) = kept.iter().position(interrupt) {
        kept.truncate(entry + 1);
    }
    // one of the functions may call another, which shows only with some hooks: begin at the last
    // one
    let calls = kept.iter().take_while(|f| at.is(f)).count();
    kept.drain(..calls.saturating_sub(1));
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::{Just, Strategy};
    use proptest::{prop_assert_eq, prop_oneof, proptest};

    /// Parses `name+0x10`; a dash is a frame without a name. Each name has one address.
    fn frame(text: &str) -> Frame {
        if text == "-" {
            return Frame { address: 0xc000_0000, symbol: None };
        }
        let (name, offset) = text.split_once("+0x").unwrap_or((text, "40"));
        let offset = u64::from_str_radix(offset, 16).unwrap();
        let place = name.bytes().fold(7, |sum: u64, b| sum * 31 % 65_521 + u64::from(b));
        Frame {
            address: 0x8000_0000 + (place << 12) + offset,
            symbol: Some(Symbol { name: name.into(), offset, module: None }),
        }
    }

    fn trimmed(text: &str, at: StackAt) -> String {
        let name = |f: &Frame| f.symbol.as_ref().map_or("-", |s| s.name.as_str()).to_owned();
        let frames = text.split(' ').map(frame).collect();
        trim(frames, at).iter().map(name).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn tracing_goes_and_all_that_was_called_stays() {
        use StackAt::{Complete, Submit};
        let kept = "nvme_setup_cmd nvme_queue_rq blk_mq_dispatch_rq_list";
        let completed = "nvme_complete_rq nvme_pci_complete_rq nvme_irq";
        let irq = "nvme_complete_rq nvme_irq __common_interrupt asm_common_interrupt";
        let nested = "nvme_complete_rq blk_mq_end_request nvme_complete_rq nvme_irq";
        let fault = "nvme_setup_cmd exc_page_fault asm_exc_page_fault copy_to_user vfs_read";
        let far = &format!("x{} nvme_setup_cmd", " x".repeat(NEAR));
        for (at, stack, want) in [
            // a function that was inlined leaves its caller on top
            (Submit, "- bpf_trace_run2 nvme_prep_rq nvme_queue_rqs", "nvme_prep_rq nvme_queue_rqs"),
            // functions of the other hook may be anywhere
            (Complete, "- nvme_irq nvme_setup_cmd", "nvme_irq nvme_setup_cmd"),
            (Submit, far, far),
            // newer kernels do not show the call of the trampoline
            (Submit, "nvme_setup_cmd nvme_queue_rq bpf_trampoline_1 blk_mq_dispatch_rq_list", kept),
            (Submit, "nvme_setup_cmd f - f+0x40 vfs_read", "nvme_setup_cmd f f vfs_read"),
            // completions begin with the same function wherever the hook is
            (Complete, completed, completed),
            (Complete, &format!("__nvme_complete_rq.part.0 {completed}"), completed),
            (Complete, &format!("- bpf_trace_run1 __nvme_complete_rq {completed}"), completed),
            // a completion that completes another command
            (Complete, nested, nested),
            // what was interrupted has no part in it
            (Complete, &format!("{irq} pv_native_safe_halt do_idle"), irq),
            (Complete, &format!("{irq} memcpy vfs_read"), irq),
            (Complete, &format!("{irq} -"), irq),
            (Submit, fault, fault),
            // without names nothing goes, nor if there are only tracing frames
            (Submit, "- - -", "- - -"),
            (Submit, "bpf_trace_run2", "bpf_trace_run2"),
        ] {
            assert_eq!(trimmed(stack, at), want, "{stack}");
        }
        assert!(trim(vec![], Submit).is_empty());
    }

    #[test]
    fn functions_of_one_name_are_two_if_they_lie_apart() {
        let mut frames: Vec<_> = ["nvme_setup_cmd", "f", "-", "f+0x5"].map(frame).into();
        frames[3].address += 0x10_0000;
        assert_eq!(trim(frames, StackAt::Submit).len(), 3);
    }

    fn caller() -> impl Strategy<Value = String> {
        (0_u32..4, 1_u64..8).prop_map(|(name, at)| format!("fn_{name}+0x{:x}", at * 0x20))
    }

    /// A frame as it appears if its function is traced; `how` selects the method.
    fn traced(frame: &str, how: u32) -> String {
        let name = frame.split('+').next().unwrap();
        match how {
            0 => frame.into(),
            1 => format!("{frame} -"),
            2 => format!("{frame} bpf_trampoline_6442 {name}+0x9"),
            _ => format!("{frame} - {name}+0x5"),
        }
    }

    proptest! {
        #[test]
        fn tracing_leaves_no_mark(
            callers in vec((caller(), 0_u32..4), 0..24),
            leading in prop_oneof![
                Just(""), Just("- bpf_trace_run2 "), Just("- - "), Just("x y z "),
                Just("trace_call_bpf perf_trace_nvme_setup_cmd "),
            ],
            own in 0_u32..4,
        ) {
            let mut clean = vec!["nvme_setup_cmd+0x40".to_owned()];
            clean.extend(callers.iter().map(|(c, _)| c.clone()));
            let mut seen = vec![traced(&clean[0], own)];
            seen.extend(callers.iter().map(|(c, how)| traced(c, *how)));
            let parse = |texts: &[String]| -> Vec<Frame> {
                texts.iter().flat_map(|t| t.split(' ')).map(frame).collect()
            };
            let mut raw = parse(&[leading.trim_end().to_owned()]);
            if leading.is_empty() {
                raw.clear();
            }
            raw.extend(parse(&seen));
            let got = trim(raw, StackAt::Submit);
            prop_assert_eq!(&got, &parse(&clean));
            prop_assert_eq!(&trim(got.clone(), StackAt::Submit), &got);
        }
    }
}
