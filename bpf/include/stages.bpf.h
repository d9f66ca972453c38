/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The end of a command: its valid points, and the histograms of the intervals between them. */
#ifndef ND_STAGES_H
#define ND_STAGES_H

#include "emit.bpf.h"
#include "rows.bpf.h"

/*
 * The stages before the request (--stages=full), at the end of a command. They are divided thus:
 *
 *   submission      block_bio_queue                                     request
 *       |-- throttle --|-- block --|- freeze -|- zone -|- iocost -|- wbt -|- tag -|
 *
 * The waits are measured one by one, and `block` is the rest. So the parts add up to the whole. In
 * time lines `block` comes first, although some of it lies between the waits.
 */
static __always_inline void wait_add(struct nd_hist *h, u64 ns, int atomic)
{
	if (ns)
		hist_add(h, ns, atomic);
}

/* Adds the stages before the request, which began at `first`. Returns where the command begins. */
static __always_inline u64 stages_before(struct nd_cell *c, struct nd_slot *s, u64 first, u32 saw,
					 int atomic)
{
	struct nd_waits *w = waits_in(s);
	u64 rest;

	if (!cfg_waits || !(saw & ND_SAW_BIO))
		return first;
	rest = first - w->bio_ns - to_enter(w) - w->iocost_ns - w->wbt_ns - w->tag_ns;
	hist_add(&c->hist[BEFORE_BIO], rest, atomic);
	wait_add(&c->hist[BEFORE_SUBMIT], w->bio_ns - w->submit_ns, atomic);
	wait_add(&c->hist[entering(w)], to_enter(w), atomic);
	wait_add(&c->hist[BEFORE_IOCOST], w->iocost_ns, atomic);
	wait_add(&c->hist[BEFORE_WBT], w->wbt_ns, atomic);
	wait_add(&c->hist[BEFORE_TAG], w->tag_ns, atomic);
	return w->submit_ns;
}

static __always_inline void partial_wait(u32 row, u32 stage, u64 ns)
{
	if (ns)
		add_interval(row, stage, ns);
}

/* The same for a command that was observed in part: an attempt that is retried has no end. */
static __always_inline u64 partial_before(u32 row, struct nd_slot *s, u64 first)
{
	struct nd_waits *w = waits_in(s);
	u64 rest;

	if (!cfg_waits || !(*(volatile u16 *)&s->saw & ND_SAW_BIO))
		return first;
	rest = first - w->bio_ns - to_enter(w) - w->iocost_ns - w->wbt_ns - w->tag_ns;
	add_interval(row, BEFORE_BIO, rest);
	partial_wait(row, BEFORE_SUBMIT, w->bio_ns - w->submit_ns);
	partial_wait(row, entering(w), to_enter(w));
	partial_wait(row, BEFORE_IOCOST, w->iocost_ns);
	partial_wait(row, BEFORE_WBT, w->wbt_ns);
	partial_wait(row, BEFORE_TAG, w->tag_ns);
	return w->submit_ns;
}

static __always_inline void finish_total(struct nd_cell *c, u32 at, u64 total, u32 bytes,
					 int atomic)
{
	hist_add(&c->hist[at], total, atomic);
	add(&c->bytes, bytes, atomic);
}

/*
 * Drops the points that were not observed or that are not between their neighbours, and leaves the
 * others in s->saw. The rules:
 *  - a doorbell after the CQE is the submitting function's late return, not the doorbell;
 *  - an interrupt before the doorbell was already running for other commands;
 *  - any other point out of order counts as negative.
 *
 * The pattern is in the map, not in a register: the verifier would follow each of its 128 values
 * through the rest of the program (half a million instructions instead of some thousands).
 */
