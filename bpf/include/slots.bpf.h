/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The slot of a command in flight, by (controller, queue, tag), which is unique at the device. The
 * request pointer in the slot identifies the owner: a flush borrows another request's tag. The
 * slots of controllers that the filter leaves out begin at ND_NO_SLOT: there are none. */
#pragma once

#include "rows.bpf.h"

/* Orders what is before it with what is after it (docs/dev/accuracy.md). x86 keeps the order of
 * stores, and of loads. On arm64 an atomic operation that returns a value orders all, from 5.18 on;
 * builds without ND_FENCE have none, because 5.10 refuses a program that contains one. */
#if defined(__TARGET_ARCH_arm64) && defined(ND_FENCE)
enum bpf_func_id___fence { BPF_FUNC_copy_from_user_task___fence = 191 }; /* 5.18, too */

static __always_inline void fence(void)
{
	u64 word = 0, before;

	asm volatile("" : "+m"(word)::"memory");
	if (bpf_core_enum_value_exists(enum bpf_func_id___fence,
				       BPF_FUNC_copy_from_user_task___fence)) {
		before = __sync_fetch_and_add(&word, 1);
		asm volatile("" ::"r"(before) : "memory");
	}
}
#else
#define fence() asm volatile("" ::: "memory")
#endif

/* Generation of the cached places. It changes with every admin command (see where()), when a queue
 * has another owner than before, and when user space moves a controller's slots. */
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

/* Whether slots from here on belong to a controller that the filter leaves out. */
static __always_inline u32 is_left_out(u32 first)
{
	return first >= ND_NO_SLOT;
}

static __always_inline int wanted_ctrl(u32 instance)
{
	struct nd_ctrl *ctrl = bpf_map_lookup_elem(&ctrls, &instance);

	return !ctrl || !is_left_out(ctrl->base);
}

#define ND_LEFT_OUT 2

static __always_inline struct nd_slot *slot_at(u32 index)
{
	return bpf_map_lookup_elem(&slots, &index);
}

static __always_inline struct nd_queue *queue_entry(struct request_queue *q, enum nd_access access)
{
	u32 id = GET(access, q, id);

	return bpf_map_lookup_elem(&queues, &id);
}

static __always_inline u32 hctx_number(struct request *rq, enum nd_access access)
{
	struct blk_mq_hw_ctx *hctx = GET(access, rq, mq_hctx);

	return GET(access, hctx, queue_num);
}

static __always_inline u64 nvmeq_of(struct request *rq, enum nd_access access)
{
	struct blk_mq_hw_ctx *hctx = GET(access, rq, mq_hctx);

	return (u64)GET(access, hctx, driver_data);
}

/* REQ_OP_DRV_IN: this operation and the next, the last, are the driver's own and passthrough. */
#define ND_OP_MASK   0xff
#define ND_OP_DRV_IN 34

static __always_inline int is_passthrough(struct request *rq, enum nd_access access)
{
	return (GET(access, rq, cmd_flags) & ND_OP_MASK) >= ND_OP_DRV_IN;
}

/* Identifies a use of a request: almost always different in the next use. */
static __always_inline u32 mark_of(struct request *rq, enum nd_access access)
{
	u64 bio = (u64)GET(access, rq, bio);

	FORGET(bio); /* no pointer any more: it can be shifted */
	return (bio >> 6) + GET(access, rq, __sector);
}

/* Whether bios are followed with their submitters. */
#define FOLLOWS_SUBMITTERS (cfg_waits && cfg_who & ND_WHO_SUBMITTER)

#define HAS_MARKS (cfg_setup_skips || FOLLOWS_SUBMITTERS)

/* Whether its queue has no namespace: an admin queue, or connect_q of fabrics. */
static __always_inline int is_admin(struct request *rq)
{
	struct request_queue *q;

	if ((rq->cmd_flags & ND_OP_MASK) < ND_OP_DRV_IN)
		return 0;
	q = drop_trust(rq)->q;
	return !q->queuedata;
}

