/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Recovers commands for which the kernel skipped a program, because it was already running on the
 * CPU. Such a command counts in its own row, with the observed intervals (finish_partial()).
 * - A completion or CQE whose slot does not hold the command: the setup was skipped. The request
 * still has its SQE, tag, queue and length.
 * - An open slot, but the generation or the state of its request shows that the command is over:
 * the completion was skipped. The next command of the slot counts it, without a completion time. */
#pragma once

#include "command.bpf.h"
#include "stages.bpf.h"

/* Jiffy in which the run begins; 0: not yet. Set by ND_CONTROL_BEGIN when all is attached. */
u64 began = 0;

/* Commands issued after this jiffy are not recovered; 0: no limit. */
u64 ended = 0;

static __always_inline void count_without_slot(struct request *rq, enum nd_access access)
{
	struct request_queue *q = GET(access, rq, q);
	struct nd_queue *e = q ? queue_entry(q, access) : 0;

	count(e && e->q == (u64)q && is_left_out(e->base) ? ND_FILTERED_DONE : ND_UNTRACKED_DONE);
}

/* Whether the request was issued before the run began or after it ended. A reset of the request's
 * timer moves the deadline: such a command counts as issued later. */
static __always_inline int is_outside(struct request *rq, enum nd_access access)
{
	u64 issued = GET(access, rq, deadline) - GET(access, rq, timeout);

	return !began || (s64)(issued - began) <= 0 || (ended && (s64)(issued - ended) > 0);
}

/* Where the driver changes nvme_request.genctr: with the CQE (e4fdb2b167ed: 5.17, and some stable
 * kernels), before that at the setup. Completions show it. */
#define ND_GEN_AT_CQE	1
#define ND_GEN_AT_SETUP 2
u32 generation_changes = 0; /* 0: not known yet, counts as ND_GEN_AT_CQE */

/* Of its next command, or with ND_GEN_AT_SETUP of its last one. */
static __always_inline u32 generation_of(u64 rq)
{
	u64 at = pdu_of((void *)rq) + bpf_core_field_offset(struct nvme_request, genctr);

	return peek(at) & 0xf;
}

/* A command without a CQE has failed. Some Apple controllers have no generations: always 0. */
static __noinline int learn_generation(u64 rq)
{
	u64 at = pdu_of((void *)rq) + bpf_core_field_offset(struct nvme_request, status);
	u32 used = command_id_of((void *)rq) >> 12;

	if (generation_of(rq) != used)
		generation_changes = ND_GEN_AT_CQE;
	else if (used && !(u16)peek(at))
		generation_changes = ND_GEN_AT_SETUP;
	return 0;
}

/* Whether the request has completed, or is free. */
static __noinline int is_done(u64 rq)
{
	return (u32)FIELD_AT(rq, struct request, state) == MQ_RQ_COMPLETE ||
	       !(u32)FIELD_AT(rq, struct request, ref);
}

/* Whether the driver has completed the command of this slot. The generation shows it, except after
 * a completion without a CQE (a cancelled command), and repeats after 16 commands. A start after
 * the setup (or the CQE) shows it, too: a later command began. Without statistics and scheduler,
 * start_time_ns is 0, but the next setup uses this slot (flushes always have a start).
 * With ND_GEN_AT_SETUP, a changed generation only shows that the request was set up again.
 * `rq`: the slot's request, read once, because another CPU may give the slot away meanwhile. */
static __always_inline int has_completed_of(struct nd_slot *s, u64 rq)
{
	u64 start, since = s->setup_out_ns;
	int changed;

	if (!cfg_recover)
		return 0;
	start = FIELD_AT(rq, struct request, start_time_ns);
	if (!since)
		since = s->cqe_ns;
	if (since && start > since)
		return 1;
	changed = generation_of(rq) != s->cid >> 12;
	if (generation_changes != ND_GEN_AT_SETUP)
		return changed;
	return (changed && !start) || is_done(rq);
}

/* Whether the slot still belongs to this request: read again, not from a register. */
static __always_inline int is_still_of(struct nd_slot *s, struct request *rq)
{
	return *(volatile u64 *)&s->rq == (u64)rq;
}

static __always_inline int has_completed(struct nd_slot *s)
{
	return has_completed_of(s, s->rq);
}

/* The command has completed. Not static: the verifier verifies such a function once, before 6.8
 * even if nothing calls it, so it checks itself whether it applies. */
__noinline int finish_without_end(u32 index)
{
	struct nd_slot *s = slot_at(index);

	if (!cfg_end || !s)
		return 0;
	end_slot(s);
	finish_partial(s, this_cpu(), s->complete_ns, 0);
	return 0;
}