static __always_inline void validate_points(struct nd_slot *s, u64 complete, u32 mode)
{
	volatile u16 *saw = &s->saw;
	u64 prev = s->setup_out_ns, begin = prev;

	*saw = 0;
	if (mode == ND_MODE_FINE) {
		if (s->setup_in_ns && s->setup_in_ns <= prev) {
			*saw |= ND_SAW_SETUP_IN;
			begin = s->setup_in_ns;
		} else if (s->setup_in_ns) {
			count(ND_NEGATIVE);
		}
		if (s->issue_ns && s->issue_ns >= prev && s->issue_ns <= complete) {
			*saw |= ND_SAW_ISSUE;
			prev = s->issue_ns;
		} else if (s->issue_ns) {
			count(ND_NEGATIVE);
		}
	}
	if (s->start_ns && s->start_ns <= begin)
		*saw |= ND_SAW_START;
	else if (s->start_ns)
		count(ND_NEGATIVE);
	if (s->cqe_ns && s->cqe_ns >= prev && s->cqe_ns <= complete) {
		*saw |= ND_SAW_CQE;
		complete = s->cqe_ns;
	} else if (s->cqe_ns) {
		count(ND_NEGATIVE);
	}
	if (s->doorbell_ns) {
		if (s->doorbell_ns < prev) {
			count(cfg_exit_skips ? ND_UNSURE_DOORBELL : ND_NEGATIVE);
		} else if (s->doorbell_ns > complete) {
			count(ND_LATE_DOORBELL);
		} else {
			*saw |= ND_SAW_DOORBELL;
			prev = s->doorbell_ns;
		}
	}
	if (mode == ND_MODE_FINE && s->irq_ns) {
		if (s->irq_ns < prev)
			count(ND_EARLY_IRQ);
		else if (*saw & ND_SAW_CQE && s->irq_ns <= complete)
			*saw |= ND_SAW_IRQ;
		else
			count(ND_NEGATIVE);
	}
}

/* Fast path of validate_points(): whether all points were observed, in order, as for nearly all
 * commands. */
static __always_inline int in_order(struct nd_slot *s, u64 complete, u32 mode)
{
	u64 before = s->setup_out_ns, after = before;

	if (mode == ND_MODE_FINE) {
		if (s->setup_in_ns > before || s->issue_ns < after)
			return 0;
		before = s->setup_in_ns;
		after = s->issue_ns;
	}
	if (!s->start_ns || s->start_ns > before || s->doorbell_ns < after)
		return 0;
	after = s->doorbell_ns;
	if (mode == ND_MODE_FINE) {
		if (s->irq_ns < after)
			return 0;
		after = s->irq_ns;
	}
	return s->cqe_ns >= after && s->cqe_ns <= complete;
}

/* The stages of each stage set, by number (src/model/stage.rs). */
enum nd_basic { BASIC_QUEUE, BASIC_SUBMIT, BASIC_DEVICE, BASIC_COMPLETE };
enum nd_fine {
	FINE_QUEUE,
	FINE_SETUP,
	FINE_MAP,
	FINE_SUBMIT,
	FINE_DEVICE,
	FINE_IRQ,
	FINE_COMPLETE,
	FINE_END
};

/* floor(log2(n)) of a byte; 0 for 0. */
static const u8 log2_of_byte[256] = {
	[2 ... 3] = 1,	 [4 ... 7] = 2,	   [8 ... 15] = 3,    [16 ... 31] = 4,
	[32 ... 63] = 5, [64 ... 127] = 6, [128 ... 255] = 7,
};

/*
 * Closes the stage that ends at `to` with `point`. It began at the last observed point before, not
 * earlier than setup_out. The stage number comes from the map, not from a register, for the same
 * reason as in validate_points().
 */
static __always_inline void stage(struct nd_cell *c, struct nd_slot *s, u32 point, u64 *from,
				  u64 to, u32 mode, int atomic)
{
	u32 before = *(volatile u16 *)&s->saw & (point - 1) & ~(ND_SAW_START | ND_SAW_SETUP_IN), i;

	if (mode == ND_MODE_FINE) { /* issue, doorbell, irq, cqe: bits 2 to 5 */
		i = log2_of_byte[(before << 1 | 1 << FINE_MAP) & 0xff];
		BELOW(i, ND_STAGES_FINE);
	} else { /* doorbell and cqe: bits 3 and 5 */
		i = BASIC_SUBMIT + (log2_of_byte[before & 0xff] >> 1);
		BELOW(i, ND_STAGES_BASIC);
	}
	hist_add(&c->hist[i], to - *from, atomic);
	*from = to;
	FORGET(*from);
}

