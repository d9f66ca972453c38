/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Single commands: fields, stacks, and events in rings that do not wake the reader: it polls. */
#pragma once

#include "hist.bpf.h"
#include "maps.bpf.h"

/* Clears those that the run uses. The setup itself sets start_ns and setup_out_ns. */
static __always_inline void clear_times(struct nd_slot *s, u32 mode)
{
	if (mode != ND_MODE_TOTAL) {
		s->doorbell_ns = 0;
		s->cqe_ns = 0;
	} else if (cfg_setup_skips) {
		s->cqe_ns = 0;
	}
	if (mode == ND_MODE_FINE) {
		s->setup_in_ns = 0;
		s->issue_ns = 0;
		s->irq_ns = 0;
		s->complete_ns = 0;
	}
}

static __always_inline void times_of(struct nd_times *t, struct nd_slot *s, u64 end)
{
	t->start_ns = s->start_ns;
	t->doorbell_ns = s->doorbell_ns;
	t->cqe_ns = s->cqe_ns;
	t->end_ns = end;
	t->setup_in_ns = cfg_mode == ND_MODE_FINE ? s->setup_in_ns : 0;
	t->issue_ns = cfg_mode == ND_MODE_FINE ? s->issue_ns : 0;
	t->irq_ns = cfg_mode == ND_MODE_FINE ? s->irq_ns : 0;
}

/* Behind the histograms of the fine stages and of the total. Waits of no length are not added: most
 * commands have none, and user space adds them (src/abi). */
enum nd_before {
	BEFORE_SUBMIT = ND_STAGES_FINE,
	BEFORE_BIO,
	BEFORE_FREEZE,
	BEFORE_ZONE,
	BEFORE_IOCOST,
	BEFORE_WBT,
	BEFORE_TAG,
};

/* The waits of a slot's command. Without single commands they are where these would be. */
static __always_inline struct nd_waits *waits_in(struct nd_slot *s)
{
	return cfg_trace ? &s->waits : (struct nd_waits *)&s->submission;
}

/* If the command has the points before the request: sets ND_SAW_BIO in the slot, and returns it. */
static __always_inline u32 seen_before(struct nd_slot *s, u32 saw)
{
	if (!cfg_waits || !(saw & ND_SAW_START) || waits_in(s)->start_ns != s->start_ns)
		return 0;
	s->saw |= ND_SAW_BIO;
	return ND_SAW_BIO;
}

/* In nd_waits.freeze_ns: the wait was for a zone. */
#define ND_FOR_ZONE (1ULL << 63)

static __always_inline u64 to_enter(struct nd_waits *w)
{
	return w->freeze_ns & ~ND_FOR_ZONE;
}

static __always_inline void early_times_of(struct nd_early_times *t, struct nd_slot *s)
{
	struct nd_waits *w = waits_in(s);

	t->submit_ns = w->submit_ns;
	t->bio_ns = w->bio_ns;
	t->tag_ns = s->start_ns - w->tag_ns;
	t->wbt_ns = t->tag_ns - w->wbt_ns;
	t->iocost_ns = t->wbt_ns - w->iocost_ns;
	t->freeze_ns = t->iocost_ns - to_enter(w);
	t->zone_ns = w->freeze_ns & ND_FOR_ZONE ? t->freeze_ns : t->iocost_ns;
	t->bios = w->also;
}

/* Adds the stack to the table of stacks, and returns its hash; 0: no stack. A nested program takes
 * none (raw tracepoints had no guard before 6.1). */
static __always_inline u64 take_stack(void *ctx)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct nd_scratch *s = bpf_map_lookup_elem(&scratches, &cpu);
	u64 hash = 0xcbf29ce484222325ull, depth;
	long bytes;

	if (!s || s->busy) {
		count(ND_NO_STACK);
		return 0;
	}
	s->busy = 1;
	bytes = bpf_get_stack(ctx, s->stack.frame, sizeof(s->stack.frame), 0);
	if (bytes <= 0) {
		s->busy = 0;
		count(ND_NO_STACK);
		return 0;
	}
	depth = (u64)bytes >> 3;
	for (u32 i = 0; i < ND_STACK_DEPTH; i++) {
		u64 frame;

		if (i >= depth)
			break;
		frame = s->stack.frame[i];
		hash = (hash ^ frame) * 0x9e3779b97f4a7c15ull;
		hash ^= hash >> 29;
		/* End the stack at interrupt entry. The interrupted code differs each time, and
		 * would soon fill the table with stacks of one path. */
		if (cfg_stack == ND_STACK_COMPLETE && frame >= cfg_irq_first &&
		    frame < cfg_irq_end) {
			depth = i + 1;
			break;
		}
	}
	s->stack.depth = depth;
	if (!hash)
		hash = 1;
	if (!bpf_map_lookup_elem(&stacks, &hash)) {
		bpf_map_update_elem(&stacks, &hash, &s->stack, BPF_NOEXIST);
		/* Another CPU may have been first. */
		if (!bpf_map_lookup_elem(&stacks, &hash)) {
			count(ND_STACKS_FULL);
			hash = 0;
		}
	}
	s->busy = 0;
	return hash;
}

