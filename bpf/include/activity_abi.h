/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The interface of the counters besides the commands: map values, limits. As in abi.h. */
#ifndef ND_ACTIVITY_ABI_H
#define ND_ACTIVITY_ABI_H

enum nd_activity_limit {
	ND_GAPS = 64,	      /* gaps that each CPU keeps */
	ND_TICK_NS = 1000000, /* period of the timer of a CPU */
	ND_GAP_NS = 3000000,  /* distance of two ticks above which there is a gap */
	ND_WAITED_NS = 20000, /* a wait for a tag above this counts as such */
	ND_MAX_DISKS = 256,
};

struct nd_gap {
	__u64 begin_ns; /* when the tick was due */
	__u64 end_ns;
};

struct nd_volume {
	__u64 count;
	__u64 bytes;
};

/* Of a CPU. The gap number n is in gap[n % ND_GAPS]. */
struct nd_activity {
	__u64 tick_ns;	/* the last */
	__u64 timed_ns; /* the first of this timer */
	__u64 gaps;
	__u64 gap_ns;
	struct nd_volume bounced;
	struct nd_volume mapped;
	struct nd_volume unmapped;
	struct nd_gap gap[ND_GAPS];
};

/* The last bio that a task has queued. */
struct nd_wait {
	__u64 ns; /* 0: it has its request */
	__u32 tid;
	__u32 _pad;
};

/* The begin of a disk's name: of every name of an NVMe disk all of it. */
struct nd_disk_name {
	__u64 word[2];
};

/* Of a disk, per CPU. */
struct nd_disk {
	__u64 requests;
	__u64 waited;
	__u64 sum_ns;
	__u64 max_ns;
	__u64 splits;
};

_Static_assert(sizeof(struct nd_activity) == 80 + 16 * ND_GAPS, "no padding");
_Static_assert(sizeof(struct nd_wait) == 16, "no padding");

#endif
