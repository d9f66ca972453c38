/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the machine does besides the commands, with conditions: waits for tags, splits, bounce
 * buffers, IOMMU mappings, gaps. The programs of these count only; they have no part in a command.
 */
#ifndef ND_ACTIVITY_H
#define ND_ACTIVITY_H

#include "tick.bpf.h"

ARRAY_MAP(activities, struct nd_activity, 1);
ARRAY_MAP(waits, struct nd_wait, ND_TASKS);

/* The task queues a bio, of any disk: on_getrq() looks at the disk. Its request follows, after a
 * wait for a tag if need be, unless the bio is merged. */
static __always_inline int on_bio(u32 hook)
{
	u32 tid = this_task(), at = tid & (ND_TASKS - 1);
	struct nd_wait *w = bpf_map_lookup_elem(&waits, &at);

	if (!w || ignored(hook))
		return 0;
	hit(hook, TYPED);
	w->tid = tid;
	w->ns = bpf_ktime_get_ns();
	return 0;
}

/* The task has got the request for a bio. Only the first request of a bio that is split counts: the
 * task submits it before it asks for the next one. */
static __always_inline int on_getrq(u64 bio, u32 hook)
{
	u32 tid = this_task(), at = tid & (ND_TASKS - 1);
	struct nd_wait *w = bpf_map_lookup_elem(&waits, &at);
	u64 now = bpf_ktime_get_ns(), waited;

	if (!w || w->tid != tid || !w->ns || ignored(hook))
		return 0;
	waited = now - w->ns;
	w->ns = 0;
	if (count_wait(bio, waited))
		hit(hook, TYPED);
	return 0;
}

static __always_inline int on_split(u64 bio, u32 hook)
{
	struct nd_disk *disk = disk_of(bio);

	if (!disk || ignored(hook))
		return 0;
	hit(hook, TYPED);
	disk->splits++;
	return 0;
}

static __always_inline struct nd_activity *activity_here(void)
{
	u32 cpu = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&activities, &cpu);
}

/* An interrupt may map, too. */
static __always_inline void add_volume(struct nd_volume *v, u64 bytes)
{
	__sync_fetch_and_add(&v->count, 1);
	__sync_fetch_and_add(&v->bytes, bytes);
}

static __always_inline int on_bounce(u64 bytes, u32 hook)
{
	struct nd_activity *a = activity_here();

	if (!a || ignored(hook))
		return 0;
	hit(hook, TYPED);
	add_volume(&a->bounced, bytes);
	return 0;
}

static __always_inline int on_map(u64 bytes, u32 hook)
{
	struct nd_activity *a = activity_here();

	if (!a || ignored(hook))
		return 0;
	hit(hook, TYPED);
	add_volume(&a->mapped, bytes);
	return 0;
}

static __always_inline int on_unmap(u64 bytes, u32 hook)
{
	struct nd_activity *a = activity_here();

	if (!a || ignored(hook))
		return 0;
	hit(hook, TYPED);
	add_volume(&a->unmapped, bytes);
	return 0;
}

static __always_inline int on_tick(void *ctx)
{
	struct nd_activity *a = activity_here();

	if (a)
		on_tick_of(a, ctx);
	return 0;
}

#endif