static __always_inline int sampled(void)
{
	return !cfg_sample_below || bpf_get_prandom_u32() < cfg_sample_below;
}

static __always_inline u64 stack_here(void *ctx, u32 at)
{
	return cfg_stack == at && sampled() ? take_stack(ctx) : 0;
}

static __always_inline void about(struct nd_event *e, u32 kind, struct nd_slot *s, u64 ns)
{
	u64 key = s->key >> ND_ROW_BITS;

	e->kind = kind;
	e->admin = (key >> ND_KEY_ADMIN_SHIFT) & 1;
	e->opcode = key >> ND_KEY_OPCODE_SHIFT;
	e->pattern = 0;
	e->qid = s->qid;
	e->cid = s->cid;
	e->ns = ns;
	e->ctrl = (key >> ND_KEY_CTRL_SHIFT) & (ND_MAX_CTRLS - 1);
	e->nsid = cfg_trace ? s->submission.nsid : (key >> ND_KEY_NSID_SHIFT) & ND_KEY_NSID_MASK;
}

/* Records the submitter, except its name. */
static __always_inline void note_submitter(struct nd_submission *a)
{
	u64 id = bpf_get_current_pid_tgid();

	a->tgid = id >> 32;
	a->tid = id;
	a->cpu = bpf_get_smp_processor_id();
	a->known |= ND_KNOWN_SUBMITTER;
}

/* Room for an event in the ring of this CPU. Any CPU may use it: the program may be moved. */
static __always_inline void *reserve(u64 bytes)
{
	u32 group = bpf_get_smp_processor_id() / ND_RING_CPUS;
	void *ring = bpf_map_lookup_elem(&rings, &group);

	return ring ? bpf_ringbuf_reserve(ring, bytes, 0) : 0;
}

static __always_inline void put_origin(void *event, u32 size, struct nd_slot *s)
{
	if (cfg_who & ND_WHO_ORIGIN)
		__builtin_memcpy(event + size - sizeof(s->origin), &s->origin, sizeof(s->origin));
}

static __always_inline void emit_submit(struct nd_slot *s, u64 now)
{
	u32 size = sizeof(struct nd_submit) + (cfg_who & ND_WHO_ORIGIN ? sizeof(s->origin) : 0);
	struct nd_submit *r;

	if (cfg_trace != ND_TRACE_EVENTS)
		return;
	r = reserve(size);
	if (!r) {
		count(ND_LOST_SUBMIT);
		return;
	}
	put_origin(r, size, s);
	about(&r->event, ND_KIND_SUBMIT, s, now);
	__builtin_memcpy(&r->submission, &s->submission, sizeof(r->submission));
	bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
}

static __always_inline int traces_events(void)
{
	return cfg_trace == ND_TRACE_EVENTS || cfg_trace == ND_TRACE_PAIRS;
}

/* `s` is NULL if the command is unknown. */
static __always_inline struct nd_other *other(u32 kind, struct nd_slot *s, u64 value)
{
	struct nd_other *r = reserve(sizeof(*r));

	if (!r) {
		count(ND_LOST_EVENT);
		return 0;
	}
	if (s) {
		about(&r->event, kind, s, bpf_ktime_get_ns());
	} else {
		r->event = (struct nd_event){};
		r->event.kind = kind;
		r->event.ns = bpf_ktime_get_ns();
	}
	r->value = value;
	return r;
}

static __always_inline void emit_event(u32 kind, struct nd_slot *s, u64 value)
{
	struct nd_other *r = other(kind, s, value);

	if (r)
		bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
}

static __always_inline void emit_ctrl(u32 kind, u32 ctrl, u64 value)
{
	struct nd_other *r = other(kind, 0, value);

	if (!r)
		return;
	r->event.ctrl = ctrl;
	bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
}

/* The event of a finished command. If `complete` is 0, now is the upper bound. The verifier
 * requires a constant size, which this is on each path. */
