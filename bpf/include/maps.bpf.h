/* SPDX-License-Identifier: GPL-2.0 */
/*
 * All maps. User space sets the sizes that depend on the machine (max_entries, the value size of
 * slots and cells) before the load; the numbers here are placeholders.
 */
#ifndef ND_MAPS_H
#define ND_MAPS_H

#define ARRAY_MAP(name, vtype, n)                                                                  \
	struct {                                                                                   \
		__uint(type, BPF_MAP_TYPE_ARRAY);                                                  \
		__uint(max_entries, n);                                                            \
		__uint(key_size, sizeof(u32));                                                     \
		__uint(value_size, sizeof(vtype));                                                 \
	} name SEC(".maps")

ARRAY_MAP(slots, struct nd_slot, 1);
ARRAY_MAP(starts, struct nd_start, 1);
ARRAY_MAP(cells, struct nd_cell, 1);
ARRAY_MAP(cpus, struct nd_cpu, 1);
ARRAY_MAP(ctrls, struct nd_ctrl, ND_MAX_CTRLS);
ARRAY_MAP(queues, struct nd_queue, ND_MAX_QUEUE_IDS);
ARRAY_MAP(tasks, struct nd_task, ND_TASKS);
ARRAY_MAP(row_cache, u64, ND_ROW_CACHE);

/* key -> row number. The hash decides who adds a row; the queue holds the rows that are free. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(u64));
	__uint(value_size, sizeof(u32));
} rows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, 1);
	__uint(value_size, sizeof(u32));
} free_rows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} ring SEC(".maps");

static __always_inline struct nd_cpu *this_cpu(void)
{
	u32 cpu = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&cpus, &cpu);
}

/* First thing in every hook. One program can't nest on its own CPU, so no atomics. */
static __always_inline struct nd_cpu *hit(u32 hook)
{
	struct nd_cpu *cpu = this_cpu();

	if (cpu)
		cpu->hits[hook]++;
	return cpu;
}

/* For counters that several programs add to: an interrupt may come between load and store. */
static __always_inline void count(u32 what)
{
	struct nd_cpu *cpu = this_cpu();

	if (cpu)
		__sync_fetch_and_add(&cpu->count[what], 1);
}

#endif
