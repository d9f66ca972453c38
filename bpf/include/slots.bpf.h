/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Commands in flight: the slot of a request.
 *
 * (controller, queue, tag) selects the slot. It is unique at the device: a flush request borrows
 * its owner's tag, but the owner is not at the device then. The request pointer in the slot
 * identifies the owner, which on_setup_out() changes, or recover_setup() if the set-up was skipped.
 *
 * A machine may have too many tags for that (cfg_windows). Then a queue has a window of some slots
 * from its first command on, while there are free ones, and several tags share a slot. If it is in
 * use, or the queue has no window, the command has another slot, by its request: an extra slot.
 * Only set-ups on the CPU of the queue's first command take slots of the window, so that two CPUs
 * never take the same. A slot is free after the last use by the program that ends its command.
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

/* The window of a queue that may have one. ND_NO_SLOT: it has none. */
static __always_inline u64 known_window(u32 queue)
{
	u64 *found = bpf_map_lookup_elem(&windows, &queue);

	return found ? *found : ND_NO_SLOT;
}

/* The window of a queue: CPU << 32 | first slot. ND_NO_SLOT: all windows are in use. */
static __noinline u64 window_of(u32 queue)
{
	u64 window = known_window(queue);
	u32 first;

	if (window != ND_NO_SLOT)
		return window;
	if (bpf_map_pop_elem(&free_windows, &first))
		return ND_NO_SLOT;
	window = (u64)bpf_get_smp_processor_id() << 32 | first;
	if (bpf_map_update_elem(&windows, &queue, &window, BPF_NOEXIST) == 0)
		return window;
	/* Another CPU was first. */
	bpf_map_push_elem(&free_windows, &first, BPF_ANY);
	return known_window(queue);
}

static __always_inline u32 first_slot(u32 base, u32 stride, u32 qid)
{
	if (cfg_windows)
		return window_of(base + qid);
	return base + qid * stride;
}

/* Whether set-ups on this CPU may take slots of the queue's window. */
static __always_inline u32 is_own_window(u32 base, u32 qid)
{
	return window_of(base + qid) >> 32 == bpf_get_smp_processor_id();
}

/* The slot of a tag; ND_NO_SLOT: there is no such tag. */
static __always_inline u32 tag_slot(u32 first, u32 stride, u32 tag)
{
	if (cfg_windows)
		return first + (tag & (stride - 1));
	return tag < stride ? first + tag : ND_NO_SLOT;
}

static __always_inline struct nd_slot *slot_at(u32 index)
{
	return bpf_map_lookup_elem(&slots, &index);
}

/* Whether any command has had an extra slot. */
static u32 has_extra;

/* The number of a request's extra slot. ND_NO_SLOT: it has none. */
static __always_inline u32 extra_of(u64 rq)
{
	u32 *found = 0;

	if (cfg_windows && *(volatile u32 *)&has_extra)
		found = bpf_map_lookup_elem(&extra, &rq);
	return found ? *found : ND_NO_SLOT;
}

static __noinline u32 take_extra(u64 rq)
{
	u32 index;

	if (bpf_map_pop_elem(&free_extra, &index))
		return ND_NO_SLOT;
	if (bpf_map_update_elem(&extra, &rq, &index, BPF_NOEXIST)) {
		bpf_map_push_elem(&free_extra, &index, BPF_ANY);
		return ND_NO_SLOT;
	}
	has_extra = 1;
	return index;
}

static __noinline int give_back(u64 rq)
{
	u32 index = extra_of(rq);

	if (index != ND_NO_SLOT && bpf_map_delete_elem(&extra, &rq) == 0)
		bpf_map_push_elem(&free_extra, &index, BPF_ANY);
	return 0;
}

/* The program that has ended the command of a slot uses it no more. An extra slot remains that of
 * the request. */
static __always_inline int free_but_keep(struct nd_slot *s)
{
	if (!cfg_windows || s->state != ND_CLOSING)
		return 0;
	fence();
	*(volatile u8 *)&s->state = ND_FREE;
	asm volatile("" ::: "memory");
	return 1;
}

/* The same, and an extra slot is free. The request must still be that of the command, and not be
 * free: it may have another extra slot later. */
static __always_inline void free_slot(struct nd_slot *s, u64 rq)
{
	if (free_but_keep(s) && has_extra)
		give_back(rq);
}

/*
 * The slot for a request that is set up now, and its number: `index` is that of its tag. The
 * request keeps a slot that it has. `take`: it may take that of its tag, if it has no command, or
 * the previous one with the same tag, which is over. A request of a scheduler may come back with
 * another tag, and always has an extra slot. NULL: none is free.
 */
static __always_inline struct nd_slot *slot_for(struct request *rq, u32 *index, u32 cid, int take,
						int typed)
{
	struct nd_slot *s = slot_at(*index);
	u32 own;

	if (!cfg_windows)
		return s;
	if (s && s->rq == (u64)rq)
		return s;
	own = extra_of((u64)rq);
	if (own == ND_NO_SLOT) {
		if (s && take && (s32)GET(typed, rq, internal_tag) < 0 &&
		    (s->state == ND_FREE || !((s->cid ^ cid) & ND_TAG_MASK)))
			return s;
		own = take_extra((u64)rq);
	}
	*index = own;
	return slot_at(own);
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
	first = cfg_windows ? (u32)known_window(e->former_base + qid)
			    : first_slot(e->former_base, e->former_stride, qid);
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
	u32 qid, tag = GET(typed, rq, tag), age = places_age, first, index, own;
	struct nd_slot *s;

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
	s = slot_at(index);
	if (cfg_windows && (!s || s->rq != (u64)rq)) {
		own = extra_of((u64)rq);
		if (own != ND_NO_SLOT)
			s = slot_at(own);
	}
	return s;
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
 * place leads to the slot of another request. `followed`: whether the tag has a slot. */
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
			s = slot_at(cfg_windows ? tag_slot(p->first, p->tags, rq->tag)
						: p->first + rq->tag);
			if (s && s->rq == (u64)rq)
				return s;
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