static __always_inline u32 spread_of(struct request_queue *q, enum nd_access access)
{
	return GET(access, q, id) & 3;
}

/* For ACCESS_PROBE_READ nothing is cached: each read needs a helper. */
static __always_inline void remember(struct nd_place *p, struct request *rq, u32 first, u32 tags,
				     u32 age, enum nd_access access)
{
	p->first = first;
	p->tags = tags;
	p->age = age;
	p->spread = spread_of(GET(access, rq, q), access);
	p->hctx = access == ACCESS_BTF ? (u64)rq->mq_hctx : 0;
}

/* `index`, or the request's slot before its controller gained queues in a reset, and moved. */
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

/* NULL: the queue is not followed, or out of range. */
static __always_inline struct nd_queue *known_queue(struct request *rq, struct request_queue *q,
						    u32 *qid, u32 *first, enum nd_access access)
{
	struct nd_queue *e;

	if (!q)
		return 0;
	fence();
	e = queue_entry(q, access);
	if (!e || e->q != (u64)q || !e->queues)
		return 0;
	*qid = hctx_number(rq, access) + e->io;
	*first = first_slot(e->base, e->stride, *qid);
	return *qid < e->queues ? e : 0;
}

/* The slot of a request's tag, or NULL. Caches the place of an I/O queue in `p`. */
static __always_inline struct nd_slot *slot_by_queue(struct request *rq, struct nd_place *p,
						     enum nd_access access)
{
	u32 qid, tag = GET(access, rq, tag), age = places_age, first, index;
	struct nd_queue *e = known_queue(rq, GET(access, rq, q), &qid, &first, access);

	if (!e)
		return 0;
	if (p && e->io)
		remember(p, rq, first, e->stride, age, access);
	index = tag_slot(first, e->stride, tag);
	if (e->former_queues)
		index = index_before_move(index, e, rq, qid, tag);
	return slot_at(index);
}

static __noinline struct nd_slot *slot_slowly(struct request *rq, struct nd_place *p)
{
	return slot_by_queue(drop_trust(rq), p, ACCESS_BTF);
}

/* The slot of this request, or NULL, usually from the cache. `followed`: whether the tag has a
 * slot; ND_LEFT_OUT: the filter leaves the controller out. */