/* An open command is over: its completion was not observed. Not static, either. */
__noinline int close_unseen(u32 index)
{
	struct nd_slot *s = slot_at(index);

	if (!cfg_recover || !s)
		return 0;
	count(ND_UNSEEN_COMPLETE);
	if (s->state == ND_SKIPPED) {
		count(ND_FILTERED_DONE);
		end_slot(s);
	} else {
		end_slot(s);
		finish_partial(s, this_cpu(), 0, 0);
	}
	return 0;
}

static __always_inline void close_over(struct nd_slot *s, u32 index)
{
	if (cfg_end && s->state == ND_COMPLETED)
		finish_without_end(index);
	else if (s->state == ND_OPEN || s->state == ND_SKIPPED)
		close_unseen(index);
}

/* Not inlined: a group would be on the stack below what closes a slot (512 bytes in all). */
static __noinline int fill_recovered(struct nd_slot *s, struct request *rq, struct nd_where *w)
{
	struct nvme_command entry;
	u64 from;
	int found;

	if (HAVE_RDONLY_CAST) {
		/* The kernel's own BTF has no type to cast it to. */
		from = entry_of(rq);
		for (u32 i = 0; i < sizeof(entry) / sizeof(u64); i++)
			entry.words[i] = peek(from + i * sizeof(u64));
		found = fill_slot(s, rq, &entry, w, 0, ACCESS_BTF);
	} else {
		found = fill_slot(s, rq, (struct nvme_command *)entry_of(rq), w, 0,
				  ACCESS_PROBE_READ);
	}
	/* Where it is always the same, clang would return nothing, and leave an address of the
	 * stack in R0, which the verifier rejects. */
	asm volatile("" : "+r"(found));
	return found;
}

/* Gives a command whose setup was skipped its slot, at its CQE or, with `at_end`, at its
 * completion. NULL: outside the run, not followed, or rejected by a filter. */
static __always_inline struct nd_slot *recover_by(struct request *rq, int at_end,
						  enum nd_access access)
{
	struct nd_where here = {}, *w;
	struct nd_slot *s = 0;
	struct nd_start *st;
	u32 tag, index;
	s32 internal;
	int found;

	if (is_outside(rq, access)) {
		if (at_end)
			count(ND_ORPHAN_DONE);
		return 0;
	}
	w = where_by_queue(rq, &here, &here, access);
	tag = GET(access, rq, tag);
	if (w) {
		index = tag_slot(w->place.first, w->place.tags, tag);
		s = slot_at(index);
	}
	if (!s) {
		if (at_end)
			count_without_slot(rq, access);
		return 0;
	}
	close_over(s, index); /* it had the same tag */
	internal = GET(access, rq, internal_tag);
	if (cfg_start_hook || internal >= 0) {
		/* The start was not taken. It must not serve the next use of the request. */
		st = start_entry(internal, tag, w->place.first, w->place.tags, w->place.spread);
		if (st && st->rq == (u64)rq)
			st->rq = 0;
	}
	count(ND_UNSEEN_SETUP);
	found = fill_recovered(s, rq, w);
	s->tid = 0;
	s->start_ns = 0;
	s->setup_out_ns = 0;
	if (found == WANTED) {
		s->state = ND_OPEN;
		return s;
	}
	count(found == UNATTRIBUTED ? ND_UNATTRIBUTED : ND_FILTERED);
	s->state = ND_SKIPPED;
	if (at_end) {
		count(ND_FILTERED_DONE);
		end_slot(s);
	}
	return 0;
}

static __noinline struct nd_slot *recover_setup(struct request *rq, int at_end)
{
	if (HAVE_RDONLY_CAST)
		return recover_by(drop_trust(rq), at_end, ACCESS_BTF);
	return recover_by(rq, at_end, ACCESS_PROBE_READ);
}

/* Whether the request has another command: its setup and the former completion were skipped. */
static __always_inline int is_outdated(struct nd_slot *s, struct request *rq)
{
	return cfg_setup_skips && s->cid != command_id_of(rq);
}

/* The same at the CQE, with one read instead of two. The driver has found the request by the
 * generation, and changes it after its tracepoint. */
static __always_inline int is_outdated_at_cqe(struct nd_slot *s, struct request *rq)
{
	u64 at = pdu_of(rq) + bpf_core_field_offset(struct nvme_request, genctr);

	return cfg_setup_skips && (peek(at) & 0xf) != s->cid >> 12;
}

static __always_inline int on_control(u64 what, u32 index)
{
	struct nd_slot *s = slot_at(index);

	if (what == ND_CONTROL_BEGIN) {
		began = bpf_jiffies64();
	} else if (what == ND_CONTROL_END) {
		ended = index == ND_END_RESUME ? 0 : index == ND_END_NOW ? bpf_jiffies64() : began;
	} else if (what == ND_CONTROL_FORGET) {
		forget_places();
	} else if (what == ND_CONTROL_COMPLETED) {
		return s && s->state == ND_OPEN && has_completed(s);
	} else if (what == ND_CONTROL_CLOSE && s) {
		close_over(s, index);
	}
	return 0;
}
