/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Commands in flight: finding the slot of a request, and closing it.
 *
 * A slot is found by (controller, queue, tag), which is unique at the device: a flush request
 * borrows its owner's tag, but the owner is not at the device then. The request pointer in the slot
 * says whose it is. The owner of a slot changes only in on_setup_out().
 */
#ifndef ND_INFLIGHT_H
#define ND_INFLIGHT_H

/*
 * What the hooks remember of hardware queues holds as long as this number stays. It moves on with
 * every admin command (see where()), when a queue is found to belong to someone else than before,
 * and when user space moves a controller's slots.
 */
volatile u32 places_age = 0;

static __always_inline void forget_places(void)
{
	__sync_fetch_and_add((u32 *)&places_age, 1);
}

/* The verifier has no product of a pointer, but the difference of two is a number. */
static __always_inline u64 place_number(struct nd_cpu *cpu, u64 hctx)
{
	return ((hctx - (u64)cpu) * 0x9e3779b97f4a7c15ull) >> (64 - ND_PLACE_BITS);
}

/* Where this hook remembers the hardware queue, if it does. Never an admin queue: see where(). */
static __always_inline struct nd_place *place_of(struct nd_cpu *cpu, u32 at, u64 hctx, int typed)
{
	if (typed == TWIN)
		at += ND_AT_MAX;
	return &cpu->place[at][place_number(cpu, hctx)];
}

static __always_inline int is_of(struct nd_place *p, u64 hctx)
{
	return p->hctx == hctx && p->age == places_age;
}

static __always_inline u32 first_slot(u32 base, u32 stride, u32 qid)
{
	return base + qid * stride;
}

static __always_inline struct nd_slot *slot_at(u32 index)
{
	return bpf_map_lookup_elem(&slots, &index);
}

static __always_inline struct nd_queue *queue_entry(struct request_queue *q, int typed)
{
	u32 id = GET(typed, q, id);

	return bpf_map_lookup_elem(&queues, &id);
}

static __always_inline u32 hctx_number(struct request *rq, int typed)
{
	struct blk_mq_hw_ctx *hctx = GET(typed, rq, mq_hctx);

	return GET(typed, hctx, queue_num);
}

/* REQ_OP_DRV_IN: it and REQ_OP_DRV_OUT, the last of all, are what the driver itself and users of
 * passthrough send (include/linux/blk_types.h, the same since 4.20) */
#define ND_OP_MASK   0xff
#define ND_OP_DRV_IN 34

/* Whether it goes to an admin queue: no other operations do, and such a queue has no queuedata. */
static __always_inline int is_admin(struct request *rq)
{
	struct request_queue *q;

	if ((rq->cmd_flags & ND_OP_MASK) < ND_OP_DRV_IN)
		return 0;
	q = distrust(rq)->q;
	return !q->queuedata;
}

static __always_inline u32 spread_of(struct request_queue *q, int typed)
{
	return GET(typed, q, id) & 3;
}

/* Puts down where the commands of this request's queue go. With numbers for pointers nobody
 * remembers: each look at the request would take a helper. */
static __always_inline void remember(struct nd_place *p, struct request *rq,
				     struct request_queue *q, u32 first, u32 tags, u32 age,
				     int typed)
{
	p->first = first;
	p->tags = tags;
	p->age = age;
	p->spread = spread_of(q, typed);
	p->hctx = typed ? (u64)rq->mq_hctx : 0;
}

/*
 * The slot of a request's tag, on a queue that is known; NULL: not ours, or out of range. With `p`
 * the queue is remembered there.
 */
static __always_inline struct nd_slot *slot_by_queue(struct request *rq, struct nd_place *p,
						     int typed)
{
	struct request_queue *q = GET(typed, rq, q);
	struct nd_queue *e;
	u32 qid, tag = GET(typed, rq, tag), age = places_age, first;

	if (!q)
		return 0;
	e = queue_entry(q, typed);
	if (!e || e->q != (u64)q || !e->queues)
		return 0;
	qid = hctx_number(rq, typed) + e->io;
	if (qid >= e->queues || tag >= e->stride)
		return 0;
	first = first_slot(e->base, e->stride, qid);
	if (p && e->io)
		remember(p, rq, q, first, e->stride, age, typed);
	return slot_at(first + tag);
}