static __always_inline void stages_basic(struct nd_cell *c, struct nd_slot *s, u64 complete,
					 u32 saw, int atomic)
{
	u64 from = s->setup_out_ns, first = from;
	volatile u16 *seen = &s->saw;

	/* The usual case, without the arithmetic of merged stages. */
	if (saw == ND_SAW_BASIC) {
		first = s->start_ns;
		hist_add_inner(&c->hist[BASIC_QUEUE], from - first, atomic);
		hist_add_inner(&c->hist[BASIC_SUBMIT], s->doorbell_ns - from, atomic);
		hist_add_inner(&c->hist[BASIC_DEVICE], s->cqe_ns - s->doorbell_ns, atomic);
		hist_add_inner(&c->hist[BASIC_COMPLETE], complete - s->cqe_ns, atomic);
		finish_total(c, ND_STAGES_BASIC - 1, complete - first, s->bytes, atomic);
		return;
	}
	if (*seen & ND_SAW_START) {
		first = s->start_ns;
		hist_add_inner(&c->hist[BASIC_QUEUE], from - first, atomic);
	}
	if (*seen & ND_SAW_DOORBELL)
		stage(c, s, ND_SAW_DOORBELL, &from, s->doorbell_ns, ND_MODE_BASIC, atomic);
	if (*seen & ND_SAW_CQE)
		stage(c, s, ND_SAW_CQE, &from, s->cqe_ns, ND_MODE_BASIC, atomic);
	FORGET(first);
	stage(c, s, ND_SAW_END, &from, complete, ND_MODE_BASIC, atomic);
	finish_total(c, ND_STAGES_BASIC - 1, complete - first, s->bytes, atomic);
}

static __always_inline void stages_fine(struct nd_cell *c, struct nd_slot *s, u64 complete, u64 end,
					u32 saw, int atomic)
{
	u64 from = s->setup_out_ns, first = from;
	volatile u16 *seen = &s->saw;

	/* The usual case, as above. */
	if ((cfg_waits ? saw & ~ND_SAW_BIO : saw) == ND_SAW_ALL) {
		first = s->start_ns;
		hist_add_inner(&c->hist[FINE_QUEUE], s->setup_in_ns - first, atomic);
		hist_add_inner(&c->hist[FINE_SETUP], from - s->setup_in_ns, atomic);
		hist_add_inner(&c->hist[FINE_MAP], s->issue_ns - from, atomic);
		hist_add_inner(&c->hist[FINE_SUBMIT], s->doorbell_ns - s->issue_ns, atomic);
		hist_add_inner(&c->hist[FINE_DEVICE], s->irq_ns - s->doorbell_ns, atomic);
		hist_add_inner(&c->hist[FINE_IRQ], s->cqe_ns - s->irq_ns, atomic);
		hist_add_inner(&c->hist[FINE_COMPLETE], complete - s->cqe_ns, atomic);
		hist_add_inner(&c->hist[FINE_END], end - complete, atomic);
		first = stages_before(c, s, first, saw, atomic);
		finish_total(c, ND_STAGES_FINE - 1, end - first, s->bytes, atomic);
		return;
	}
	if (*seen & ND_SAW_SETUP_IN) {
		first = s->setup_in_ns;
		hist_add_inner(&c->hist[FINE_SETUP], from - first, atomic);
	}
	if (*seen & ND_SAW_START) {
		hist_add_inner(&c->hist[FINE_QUEUE], first - s->start_ns, atomic);
		first = s->start_ns;
	}
	FORGET(first);
	if (*seen & ND_SAW_ISSUE)
		stage(c, s, ND_SAW_ISSUE, &from, s->issue_ns, ND_MODE_FINE, atomic);
	if (*seen & ND_SAW_DOORBELL)
		stage(c, s, ND_SAW_DOORBELL, &from, s->doorbell_ns, ND_MODE_FINE, atomic);
	if (*seen & ND_SAW_IRQ)
		stage(c, s, ND_SAW_IRQ, &from, s->irq_ns, ND_MODE_FINE, atomic);
	if (*seen & ND_SAW_CQE)
		stage(c, s, ND_SAW_CQE, &from, s->cqe_ns, ND_MODE_FINE, atomic);
	stage(c, s, ND_SAW_END, &from, complete, ND_MODE_FINE, atomic);
	if (saw & ND_SAW_END) {
		hist_add_inner(&c->hist[FINE_END], end - complete, atomic);
		complete = end;
	}
	first = stages_before(c, s, first, saw, atomic);
	finish_total(c, ND_STAGES_FINE - 1, complete - first, s->bytes, atomic);
}