static __always_inline void emit_end(struct nd_slot *s, u32 kind, u32 saw, u64 complete, u64 end)
{
	u32 size = sizeof(struct nd_end);
	struct nd_complete *c;
	struct nd_pair *p;
	struct nd_end *r;

	if (kind == ND_KIND_PAIR)
		size += sizeof(struct nd_submission);
	if (cfg_mode != ND_MODE_TOTAL)
		size += sizeof(struct nd_times);
	if (cfg_waits)
		size += sizeof(struct nd_early_times);
	if (kind == ND_KIND_PAIR && cfg_who & ND_WHO_ORIGIN)
		size += sizeof(struct nd_origin);
	r = reserve(size);
	if (!r) {
		count(ND_RING_FULL);
		return;
	}
	if (!complete)
		complete = bpf_ktime_get_ns();
	about(&r->event, kind, s, complete);
	r->event.pattern = saw;
	__builtin_memcpy(&r->outcome, &s->outcome, sizeof(r->outcome));
	r->setup_out_ns = s->setup_out_ns;
	/* Through typed pointers: memcpy to an unknown alignment copies single bytes. */
	p = (struct nd_pair *)r;
	c = (struct nd_complete *)r;
	if (kind == ND_KIND_PAIR) {
		__builtin_memcpy(&p->submission, &s->submission, sizeof(p->submission));
		put_origin(r, size, s);
	}
	if (cfg_mode != ND_MODE_TOTAL)
		times_of(kind == ND_KIND_PAIR ? &p->times : &c->times, s, end);
	if (cfg_waits)
		early_times_of(kind == ND_KIND_PAIR ? &p->early : &c->early, s);
	bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
}

/* `measured`: the latency is known. */
static __always_inline void sum_stack(u64 stack, u64 latency, int measured)
{
	struct nd_stack_sum *sum, *none;
	u32 zero = 0;

	if (!stack)
		return;
	sum = bpf_map_lookup_elem(&stack_sums, &stack);
	none = sum ? NULL : bpf_map_lookup_elem(&empty, &zero);
	if (none) {
		bpf_map_update_elem(&stack_sums, &stack, none, BPF_NOEXIST);
		sum = bpf_map_lookup_elem(&stack_sums, &stack);
	}
	if (!sum)
		count(ND_STACKS_FULL);
	else if (measured)
		hist_add(&sum->hist, latency, 1);
	else
		__sync_fetch_and_add(&sum->unmeasured, 1);
}

/* Whether a command is too fast for --slow, from its first to its last observed point (total_ns()
 * of src/model/timeline.rs). Without a begin or an end it is not. */
static __always_inline int is_fast(struct nd_slot *s, u32 saw, u64 complete, u64 end)
{
	u64 begin = s->setup_out_ns;

	if (saw & ND_SAW_SETUP_IN)
		begin = s->setup_in_ns;
	if (saw & ND_SAW_START)
		begin = s->start_ns;
	if (cfg_waits && saw & ND_SAW_BIO)
		begin = s->waits.submit_ns;
	if (saw & ND_SAW_END)
		complete = end;
	return begin && complete && complete - begin < cfg_slow_ns;
}

/* Traces a finished command. Returns 1 if the histograms count it as well. */
static __always_inline int finish_trace(struct nd_slot *s, struct nd_cpu *cpu, u32 saw,
					u64 complete, u64 end)
{
	int measured = !(saw & ND_NO_ANY);
	u32 trace = cfg_trace;
	u64 latency = complete - s->setup_out_ns, stack;

	if (trace == ND_TRACE_FLIGHT)
		return 1;
	if (trace == ND_TRACE_COMMANDS) {
		emit_end(s, ND_KIND_PAIR, saw, complete, end);
		return 1;
	}
	if (cpu)
		count_here(cpu, ND_FINISHED);
	if (!measured)
		count(ND_UNMEASURED);
	if ((cfg_slow_ns && is_fast(s, saw, complete, end)) ||
	    (cfg_errors && complete && !(s->outcome.status & 0x7ff))) {
		count(ND_NOT_SHOWN);
		return 0;
	}
	if (trace == ND_TRACE_STACKS) {
		stack = cfg_stack == ND_STACK_SUBMIT ? s->submission.stack : s->outcome.stack;
		if (saw & (cfg_stack == ND_STACK_SUBMIT ? ND_NO_SETUP : ND_NO_COMPLETE))
			stack = sampled() ? ND_STACK_UNSEEN : 0;
		sum_stack(stack, latency, measured);
	} else if (trace == ND_TRACE_PAIRS) {
		emit_end(s, ND_KIND_PAIR, saw, complete, end);
	} else {
		emit_end(s, ND_KIND_COMPLETE, saw, complete, end);
	}
	return 0;
}
