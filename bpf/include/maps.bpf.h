/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* All maps. User space sets the sizes that depend on the machine before the load. */
#pragma once

#include "abi.h"
#include "kernel.bpf.h"

const volatile struct nd_config config SEC(".rodata.config") = {};

/* The settings by name: cfg_mode is config.mode, or a constant where a build fixes it
 * (src/session/build_table.rs). Those with targ_, tp_ or test_ have no other prefix. */
#include "settings.h"

#define ARRAY_MAP(name, value, n) MAP(name, ARRAY, u32, value, n)

/* Values begin at a page, so they share no cache line with struct bpf_array, nor with each other if
 * their size is a multiple of a line. */
#define PAGED_MAP(name, value)                                                                     \
	struct {                                                                                   \
		__uint(type, BPF_MAP_TYPE_ARRAY);                                                  \
		__uint(map_flags, BPF_F_MMAPABLE);                                                 \
		__uint(max_entries, 1);                                                            \
		__uint(key_size, sizeof(u32));                                                     \
		__uint(value_size, sizeof(value));                                                 \
	} name SEC(".maps")

/* Free numbers. */
#define FREE_MAP(name)                                                                             \
	struct {                                                                                   \
		__uint(type, BPF_MAP_TYPE_QUEUE);                                                  \
		__uint(max_entries, 1);                                                            \
		__uint(value_size, sizeof(u32));                                                   \
	} name SEC(".maps")

PAGED_MAP(slots, struct nd_slot);
PAGED_MAP(starts, struct nd_start);
PAGED_MAP(cells, struct nd_cell);
PAGED_MAP(cpus, struct nd_cpu);
ARRAY_MAP(ctrls, struct nd_ctrl, ND_MAX_CTRLS);
ARRAY_MAP(queues, struct nd_queue, ND_MAX_QUEUE_IDS);
ARRAY_MAP(row_cache, u64, ND_ROW_CACHE);
ARRAY_MAP(scratches, struct nd_scratch, 1);
ARRAY_MAP(failures, struct nd_failures, 1); /* by controller */
ARRAY_MAP(queue_counts, u64, 1);	    /* see points.bpf.h */
ARRAY_MAP(slow_bar, u64, 1);		    /* see points.bpf.h */
/* The initial value of a new sum. */
ARRAY_MAP(empty, struct nd_stack_sum, 1);

/* Distinct stacks by a hash of their frames, and the latencies of the commands of each. */
MAP(stacks, HASH, u64, struct nd_stack, 1);
MAP(stack_sums, HASH, u64, struct nd_stack_sum, 1);

/* key -> row number. The hash decides which CPU adds a row; the queue holds the free rows. */
MAP(rows, HASH, u64, u32, 1);
FREE_MAP(free_rows);

/* Commands without a row, by row key with ND_NO_ANY. */
MAP(rowless, HASH, u64, struct nd_rowless, ND_MAX_ROWLESS);

/* Rings by CPU / ND_RING_CPUS: each has one spinlock. User space makes them; some may be one. */
struct event_ring {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(u32));
	__array(values, struct event_ring);
} rings SEC(".maps");

/* Without nvme types: controller number by driver_data of a tag set, from queues with a disk. */
MAP(owners, HASH, u64, u32, ND_MAX_CTRLS);

static __always_inline struct nd_cpu *this_cpu(void)
{
	u32 cpu = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&cpus, &cpu);
}

/* The kernel guards programs with typed arguments against themselves (trampolines since 5.12,
 * tracepoints since 6.1): these need no atomics. */
static __always_inline void tally(struct nd_cpu *cpu, u32 hook, enum nd_access access)
{
	if (cpu && access == ACCESS_BTF && !cfg_nests)
		cpu->hits[hook]++;
	else if (cpu)
		__sync_fetch_and_add(&cpu->hits[hook], 1);
}

static __always_inline void hit(u32 hook, enum nd_access access)
{
	tally(this_cpu(), hook, access);
}

/* Tests only: whether to ignore this event. */
static __always_inline int ignored(u32 hook)
{
	u32 every = test_ignore_every;
	struct nd_cpu *cpu;

	if (!every || !(test_ignore[hook / 64] >> hook % 64 & 1))
		return 0;
	cpu = this_cpu();
	/* Not atomic: before 5.12 an atomic operation cannot return the value. */
	return cpu && cpu->offered[hook]++ % every == every - 1;
}

/* For counters of several programs: an interrupt may come between load and store. */
static __always_inline void count_here(struct nd_cpu *cpu, u32 what)
{
	__sync_fetch_and_add(&cpu->count[what], 1);
}

static __always_inline void count_n(u32 what, u32 n)
{
	struct nd_cpu *cpu = this_cpu();

	if (cpu)
		__sync_fetch_and_add(&cpu->count[what], n);
}

static __always_inline void count(u32 what)
{
	count_n(what, 1);
}