static __noinline struct nd_slot *slot_slowly(struct request *rq, struct nd_place *p)
{
	return slot_by_queue(distrust(rq), p, TYPED);
}

/*
 * The same, usually by what the hook remembers: a queue is asked for where that leads to another
 * request's slot.
 */
static __always_inline struct nd_slot *slot_near(struct request *rq, struct nd_cpu *cpu, u32 at,
						 int typed)
{
	struct nd_place *p;
	struct nd_slot *s;
	u64 hctx;

	if (!typed)
		return slot_by_queue(rq, 0, typed);
	if (!cpu)
		return slot_slowly(rq, 0);
	hctx = (u64)rq->mq_hctx;
	p = place_of(cpu, at, hctx, typed);
	if (is_of(p, hctx)) {
		s = slot_at(p->first + rq->tag);
		if (s && s->rq == (u64)rq)
			return s;
	}
	return slot_slowly(rq, p);
}

/* The slot of this very request, or NULL, for frequent hooks that remember nothing. */
static __always_inline struct nd_slot *slot_asked(struct request *rq, int typed)
{
	struct nd_slot *s = slot_by_queue(rq, 0, typed);

	return s && s->rq == (u64)rq ? s : 0;
}

/* The same for the others. */
static __always_inline struct nd_slot *slot_of(struct request *rq, struct nd_cpu *cpu, u32 at,
					       int typed)
{
	struct nd_slot *s = slot_near(rq, cpu, at, typed);

	return s && s->rq == (u64)rq ? s : 0;
}

/*
 * Where the start of a request is kept until the driver sets it up. With a scheduler it has no
 * driver tag yet, only the scheduler's; these are per namespace, so namespaces are spread apart.
 * Two that meet all the same lose a start (not observed, counted), never get a wrong one: the
 * entry holds the request.
 */
static __always_inline struct nd_start *start_entry(s32 internal, u32 tag, u32 first, u32 tags,
						    u32 spread)
{
	u32 at;

	if (internal >= 0)
		tag = internal + (spread << 8);
	at = first + (tag & (tags - 1));
	return bpf_map_lookup_elem(&starts, &at);
}

/* Not a map of its own: its size is known, and this way finding one takes a third of a lookup. */
static struct nd_task tasks[ND_TASKS];

static __always_inline struct nd_task *task_of(u32 tid)
{
	return &tasks[tid & (ND_TASKS - 1)];
}

static __always_inline void emit(struct nd_slot *s, u64 key, u64 complete_ns, u64 end_ns)
{
	struct nd_record *r = bpf_ringbuf_reserve(&ring, sizeof(*r), 0);

	if (!r) {
		count(ND_RING_FULL);
		return;
	}
	r->kind = ND_RECORD_COMMAND;
	r->version = ND_RECORD_VERSION;
	r->cid = s->cid;
	r->qid = s->qid;
	r->tag = s->tag;
	r->bytes = s->bytes;
	r->tid = s->tid;
	r->key = key;
	r->start_ns = s->start_ns;
	r->setup_out_ns = s->setup_out_ns;
	r->doorbell_ns = s->doorbell_ns;
	r->cqe_ns = s->cqe_ns;
	if (cfg_mode == ND_MODE_FINE) {
		r->setup_in_ns = s->setup_in_ns;
		r->issue_ns = s->issue_ns;
		r->irq_ns = s->irq_ns;
	} else {
		r->setup_in_ns = 0;
		r->issue_ns = 0;
		r->irq_ns = 0;
	}
	r->complete_ns = complete_ns;
	r->end_ns = end_ns;
	bpf_ringbuf_submit(r, 0);
}

