/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The end of a command: its valid points, and the histograms of the intervals between them. */
#pragma once

#include "emit.bpf.h"
#include "rows.bpf.h"

/* The stages before the request (--stages=full):
 *
 *   submission      block_bio_queue                                     request
 *       |-- throttle --|-- block --|- freeze -|- zone -|- iocost -|- wbt -|- tag -|
 *
 * `block` is the rest. In time lines it comes first, although some of it lies between the waits. */
static __always_inline void wait_add(struct nd_hist *h, u64 ns, int atomic)
{
	if (ns)
		hist_add(h, ns, atomic);
}

/* The request began at `first`. Returns where the command begins. */
static __always_inline u64 stages_before(struct nd_cell *c, struct nd_slot *s, u64 first, u32 saw,
					 int atomic)
{
	struct nd_waits *w = waits_in(s);
	u32 enter;
	u64 rest;

	if (!cfg_waits || !(saw & ND_SAW_BIO))
		return first;
	rest = first - w->bio_ns - to_enter(w) - w->iocost_ns - w->wbt_ns - w->tag_ns;
	hist_add(&c->hist[BEFORE_BIO], rest, atomic);
	wait_add(&c->hist[BEFORE_SUBMIT], w->bio_ns - w->submit_ns, atomic);
	enter = w->freeze_ns & ND_FOR_ZONE ? BEFORE_ZONE : BEFORE_FREEZE;
	wait_add(&c->hist[enter], to_enter(w), atomic);
	wait_add(&c->hist[BEFORE_IOCOST], w->iocost_ns, atomic);
	wait_add(&c->hist[BEFORE_WBT], w->wbt_ns, atomic);
	wait_add(&c->hist[BEFORE_TAG], w->tag_ns, atomic);
	return w->submit_ns;
}

/* Drops the points that were not observed or are not between their neighbours, and leaves the
 * others in s->saw. A doorbell after the CQE is the late return of the submitting function; an
 * interrupt before the doorbell was already running; any other out of order is negative.
 * The pattern is in the map, not in a register: the verifier would follow each of its 128 values
 * through the rest of the program (half a million instructions instead of some thousands). */
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

/* Whether all points were observed, in order, as for nearly all commands. */
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

static __always_inline void stages_basic(struct nd_cell *c, struct nd_slot *s, u64 complete)
{
	u64 first = s->start_ns;

	hist_add_inner(&c->hist[BASIC_QUEUE], s->setup_out_ns - first);
	hist_add_inner(&c->hist[BASIC_SUBMIT], s->doorbell_ns - s->setup_out_ns);
	hist_add_inner(&c->hist[BASIC_DEVICE], s->cqe_ns - s->doorbell_ns);
	hist_add_inner(&c->hist[BASIC_COMPLETE], complete - s->cqe_ns);
	hist_add(&c->hist[ND_STAGES_BASIC - 1], complete - first, 0);
}

static __always_inline void stages_fine(struct nd_cell *c, struct nd_slot *s, u64 complete, u64 end,
					u32 saw)
{
	u64 first = s->start_ns;

	hist_add_inner(&c->hist[FINE_QUEUE], s->setup_in_ns - first);
	hist_add_inner(&c->hist[FINE_SETUP], s->setup_out_ns - s->setup_in_ns);
	hist_add_inner(&c->hist[FINE_MAP], s->issue_ns - s->setup_out_ns);
	hist_add_inner(&c->hist[FINE_SUBMIT], s->doorbell_ns - s->issue_ns);
	hist_add_inner(&c->hist[FINE_DEVICE], s->irq_ns - s->doorbell_ns);
	hist_add_inner(&c->hist[FINE_IRQ], s->cqe_ns - s->irq_ns);
	hist_add_inner(&c->hist[FINE_COMPLETE], complete - s->cqe_ns);
	hist_add_inner(&c->hist[FINE_END], end - complete);
	first = stages_before(c, s, first, saw, 0);
	hist_add(&c->hist[ND_STAGES_FINE - 1], end - first, 0);
}

struct nd_walk {
	u64 first; /* the first point; 0: none yet */
	u64 last;
	u64 stages; /* how many have ended */
	u32 stage;  /* that the last point began */
	u32 row;
};

/* Ends a stage, and begins the next one, unless the point was not observed (`ns` is 0). The
 * verifier must forget the numbers, or it would follow every pattern of points. */
static __always_inline void reach(struct nd_walk *w, u64 ns, u32 next)
{
	if (!ns)
		return;
	if (w->last) {
		add_interval(w->row, w->stage, ns - w->last);
		w->stages++;
	} else {
		w->first = ns;
	}
	w->last = ns;
	w->stage = next;
	FORGET(w->first);
	FORGET(w->last);
	FORGET(w->stages);
	FORGET(w->stage);
}