static __always_inline struct nd_slot *slot_near(struct request *rq, struct nd_cpu *cpu, u32 at,
						 int *followed, enum nd_access access)
{
	struct nd_place *p = 0;
	struct nd_slot *s;
	u64 hctx;

	*followed = 1;
	if (access == ACCESS_BTF && cpu) {
		hctx = (u64)rq->mq_hctx;
		p = &cpu->place[at][place_number(hctx)];
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
	s = access == ACCESS_BTF ? slot_slowly(rq, p) : slot_by_queue(rq, 0, access);
	*followed = !!s;
	return s && s->rq == (u64)rq ? s : 0;
}

static __always_inline struct nd_slot *slot_of(struct request *rq, struct nd_cpu *cpu, u32 at,
					       enum nd_access access)
{
	int followed;

	return slot_near(rq, cpu, at, &followed, access);
}

/* The entry for the start of a request: by its driver tag, or its scheduler tag. Those are per
 * namespace, so `spread` separates these. If two requests still collide, one loses its start. */
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

/* Idle CPUs submit, too (soft interrupts): their numbers are above PID_MAX_LIMIT (2^22). */
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

/* Returns 12 for the name `nvme12`, and -1 for another kind of name. */
static __always_inline int number_in(u64 name)
{
	char text[16] __attribute__((aligned(8))) = {};
	int number = 0;

	if (bpf_probe_read_kernel_str(text, sizeof(text), (void *)name) < 6 ||
	    !is_nvme_name(*(u64 *)text))
		return -1;
	for (int i = 4; i < 8; i++) {
		if (!text[i])
			break;
		if (text[i] < '0' || text[i] > '9')
			return -1;
		number = number * 10 + text[i] - '0';
	}
	return number;
}

/* The controller of a queue, without the driver's types: in sysfs its disk is below it. The admin
 * queue has no disk, but a tag set of this owner: known once an I/O queue was observed. */
static __noinline int instance_by_name(struct request_queue *q)
{
	struct blk_mq_tag_set *set = BPF_CORE_READ(q, tag_set);
	u64 owner = (u64)BPF_CORE_READ(set, driver_data);
	struct kobject *disk;
	u32 *known, instance;
	int number;

	if (!owner)
		return -1;
	if (!BPF_CORE_READ(q, queuedata)) {
		known = bpf_map_lookup_elem(&owners, &owner);
		return known ? *known : -1;
	}
	if (bpf_core_field_exists(q->kobj))
		disk = BPF_CORE_READ(q, kobj.parent);
	else
		disk = BPF_CORE_READ(q, disk, queue_kobj.parent);
	number = number_in((u64)BPF_CORE_READ(disk, parent, name));
	if (number >= 0) {
		instance = number;
		known = bpf_map_lookup_elem(&owners, &owner);
		if (!known || *known != instance)
			bpf_map_update_elem(&owners, &owner, &instance, BPF_ANY);
	}
	return number;
}

/* A setup whose queue is not cached always reads it: addresses and ids of queues are used again. */
static __always_inline struct nd_ctrl *ctrl_of(struct request *rq, struct request_queue *q,
					       u32 *instance, u64 *address, enum nd_access access)
{
	int number;
	u64 ctrl;

	if (access != ACCESS_BTF && cfg_by_name) {
		number = instance_by_name(q);
		if (number < 0)
			return 0;
		*instance = number;
		*address = 0;
		return bpf_map_lookup_elem(&ctrls, instance);
	}
	ctrl = FIELD_AT(pdu_of(rq), struct nvme_request, ctrl);
	if (!ctrl)
		return 0;
	*address = ctrl;
	*instance = FIELD_AT(ctrl, struct nvme_ctrl, instance);
	return bpf_map_lookup_elem(&ctrls, instance);
}

/* Whether types from a file fit: the controller owns the tags, and its device has its number. */
static __noinline int fits(struct request_queue *q, u64 ctrl, u32 instance)
{
	u64 set = (u64)BPF_CORE_READ(q, tag_set);
	struct device *device;

	if (!set || (set != FIELD_AT(ctrl, struct nvme_ctrl, tagset) &&
		     set != FIELD_AT(ctrl, struct nvme_ctrl, admin_tagset)))
		return 0;
	device = (void *)FIELD_AT(ctrl, struct nvme_ctrl, device);
	return number_in((u64)BPF_CORE_READ(device, kobj.name)) == (int)instance;
}

/* A namespace's queue is for I/O, and so is connect_q of fabrics, which shares their tag set. */
static __always_inline u32 is_io(struct request_queue *q, u64 ctrl, enum nd_access access)
{
	u64 tags;

	if (GET(access, q, queuedata))
		return 1;
	if (!ctrl)
		return 0; /* no driver types */
	tags = (u64)GET(access, q, tag_set);
	return tags == FIELD_AT(ctrl, struct nvme_ctrl, tagset);
}

/* Results of learn_queue(). 0: the id is beyond the table, or the queue contradicts the types. */
#define QUEUE_WAS_KNOWN	  1
#define QUEUE_WAS_ANOTHER 2

static __always_inline int learn_queue(struct request_queue *q, struct nd_ctrl *ctrl, u64 address,
				       u32 instance, u32 io, enum nd_access access)
{
	struct nd_queue *e = queue_entry(q, access);

	if (!e)
		return 0;
	if (e->q == (u64)q && e->base == ctrl->base && e->stride == ctrl->stride &&
	    e->queues == ctrl->queues && e->io == io)
		return QUEUE_WAS_KNOWN;
	if (access != ACCESS_BTF && cfg_check_fit && !fits(q, address, instance)) {
		count(ND_MISFIT);
		return 0;
	}
	forget_places();
	if (e->q == (u64)q && e->io == io) {
		e->former_base = e->base;
		e->former_stride = e->stride;
		e->former_queues = e->queues;
	} else {
		e->former_queues = 0;
	}
	e->q = 0; /* never a pointer with another queue's numbers */
	e->base = ctrl->base;
	e->stride = ctrl->stride;
	e->queues = ctrl->queues;
	e->io = io;
	e->q = (u64)q;
	return QUEUE_WAS_ANOTHER;
}

static __always_inline int is_nvme_disk(struct request *rq, struct request_queue *q,
					enum nd_access access)
{
	struct gendisk *d;

	if (bpf_core_field_exists(q->disk))
		d = GET(access, q, disk);
	else
		d = GET(access, rq, rq_disk);
	return d && is_nvme_name(FIELD_AT((u64)d, struct gendisk, disk_name));
}

/* Caches an I/O queue in `w`, an admin queue in `admin`. NULL: the command cannot be followed. */
static __always_inline struct nd_where *where_by_queue(struct request *rq, struct nd_where *w,
						       struct nd_where *admin,
						       enum nd_access access)
{
	struct request_queue *q = GET(access, rq, q);
	u32 age = places_age, qid = 0, instance, io;
	struct nd_ctrl *ctrl;
	struct nd_start *st;
	u64 address;
	int known;

	if (!q)
		return 0;
	fence();
	if (!GET(access, q, queuedata))
		forget_places(); /* see where() */
	ctrl = ctrl_of(rq, q, &instance, &address, access);
	if (!ctrl || !ctrl->stride)
		return 0;
	io = is_io(q, address, access);
	if (io)
		qid = hctx_number(rq, access) + 1;
	if (qid >= ctrl->queues)
		return 0;
	known = learn_queue(q, ctrl, address, instance, io, access);
	if (!known)
		return 0;
	if (!qid)
		w = admin;
	/* `w` caches an old queue. Hooks that do not check the controller may cache it too. */
	else if (access == ACCESS_BTF && w->place.hctx == (u64)rq->mq_hctx && w->place.age == age &&
		 w->ctrl != address)
		forget_places();
	remember(&w->place, rq, first_slot(ctrl->base, ctrl->stride, qid), ctrl->stride, age,
		 access);
	w->ctrl = address;
	if (cfg_exit_skips || cfg_context)
		w->nvmeq = nvmeq_of(rq, access);
	w->key = key_of(instance, 0, 0, !qid);
	w->qid = qid;
	w->points = ctrl->points;
	if (cfg_start_hook && known == QUEUE_WAS_ANOTHER) {
		/* The start was stored under the old queue. The entry here is outdated. */
		st = start_entry(GET(access, rq, internal_tag), GET(access, rq, tag),
				 w->place.first, w->place.tags, w->place.spread);
		if (st)
			st->rq = 0;
	}
	return w;
}

static __noinline struct nd_where *where_slowly(struct request *rq, struct nd_where *w,
						struct nd_where *admin)
{
	return where_by_queue(drop_trust(rq), w, admin, ACCESS_BTF);
}

/* The same, usually from the cache. Addresses are used again, but no controller, namespace or queue
 * appears without admin commands (at least Identify), and each of these invalidates the cache. */
static __always_inline struct nd_where *where(struct request *rq, struct nd_cpu *cpu)
{
	u64 hctx = (u64)rq->mq_hctx;
	struct nd_where *w = &cpu->where[place_number(hctx)];

	ONE_REGISTER(w);
	if (is_of(&w->place, hctx) && !is_admin(rq))
		return w;
	return where_slowly(rq, w, &cpu->admin);
}