static __always_inline void finish_total(struct nd_cell *c, u32 at, u64 total, u32 bytes,
					 int atomic)
{
	hist_add(&c->hist[at], total, atomic);
	add(&c->bytes, bytes, atomic);
	if (cfg_lat) {
		add(&c->lat[lat_index(total)], 1, atomic);
	}
}

/*
 * Drops the points that were not observed, or that do not belong between their neighbours; what is
 * left stands in s->saw. The rules:
 *  - a doorbell after the CQE is the submitting function's late return, not the doorbell;
 *  - an interrupt before the doorbell was already running for other commands;
 *  - anything else out of order is counted as negative.
 *
 * The pattern is kept in the map, not in a register: the verifier would follow each of its 128
 * values through all that comes after (half a million instructions instead of some thousands).
 */
static __always_inline void settle(struct nd_slot *s, u64 complete, u32 mode)
{
	volatile u8 *saw = &s->saw;
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
			count(ND_NEGATIVE);
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

/* What settle() finds of nearly all commands, without its work: every point is there, in order. */
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

/* The stages of each cut, by their number (src/path/stage.rs). */
enum nd_cheap { CHEAP_QUEUE, CHEAP_SUBMIT, CHEAP_DEVICE, CHEAP_COMPLETE };
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

/*
 * Closes the stage that ends at `to`, with `point`: it began at the last point before that was
 * seen, after the setup. Which stage that is comes from the map, not from a register, for the
 * reason that settle() has.
 */
static __always_inline void stage(struct nd_cell *c, struct nd_slot *s, u32 point, u64 *from,
				  u64 to, u32 mode, int atomic)
{
	u32 before = *(volatile u8 *)&s->saw & (point - 1) & ~(ND_SAW_START | ND_SAW_SETUP_IN), i;

	if (mode == ND_MODE_FINE) { /* issue, doorbell, irq, cqe are bits 2 to 5 */
		i = log2_of_byte[(before << 1 | 1 << FINE_MAP) & 0xff];
		BELOW(i, ND_STAGES_FINE);
	} else { /* doorbell and cqe: 3 and 5 */
		i = CHEAP_SUBMIT + (log2_of_byte[before & 0xff] >> 1);
		BELOW(i, ND_STAGES_CHEAP);
	}
	hist_add(&c->hist[i], to - *from, atomic);
	*from = to;
	FORGET(*from);
}

static __always_inline void stages_cheap(struct nd_cell *c, struct nd_slot *s, u64 complete,
					 u32 saw, int atomic)
{
	u64 from = s->setup_out_ns, first = from;
	volatile u8 *seen = &s->saw;

	/* the usual case, without the arithmetic of merged stages */
	if (saw == ND_SAW_CHEAP) {
		first = s->start_ns;
		hist_add(&c->hist[CHEAP_QUEUE], from - first, atomic);
		hist_add(&c->hist[CHEAP_SUBMIT], s->doorbell_ns - from, atomic);
		hist_add(&c->hist[CHEAP_DEVICE], s->cqe_ns - s->doorbell_ns, atomic);
		hist_add(&c->hist[CHEAP_COMPLETE], complete - s->cqe_ns, atomic);
		finish_total(c, ND_STAGES_CHEAP - 1, complete - first, s->bytes, atomic);
		return;
	}
	if (*seen & ND_SAW_START) {
		first = s->start_ns;
		hist_add(&c->hist[CHEAP_QUEUE], from - first, atomic);
	}
	if (*seen & ND_SAW_DOORBELL)
		stage(c, s, ND_SAW_DOORBELL, &from, s->doorbell_ns, ND_MODE_CHEAP, atomic);
	if (*seen & ND_SAW_CQE)
		stage(c, s, ND_SAW_CQE, &from, s->cqe_ns, ND_MODE_CHEAP, atomic);
	FORGET(first);
	stage(c, s, ND_SAW_END, &from, complete, ND_MODE_CHEAP, atomic);
	finish_total(c, ND_STAGES_CHEAP - 1, complete - first, s->bytes, atomic);
}

static __always_inline void stages_fine(struct nd_cell *c, struct nd_slot *s, u64 complete, u64 end,
					u32 saw, int atomic)
{
	u64 from = s->setup_out_ns, first = from;
	volatile u8 *seen = &s->saw;

	/* as above */
	if (saw == ND_SAW_ALL) {
		first = s->start_ns;
		hist_add(&c->hist[FINE_QUEUE], s->setup_in_ns - first, atomic);
		hist_add(&c->hist[FINE_SETUP], from - s->setup_in_ns, atomic);
		hist_add(&c->hist[FINE_MAP], s->issue_ns - from, atomic);
		hist_add(&c->hist[FINE_SUBMIT], s->doorbell_ns - s->issue_ns, atomic);
		hist_add(&c->hist[FINE_DEVICE], s->irq_ns - s->doorbell_ns, atomic);
		hist_add(&c->hist[FINE_IRQ], s->cqe_ns - s->irq_ns, atomic);
		hist_add(&c->hist[FINE_COMPLETE], complete - s->cqe_ns, atomic);
		hist_add(&c->hist[FINE_END], end - complete, atomic);
		finish_total(c, ND_STAGES_FINE - 1, end - first, s->bytes, atomic);
		return;
	}
	if (*seen & ND_SAW_SETUP_IN) {
		first = s->setup_in_ns;
		hist_add(&c->hist[FINE_SETUP], from - first, atomic);
	}
	if (*seen & ND_SAW_START) {
		hist_add(&c->hist[FINE_QUEUE], first - s->start_ns, atomic);
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
	if (end >= complete) {
		hist_add(&c->hist[FINE_END], end - complete, atomic);
		complete = end;
	}
	finish_total(c, ND_STAGES_FINE - 1, complete - first, s->bytes, atomic);
}

/*
 * The command is over: into the histograms with it. `end` is 0 where blk-mq's end was not seen.
 * The slot is free afterwards, so a second event for it can't count twice.
 */
static __always_inline void finish(struct nd_slot *s, struct nd_cpu *cpu, u64 complete, u64 end,
				   int shared)
{
	/* read once: each look at a constant is a load */
	u32 mode = cfg_mode;
	int atomic = cfg_atomic || shared;
	struct nd_cell *c;
	u32 saw;

	s->state = ND_FREE;
	if (cfg_trace && !cfg_end)
		s->complete_ns = s->rq;
	s->rq = 0;
	if (complete < s->setup_out_ns) {
		count(ND_NEGATIVE);
		complete = s->setup_out_ns;
	}
	if (mode == ND_MODE_TOTAL) {
		saw = 0;
	} else if (in_order(s, complete, mode)) {
		saw = mode == ND_MODE_FINE ? ND_SAW_ALL & ~ND_SAW_END : ND_SAW_CHEAP;
		s->saw = saw;
	} else {
		settle(s, complete, mode);
		saw = *(volatile u8 *)&s->saw;
	}
	if (end) {
		if (end >= complete)
			saw |= ND_SAW_END;
		else
			count(ND_NEGATIVE);
	}
	FORGET(complete);
	FORGET(end);
	if (cfg_trace) {
		finish_trace(s, cpu, saw, complete, end);
		return;
	}
	if (cfg_commands)
		emit(s, kept_key(s) | saw, complete, end);
	c = cpu ? cell_of(s, saw, cpu) : 0;
	if (!c) {
		count(ND_NO_ROW);
		return;
	}
	if (mode == ND_MODE_FINE)
		stages_fine(c, s, complete, end, saw, atomic);
	else if (mode == ND_MODE_CHEAP)
		stages_cheap(c, s, complete, saw, atomic);
	else
		finish_total(c, 0, complete - s->setup_out_ns, s->bytes, atomic);
}

#endif