#define SEEN(bit, ns) (*(volatile u16 *)&s->saw & (bit) ? (ns) : 0)

/* Adds the intervals between the points of `s->saw`. Where one is missing, stages are merged.
 * Atomic: other CPUs may use the cell, and rare programs may interrupt the usual one. */
static __noinline int add_intervals(struct nd_cell *c, struct nd_slot *s, u64 complete, u64 end)
{
	int fine = cfg_mode == ND_MODE_FINE,
	    total = fine ? ND_STAGES_FINE - 1 : ND_STAGES_BASIC - 1;
	struct nd_walk w = {.row = s->key & (ND_MAX_ROWS - 1)};

	if (cfg_mode == ND_MODE_TOTAL) {
		total = 0;
		w.first = s->setup_out_ns;
		w.last = complete;
		w.stages = w.first && complete;
	} else {
		reach(&w, SEEN(ND_SAW_START, s->start_ns), 0);
		if (fine)
			reach(&w, SEEN(ND_SAW_SETUP_IN, s->setup_in_ns), FINE_SETUP);
		reach(&w, s->setup_out_ns, fine ? FINE_MAP : BASIC_SUBMIT);
		if (fine)
			reach(&w, SEEN(ND_SAW_ISSUE, s->issue_ns), FINE_SUBMIT);
		reach(&w, SEEN(ND_SAW_DOORBELL, s->doorbell_ns), fine ? FINE_DEVICE : BASIC_DEVICE);
		if (fine)
			reach(&w, SEEN(ND_SAW_IRQ, s->irq_ns), FINE_IRQ);
		reach(&w, SEEN(ND_SAW_CQE, s->cqe_ns), fine ? FINE_COMPLETE : BASIC_COMPLETE);
		reach(&w, complete, fine ? FINE_END : BASIC_COMPLETE);
		if (fine)
			reach(&w, SEEN(ND_SAW_END, end), FINE_END);
	}
	if (w.stages) {
		if (fine)
			w.first = stages_before(c, s, w.first, *(volatile u16 *)&s->saw, 1);
		add_interval(w.row, total, w.last - w.first);
	} else {
		add(&c->unmeasured, 1, 1);
	}
	add(&c->bytes, s->bytes, 1);
	return 0;
}

/* Finishes a command, with the observed intervals: any time but one may be 0 (not observed). */
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
	/* No CQE or completion follows: it may be the late return of the submitting function. */
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
	else if (end)
		count(ND_NEGATIVE);
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
	s->saw = pattern;
	add_intervals(c, s, complete, end);
}

/* `kind`: ND_FAIL_* or the status type. */
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

static __always_inline void end_filtered(struct nd_slot *s)
{
	count(ND_FILTERED_DONE);
	s->state = ND_FREE;
	s->rq = 0;
}

/* The fast path of finish_partial(). */
static __always_inline void finish(struct nd_slot *s, struct nd_cpu *cpu, u64 complete, u64 end)
{
	/* Read once: each use of a constant is a load. */
	u32 mode = cfg_mode, saw = 0;
	struct nd_cell *c;
	int usual;

	end_slot(s);
	usual = mode == ND_MODE_TOTAL ? s->setup_out_ns && complete >= s->setup_out_ns
				      : in_order(s, complete, mode);
	if (!usual || (end && end < complete)) {
		finish_partial(s, cpu, complete, end);
		return;
	}
	if (mode != ND_MODE_TOTAL)
		s->saw = saw = mode == ND_MODE_FINE ? ND_SAW_ALL & ~ND_SAW_END : ND_SAW_BASIC;
	if (end)
		saw |= ND_SAW_END;
	saw |= seen_before(s, saw);
	FORGET(complete);
	if (cfg_end)
		FORGET(end);
	if (cfg_trace && !finish_trace(s, cpu, saw, complete, end))
		return;
	c = cell_of(s, &saw, cpu);
	if (!c) {
		count_rowless(kept_key(s), s->bytes);
		return;
	}
	if (cpu->shares) {
		s->saw = saw;
		add_intervals(c, s, complete, end);
		return;
	}
	if (mode == ND_MODE_TOTAL) {
		hist_add(&c->hist[0], complete - s->setup_out_ns, 0);
	} else if (mode == ND_MODE_BASIC && saw == ND_SAW_BASIC) {
		stages_basic(c, s, complete);
	} else if (mode == ND_MODE_FINE && (saw & ~ND_SAW_BIO) == ND_SAW_ALL) {
		stages_fine(c, s, complete, end, saw);
	} else {
		s->saw = saw;
		add_intervals(c, s, complete, end);
		return;
	}
	c->bytes += s->bytes;
}
