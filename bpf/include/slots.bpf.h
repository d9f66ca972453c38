/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Commands in flight: the slot of a request.
 *
 * (controller, queue, tag) selects the slot. It is unique at the device: a flush request borrows
 * its owner's tag, but the owner is not at the device then. The request pointer in the slot
 * identifies the owner, which on_setup_out() changes, or recover_setup() if the set-up was skipped.
 *
 * Controllers that the filter leaves out have no slots: theirs begin at ND_NO_SLOT.
 */
#ifndef ND_SLOTS_H
#define ND_SLOTS_H

#include "fence.bpf.h"

/*
 * Generation of the cached places: a place is valid only while this number is unchanged. It changes
 * with every admin command (see where()), when a queue turns out to have another owner than before,
 * and when user space moves a controller's slots.
 */
volatile u32 places_age = 0;

static __always_inline void forget_places(void)
{
	__sync_fetch_and_add((u32 *)&places_age, 1);
}

static __always_inline u64 place_number(u64 hctx)
{
	FORGET(hctx); /* no pointer any more: it can be multiplied */
	return (hctx * 0x9e3779b97f4a7c15ull) >> (64 - ND_PLACE_BITS);
}

/* The cached place of a hardware queue; see is_of(). Never an admin queue: see where(). */
static __always_inline struct nd_place *place_of(struct nd_cpu *cpu, u32 at, u64 hctx)
{
	return &cpu->place[at][place_number(hctx)];
}

static __always_inline int is_of(struct nd_place *p, u64 hctx)
{
	return p->hctx == hctx && p->age == places_age;
}

static __always_inline u32 first_slot(u32 base, u32 stride, u32 qid)
{
	return base + qid * stride;
}

/* The slot of a tag; ND_NO_SLOT: there is no such tag. */
static __always_inline u32 tag_slot(u32 first, u32 stride, u32 tag)
{
	return tag < stride ? first + tag : ND_NO_SLOT;
}

/* Whether slots from here on are those of a controller that the filter leaves out. */
static __always_inline u32 is_left_out(u32 first)
{
	return first >= ND_NO_SLOT;
}

#define ND_LEFT_OUT 2

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

/* The driver's queue of a request. */
static __always_inline u64 nvmeq_of(struct request *rq, int typed)
{
	struct blk_mq_hw_ctx *hctx = GET(typed, rq, mq_hctx);

	return (u64)GET(typed, hctx, driver_data);
}

/* REQ_OP_DRV_IN. It and REQ_OP_DRV_OUT, the last operation, are used by the driver itself and for
 * passthrough (include/linux/blk_types.h, the same since 4.20). */
#define ND_OP_MASK   0xff
#define ND_OP_DRV_IN 34

static __always_inline int is_passthrough(struct request *rq, int typed)
{
	return (GET(typed, rq, cmd_flags) & ND_OP_MASK) >= ND_OP_DRV_IN;
}

/* Identifies a use of a request: the same at the start and at the set-up, and almost always
 * different in the next use. */
static __always_inline u32 mark_of(struct request *rq, int typed)
{
	u64 bio = (u64)GET(typed, rq, bio);

	FORGET(bio); /* no pointer any more: it can be shifted */
	return (bio >> 6) + GET(typed, rq, __sector);
}

/* Whether start entries have marks. */
#define HAS_MARKS (cfg_setup_skips || FOLLOWS_SUBMITTERS)

/* Whether the request goes to an admin queue (or to connect_q of a fabrics controller): only these
 * operations do, and these queues have no queuedata. */
static __always_inline int is_admin(struct request *rq)
{
	struct request_queue *q;

	if ((rq->cmd_flags & ND_OP_MASK) < ND_OP_DRV_IN)
		return 0;
	q = drop_trust(rq)->q;
	return !q->queuedata;
}

static __always_inline u32 spread_of(struct request_queue *q, int typed)
{
	return GET(typed, q, id) & 3;
}

/* Caches the place of this request's queue. RAW programs cache nothing: each read of the request
 * would need a helper. */
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

/* `index`, or the number of the slot that has this request since before its controller moved to
 * other slots, because it had gained queues in a reset. */
static __always_inline u32 index_before_move(u32 index, struct nd_queue *e, struct request *rq,
					     u32 qid, u32 tag)
{
	struct nd_slot *s = slot_at(index);
	u32 first, former;

	if ((s && s->rq == (u64)rq) || qid >= e->former_queues)
		return index;
	first = first_slot(e->former_base, e->former_stride, qid);
	former = tag_slot(first, e->former_stride, tag);
	s = slot_at(former);
	return s && s->rq == (u64)rq ? former : index;
}