/* Adds the interval from the last observed point to this one, for partial_stages(). */
static __always_inline void partial_point(u32 row, u64 ns, u32 stage, u32 *before, u64 *from,
					  u64 *any)
{
	if (!ns)
		return;
	if (*from) {
		add_interval(row, *before, ns - *from);
		*any = 1;
		FORGET(*any);
	}
	*before = stage;
	*from = ns;
	FORGET(*before);
	FORGET(*from);
}

#define POINT(bit, ns) (*(volatile u16 *)&s->saw & (bit) ? (ns) : 0)

/* The stages of a command for which a program was skipped: each interval between two observed
 * points. Returns 0 if there is none. */
static __always_inline int partial_stages(struct nd_slot *s, u64 complete, u64 end)
{
	u32 row = s->key & (ND_MAX_ROWS - 1);
	int fine = cfg_mode == ND_MODE_FINE;
	u64 from = 0, any = 0, first;
	u32 before = 0;

	first = POINT(ND_SAW_START, s->start_ns);
	if (!first && fine)
		first = POINT(ND_SAW_SETUP_IN, s->setup_in_ns);
	if (!first)
		first = s->setup_out_ns;
	if (!first && fine)
		first = POINT(ND_SAW_IRQ, s->irq_ns);
	if (!first)
		first = POINT(ND_SAW_CQE, s->cqe_ns);
	if (!first)
		first = complete;
	FORGET(first);
	partial_point(row, POINT(ND_SAW_START, s->start_ns), 0, &before, &from, &any);
	if (fine)
		partial_point(row, POINT(ND_SAW_SETUP_IN, s->setup_in_ns), FINE_SETUP, &before,
			      &from, &any);
	partial_point(row, s->setup_out_ns, fine ? FINE_MAP : BASIC_SUBMIT, &before, &from, &any);
	if (fine)
		partial_point(row, POINT(ND_SAW_ISSUE, s->issue_ns), FINE_SUBMIT, &before, &from,
			      &any);
	partial_point(row, POINT(ND_SAW_DOORBELL, s->doorbell_ns),
		      fine ? FINE_DEVICE : BASIC_DEVICE, &before, &from, &any);
	if (fine)
		partial_point(row, POINT(ND_SAW_IRQ, s->irq_ns), FINE_IRQ, &before, &from, &any);
	partial_point(row, POINT(ND_SAW_CQE, s->cqe_ns), fine ? FINE_COMPLETE : BASIC_COMPLETE,
		      &before, &from, &any);
	partial_point(row, complete, fine ? FINE_END : BASIC_COMPLETE, &before, &from, &any);
	if (fine)
		partial_point(row, POINT(ND_SAW_END, end), FINE_END, &before, &from, &any);
	if (!any)
		return 0;
	if (fine)
		first = partial_before(row, s, first);
	add_interval(row, fine ? ND_STAGES_FINE - 1 : ND_STAGES_BASIC - 1, from - first);
	return 1;
}

/*
 * Finishes a command whose setup (setup_out_ns is 0), completion (`complete` is 0) or end (`end`
 * is 0) was not observed. It counts in its own row, with the observed intervals. Several programs
 * add to the cells of this row (the pattern is part of the key), so they use atomics.
 */
static __noinline void finish_partial(struct nd_slot *s, struct nd_cpu *cpu, u64 complete, u64 end)
{
	volatile u16 *saw = &s->saw;
	struct nd_cell *c;
	u32 pattern;

	if (complete && complete < s->setup_out_ns) {
		count(ND_NEGATIVE);
		complete = s->setup_out_ns;
	}
	FORGET(complete);
	*saw = 0;
	if (cfg_mode != ND_MODE_TOTAL)
		validate_points(s, complete ? complete : ~0ull, cfg_mode);
	/* Neither a CQE nor a completion follows the doorbell: it may be the late return of the
	 * submitting function, after both. */
	if (!complete && (*saw & (ND_SAW_DOORBELL | ND_SAW_CQE)) == ND_SAW_DOORBELL) {
		*saw &= ~ND_SAW_DOORBELL;
		count(ND_UNSURE_DOORBELL);
	}
	if (!s->setup_out_ns)
		*saw |= ND_NO_SETUP;
	if (!complete)
		*saw |= ND_NO_COMPLETE;
	if (end && end >= complete)
		*saw |= ND_SAW_END;
	seen_before(s, *saw);
	if (cfg_trace) {
		if (!complete)
			s->outcome = (struct nd_outcome){};
		if (!finish_trace(s, cpu, *saw, complete, end))
			return;
	}
	pattern = *saw;
	c = cpu ? cell_of(s, &pattern, cpu) : 0;
	if (!c) {
		count_rowless(kept_key(s), s->bytes);
		return;
	}
	if (cfg_mode == ND_MODE_TOTAL || !partial_stages(s, complete, end))
		__sync_fetch_and_add(&c->unmeasured, 1);
	__sync_fetch_and_add(&c->bytes, s->bytes);
}

