/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The timer of a CPU. If it fires late, something kept the CPU from it. */
#ifndef ND_TICK_H
#define ND_TICK_H

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

#endif