/* The slot of a request's tag, on a queue in `queues`. NULL: not followed, or out of range. Caches
 * the place of an I/O queue in `p`, if not NULL. */
static __always_inline struct nd_slot *slot_by_queue(struct request *rq, struct nd_place *p,
						     int typed)
{
	struct request_queue *q = GET(typed, rq, q);
	struct nd_queue *e;
	u32 qid, tag = GET(typed, rq, tag), age = places_age, first, index;

	if (!q)
		return 0;
	fence();
	e = queue_entry(q, typed);
	if (!e || e->q != (u64)q || !e->queues)
		return 0;
	qid = hctx_number(rq, typed) + e->io;
	if (qid >= e->queues)
		return 0;
	first = first_slot(e->base, e->stride, qid);
	if (p && e->io)
		remember(p, rq, q, first, e->stride, age, typed);
	index = tag_slot(first, e->stride, tag);
	if (e->former_queues)
		index = index_before_move(index, e, rq, qid, tag);
	return slot_at(index);
}

static __noinline struct nd_slot *slot_slowly(struct request *rq, struct nd_place *p)
{
	return slot_by_queue(drop_trust(rq), p, TYPED);
}

/* The slot of this request, or NULL. For frequent hooks without a cache. */
static __always_inline struct nd_slot *slot_checked(struct request *rq, int typed)
{
	struct nd_slot *s = slot_by_queue(rq, 0, typed);

	return s && s->rq == (u64)rq ? s : 0;
}

/* Like slot_checked(), for the other hooks: usually from the cache. The queue is read if the cached
 * place leads to the slot of another request. `followed`: whether the tag has a slot; ND_LEFT_OUT:
 * the filter leaves the controller out. */
static __always_inline struct nd_slot *slot_near(struct request *rq, struct nd_cpu *cpu, u32 at,
						 int *followed, int typed)
{
	struct nd_place *p = 0;
	struct nd_slot *s;
	u64 hctx;

	*followed = 1;
	if (typed && cpu) {
		hctx = (u64)rq->mq_hctx;
		p = place_of(cpu, at, hctx);
		ONE_REGISTER(p);
		if (is_of(p, hctx)) {
			s = slot_at(p->first + rq->tag);
			if (s && s->rq == (u64)rq)
				return s;
			if (is_left_out(p->first)) {
				*followed = ND_LEFT_OUT;
				return 0;
			}
		}
	}
	s = typed ? slot_slowly(rq, p) : slot_by_queue(rq, 0, typed);
	*followed = !!s;
	return s && s->rq == (u64)rq ? s : 0;
}

static __always_inline struct nd_slot *slot_of(struct request *rq, struct nd_cpu *cpu, u32 at,
					       int typed)
{
	int followed;

	return slot_near(rq, cpu, at, &followed, typed);
}

/*
 * The entry for the start of a request, until the driver sets it up. With a scheduler the request
 * has no driver tag yet, only a scheduler tag. Scheduler tags are per namespace, so `spread`
 * separates namespaces. If two requests still collide, one start is lost (not observed, counted). A
 * request never gets a wrong start: the entry holds the request.
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

/* Not a map: the size is constant, and an access costs a third of a map lookup. */
static struct nd_task tasks[ND_TASKS];

/* The number of this task. That of the idle task is 0 on every CPU: the CPU's number, above those
 * of all tasks (PID_MAX_LIMIT is 2^22), stands for it. Softirqs of idle CPUs may submit. */
static __always_inline u32 this_task(void)
{
	u64 tid = (u32)bpf_get_current_pid_tgid();

	if (!tid)
		tid = ND_IDLE_TASK | bpf_get_smp_processor_id();
	FORGET(tid);
	return tid;
}

static __always_inline struct nd_task *task_of(u32 tid)
{
	return &tasks[tid & (ND_TASKS - 1)];
}

/* Whether commands of the task wait for a doorbell. */
static __always_inline int is_waiting(struct nd_task *t)
{
	return t->n || (targ_any && t->others);
}

static __always_inline void wait_no_more(struct nd_task *t)
{
	t->n = 0;
	if (targ_any)
		t->others = 0;
}

#endif
