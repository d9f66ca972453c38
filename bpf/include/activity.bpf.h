/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the machine does besides the commands, with conditions. These programs only count. */
#pragma once

#include "bio.bpf.h"

/* Whether this timer is younger than the last tick: a CPU that was offline has a new one. */
static __always_inline int is_new_timer(void *ctx, u64 since_tick_ns)
{
	struct bpf_perf_event_value timer;

	return !bpf_perf_prog_read_value(ctx, &timer, sizeof(timer)) &&
	       timer.enabled < since_tick_ns;
}

ARRAY_MAP(activities, struct nd_activity, 1);

static __always_inline int on_split(u64 bio, u32 hook)
{
	struct nd_disk *disk = disk_of(bio, 0);

	if (!disk)
		return 0;
	hit(hook, ACCESS_BTF);
	disk->splits++;
	return 0;
}

static __always_inline struct nd_activity *activity_here(void)
{
	u32 cpu = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&activities, &cpu);
}

/* Counts interrupts that found no CQE (IRQ_NONE): on busy queues, an earlier one has reaped it. */
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

	if (!a)
		return 0;
	hit(hook, ACCESS_BTF);
	v = hook == ND_HOOK_BOUNCE_BTF ? &a->bounced
	    : hook == ND_HOOK_MAP_BTF  ? &a->mapped
				       : &a->unmapped;
	__sync_fetch_and_add(&v->count, 1);
	__sync_fetch_and_add(&v->bytes, bytes);
	return 0;
}

/* If the timer of a CPU fires late, something kept the CPU from it. */
static __always_inline int on_tick(struct nd_activity *a, void *ctx)
{
	u64 now = bpf_ktime_get_ns(), last;
	struct nd_gap *gap;

	if (!a)
		return 0;
	last = a->tick_ns;
	a->tick_ns = now;
	if (last && now - last <= ND_GAP_NS)
		return 0;
	if (!last || is_new_timer(ctx, now - last)) {
		a->timed_ns = now;
		return 0;
	}
	gap = &a->gap[a->gaps % ND_GAPS];
	gap->begin_ns = last + ND_TICK_NS;
	gap->end_ns = now;
	a->gap_ns += now - gap->begin_ns;
	/* After the gap: user space reads the number first. */
	*(volatile u64 *)&a->gaps += 1;
	return 0;
}
