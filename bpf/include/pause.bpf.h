/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The waits of a task that is about to get a request (--stages=full): for a tag, in wbt, and before
 * 5.14 for a frozen queue. The functions do not have the bio. The task has no other request in
 * between: its next one is the one that waited.
 */
#ifndef ND_PAUSE_H
#define ND_PAUSE_H

/* By task. Not a map: see `tasks` in slots.bpf.h. */
static struct nd_pause pauses[ND_PAUSES] SEC(".bss.waits");

static __always_inline struct nd_pause *pause_of(u32 tid)
{
	return &pauses[tid & (ND_PAUSES - 1)];
}

/* What the task waited for before was not for its next bio. */
static __always_inline void forget_pause(void)
{
	u32 tid = this_task();
	struct nd_pause *p = pause_of(tid);

	if (p->tid == tid)
		p->tid = 0;
}

/* The pause of this task, empty if it was that of another. */
static __always_inline struct nd_pause *own_pause(void)
{
	u32 tid = this_task();
	struct nd_pause *p = pause_of(tid);

	if (p->tid != tid)
		*p = (struct nd_pause){.tid = tid};
	return p;
}

/* Before 5.14 the task enters the queue with each bio, and the bio is no argument. If the queue is
 * frozen after the test, the wait is in `block`. */
static __always_inline int on_enter_in(u64 q, u32 hook)
{
	if (!(u32)peek(q + bpf_core_field_offset(struct request_queue, mq_freeze_depth), TYPED) ||
	    ignored(hook))
		return 0;
	hit(hook, TYPED);
	own_pause()->freeze_begin_ns = bpf_ktime_get_ns();
	return 0;
}

static __always_inline int on_enter_out(u32 hook)
{
	u32 tid = this_task();
	struct nd_pause *p = pause_of(tid);

	if (p->tid != tid || !p->freeze_begin_ns || ignored(hook))
		return 0;
	hit(hook, TYPED);
	p->freeze_ns += bpf_ktime_get_ns() - p->freeze_begin_ns;
	p->freeze_begin_ns = 0;
	return 0;
}

static __always_inline int on_wbt_in(u32 hook)
{
	if (ignored(hook))
		return 0;
	hit(hook, TYPED);
	own_pause()->wbt_begin_ns = bpf_ktime_get_ns();
	return 0;
}

static __always_inline int on_wbt_out(u32 hook)
{
	struct nd_pause *p = own_pause();

	if (!p->wbt_begin_ns || ignored(hook))
		return 0;
	hit(hook, TYPED);
	p->wbt_ns += bpf_ktime_get_ns() - p->wbt_begin_ns;
	p->wbt_begin_ns = 0;
	return 0;
}

#define BLK_MQ_REQ_NOWAIT 1

/* No tag is free. A request that may not wait fails. */
static __always_inline int may_not_wait(u64 data)
{
	u64 at = data + bpf_core_field_offset(struct blk_mq_alloc_data, flags);

	return (u32)peek(at, TYPED) & BLK_MQ_REQ_NOWAIT;
}

/* The task waits for a tag, for the first time or again. */
static __always_inline int on_tag_wait(u32 hook)
{
	struct nd_pause *p;

	if (ignored(hook))
		return 0;
	hit(hook, TYPED);
	p = own_pause();
	if (!p->tag_ns)
		p->tag_ns = bpf_ktime_get_ns();
	return 0;
}

/* Takes the waits of the task that gets a request. Returns 0 if one has no end. */
static __always_inline int take_pause(struct nd_waits *w, u64 start)
{
	u32 tid = this_task();
	struct nd_pause *p = pause_of(tid);

	w->wbt_ns = 0;
	w->tag_ns = 0;
	if (p->tid != tid)
		return 1;
	p->tid = 0;
	if (cfg_wait_points & ND_WAIT_FREEZE)
		w->freeze_ns += p->freeze_ns;
	if (cfg_wait_points & ND_WAIT_WBT)
		w->wbt_ns = p->wbt_ns;
	if (cfg_wait_points & ND_WAIT_TAG && p->tag_ns)
		w->tag_ns = start - p->tag_ns;
	return !p->wbt_begin_ns && !p->freeze_begin_ns;
}

#endif