/* Counts a failure of the slot's command: ND_FAIL_* or its status type. */
static __noinline void count_failure(struct nd_slot *s, u32 kind)
{
	u32 ctrl = (s->key >> (ND_ROW_BITS + ND_KEY_CTRL_SHIFT)) & (ND_MAX_CTRLS - 1);
	struct nd_failures *f = bpf_map_lookup_elem(&failures, &ctrl);

	if (f)
		__sync_fetch_and_add(&f->count[kind & (ND_FAIL_MAX - 1)], 1);
}

/* Nearly every command has status 0 and is the first attempt. */
static __always_inline void count_status(struct nd_slot *s, u32 status, u32 retries)
{
	if (status & 0x7ff)
		count_failure(s, (status >> 8) & 7);
	if (retries)
		count_failure(s, ND_FAIL_RETRIED);
}

/* Frees the slot, so that a second event of its command does not count twice. */
static __always_inline void end_slot(struct nd_slot *s)
{
	s->state = ND_FREE;
	if (cfg_trace && !cfg_end)
		s->complete_ns = s->rq;
	s->rq = 0;
}

static __always_inline void add_stages(struct nd_cell *c, struct nd_slot *s, u64 complete, u64 end,
				       u32 saw, int atomic)
{
	if (cfg_mode == ND_MODE_FINE)
		stages_fine(c, s, complete, end, saw, atomic);
	else if (cfg_mode == ND_MODE_BASIC)
		stages_basic(c, s, complete, saw, atomic);
	else
		finish_total(c, 0, complete - s->setup_out_ns, s->bytes, atomic);
}

/* The same for cells that several CPUs add to, or programs that interrupt each other. */
static __noinline int add_stages_atomically(struct nd_cell *c, struct nd_slot *s, u64 complete,
					    u64 end, u32 saw)
{
	add_stages(c, s, complete, end, saw, 1);
	return 0;
}

/* Finishes a command. `end` is 0 if blk-mq's end was not observed. */
static __always_inline void finish(struct nd_slot *s, struct nd_cpu *cpu, u64 complete, u64 end)
{
	/* Read once: each use of a constant is a load. */
	u32 mode = cfg_mode;
	struct nd_cell *c;
	u32 saw;

	end_slot(s);
	if (cfg_recover && !s->setup_out_ns) {
		finish_partial(s, cpu, complete, end);
		return;
	}
	if (complete < s->setup_out_ns) {
		count(ND_NEGATIVE);
		complete = s->setup_out_ns;
	}
	if (mode == ND_MODE_TOTAL) {
		saw = 0;
	} else if (in_order(s, complete, mode)) {
		saw = mode == ND_MODE_FINE ? ND_SAW_ALL & ~ND_SAW_END : ND_SAW_BASIC;
		s->saw = saw;
	} else {
		validate_points(s, complete, mode);
		saw = *(volatile u16 *)&s->saw;
	}
	if (end) {
		if (end >= complete)
			saw |= ND_SAW_END;
		else
			count(ND_NEGATIVE);
	}
	saw |= seen_before(s, saw);
	FORGET(complete);
	if (cfg_end)
		FORGET(end);
	if (cfg_trace && !finish_trace(s, cpu, saw, complete, end))
		return;
	c = cpu ? cell_of(s, &saw, cpu) : 0;
	if (!c) {
		count_rowless(kept_key(s), s->bytes);
		return;
	}
	if (cpu->shares)
		add_stages_atomically(c, s, complete, end, saw);
	else
		add_stages(c, s, complete, end, saw, 0);
}

#endif
