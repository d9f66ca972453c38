/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Single commands: what a slot keeps of them, and their events. As in abi.h. */
#ifndef ND_TRACE_ABI_H
#define ND_TRACE_ABI_H

#include "iter_abi.h"

/* What a trace does with each command. */
enum nd_trace {
	ND_TRACE_OFF = 0,
	ND_TRACE_EVENTS = 1,   /* one event at the set-up, one at the completion */
	ND_TRACE_PAIRS = 2,    /* one event at the completion */
	ND_TRACE_STACKS = 3,   /* counted by stack */
	ND_TRACE_COMMANDS = 4, /* as pairs, without other events; the histograms count them, too */
	ND_TRACE_FLIGHT = 5,   /* no event: user space reads the slots; the histograms count */
};

/* Where stacks are taken. */
enum nd_stack_at {
	ND_STACK_NONE = 0,
	ND_STACK_SUBMIT = 1,
	ND_STACK_COMPLETE = 2,
};

enum nd_stack_limit {
	ND_STACK_UNSEEN = 1, /* key of the sum of commands whose stack was not observed */
	ND_STACK_DEPTH = 64,
};

/* What a command requests, and its submitter. */
struct nd_submission {
	__u64 stack;
	__u32 cdw[6]; /* CDW10 to CDW15 */
	__u8 comm[16];
	__u32 tgid;
	__u32 tid;
	__u32 nsid;
	__u32 bytes;
	__u8 flags;    /* CDW0 bits 15:8 */
	__u8 metadata; /* the request has integrity metadata */
	__u16 cpu;
	__u32 known; /* ND_KNOWN_* */
};

enum nd_known {
	ND_KNOWN_BYTES = 1 << 0,
	ND_KNOWN_SUBMITTER = 1 << 1, /* tgid, tid, comm, cpu */
	ND_KNOWN_ORIGIN = 1 << 2,    /* the record ends with a struct nd_origin */
};

/* The task that submitted a bio. */
struct nd_sender {
	__u64 cgroup; /* id */
	__u64 comm[2];
	__u32 tgid;
	__u32 tid; /* 0: not known */
};

/* Who caused a command. Zero: not known. Cgroups are ids. */
struct nd_origin {
	__u64 task_cgroup; /* of the task that calls the driver */
	__u64 io_cgroup;   /* that caused the I/O */
	struct nd_sender by;
};

/* The outcome that the driver reports. */
struct nd_outcome {
	__u64 stack;
	__u64 result;
	__u16 status;
	__u8 retries;
	__u8 flags; /* NVME_REQ_* */
	__u16 cpu;
	__u8 known;  /* the outcome could be read */
	__u8 beside; /* ND_BESIDE_* */
};

/* Kinds of trace events (src/abi/events.rs). */
enum nd_kind {
	ND_KIND_SUBMIT = 2,
	ND_KIND_COMPLETE,
	ND_KIND_PAIR,
	ND_KIND_SQ,	 /* value: head | tail << 16; 1 << 32: command unknown */
	ND_KIND_TIMEOUT, /* value: set-up time */
	ND_KIND_CANCEL,	 /* value: set-up time */
	ND_KIND_REQUEUE,
	ND_KIND_RETRY, /* value: number of retries; ~0: unknown */
	ND_KIND_ASYNC, /* value: result */
	ND_KIND_STATE, /* value: new state; 1 << 32: requested, outcome unknown */
};

/* Header of every event. */
struct nd_event {
	__u8 kind;
	__u8 admin;
	__u8 opcode;
	__u8 _pad;
	__u16 qid;
	__u16 cid;
	__u64 ns;
	__u16 ctrl;
	__u16 pattern; /* ND_SAW_*, ND_NO_*; complete and pair only */
	__u32 nsid;
};

struct nd_submit {
	struct nd_event event;
	struct nd_submission submission;
};

struct nd_times {
	__u64 start_ns;
	__u64 setup_in_ns;
	__u64 issue_ns;
	__u64 doorbell_ns;
	__u64 irq_ns;
	__u64 cqe_ns;
	__u64 end_ns;
};

/* With --stages=full, behind nd_times: points before the request. Its waits are the last before it:
 * the times are the request's start less the waits that follow. */
struct nd_early_times {
	__u64 bio_ns;
	__u64 submit_ns;
	__u64 freeze_ns;
	__u64 iocost_ns;
	__u64 wbt_ns;
	__u64 tag_ns;
	__u64 zone_ns;
	/* Number of bios, and from ND_BIOS_SHIFT bits down the time from the submission of the
	 * oldest to the set-up. 0: not known. */
	__u64 bios;
};

/* The common part of the two kinds of events about a finished command. */
struct nd_end {
	struct nd_event event;
	struct nd_outcome outcome;
	__u64 setup_out_ns;
};

/* `times` is present only with stages, `early` only with full stages. */
struct nd_complete {
	struct nd_end end;
	struct nd_times times;
	struct nd_early_times early;
};

struct nd_pair {
	struct nd_end end;
	struct nd_submission submission;
	struct nd_times times;
	struct nd_early_times early;
};

struct nd_other {
	struct nd_event event;
	__u64 value;
};

_Static_assert(sizeof(struct nd_submission) == 72, "no padding");
_Static_assert(sizeof(struct nd_outcome) == 24, "no padding");
_Static_assert(sizeof(struct nd_origin) == 48, "no padding");
_Static_assert(sizeof(struct nd_event) == 24, "no padding");

#endif
