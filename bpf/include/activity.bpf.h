/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the machine does besides the commands, with conditions. These programs only count. */
#pragma once

#include "bio.bpf.h"

/* struct bpf_perf_event_value: what the kernel has measured of a perf event. */
struct nd_measured {
	u64 count;
	u64 enabled_ns;
	u64 running_ns;
};

/* Whether this timer is younger than the last tick: a CPU that goes offline loses its timer, and
 * user space gives it a new one. */
static __always_inline int is_new_timer(void *ctx, u64 since_tick_ns)
{
	struct nd_measured m;

	return !bpf_perf_prog_read_value(ctx, (void *)&m, sizeof(m)) &&
	       m.enabled_ns < since_tick_ns;
}

/* If the timer of a CPU fires late, something kept the CPU from it. */
static __always_inline void on_tick_of(struct nd_activity *a, void *ctx)
{
	u64 now = bpf_ktime_get_ns(), last = a->tick_ns, due;
	struct nd_gap *gap;

	a->tick_ns = now;
	if (last && now - last <= ND_GAP_NS)
		return;
	if (!last || is_new_timer(ctx, now - last)) {
		a->timed_ns = now;
		return;
	}
	due = last + ND_TICK_NS;
	gap = &a->gap[a->gaps % ND_GAPS];
	gap->begin_ns = due;
	gap->end_ns = now;
	a->gap_ns += now - due;
	/* After the gap: user space reads the number first. */
	*(volatile u64 *)&a->gaps += 1;
}

ARRAY_MAP(activities, struct nd_activity, 1);
ARRAY_MAP(waits, struct nd_wait, ND_TASKS);

/* The task queues a bio, of any disk: on_getrq() looks at the disk. Its request follows, after a
 * wait for a tag if need be, unless the bio is merged. */
static __always_inline int on_bio(u32 hook)
{
	u32 tid = this_task(), at = tid & (ND_TASKS - 1);
	struct nd_wait *w = bpf_map_lookup_elem(&waits, &at);

	if (!w || !hit(hook, ACCESS_BTF))
		return 0;
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

	if (!bio || !w || w->tid != tid || !w->ns || ignored(hook))
		return 0;
	waited = now - w->ns;
	w->ns = 0;
	if (count_time(disk_of(bio, 0), waited))
		tally(this_cpu(), hook, ACCESS_BTF);
	return 0;
}

static __always_inline int on_split(u64 bio, u32 hook)
{
	struct nd_disk *disk = disk_of(bio, 0);

	if (!disk || !hit(hook, ACCESS_BTF))
		return 0;
	disk->splits++;
	return 0;
}

static __always_inline struct nd_activity *activity_here(void)
{
	u32 cpu = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&activities, &cpu);
}

/* Counts interrupts of the driver that found no CQE: it returns IRQ_NONE. Some do on any busy
 * queue, if an earlier interrupt has reaped the CQE. */
static __always_inline void note_interrupt(int handled)
{
	struct nd_activity *a;

	if (!cfg_context || handled)
		return;
	a = activity_here();
	if (a)
		a->early_interrupts++;
}

/* Counts bounced, mapped or unmapped memory. Interrupts do this, too. */
static __always_inline int on_volume(u64 bytes, u32 hook)
{
	struct nd_activity *a = activity_here();
	struct nd_volume *v;

	if (!a || !hit(hook, ACCESS_BTF))
		return 0;
	v = hook == ND_HOOK_BOUNCE_BTF ? &a->bounced
	    : hook == ND_HOOK_MAP_BTF  ? &a->mapped
				       : &a->unmapped;
	__sync_fetch_and_add(&v->count, 1);
	__sync_fetch_and_add(&v->bytes, bytes);
	return 0;
}

static __always_inline int on_tick(void *ctx)
{
	struct nd_activity *a = activity_here();

	if (a)
		on_tick_of(a, ctx);
	return 0;
}
