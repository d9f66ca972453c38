// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Compiles the headers of bpf/include for an ordinary process: the kernel's helpers are stubs, maps
 * are arrays.
 */
#include <linux/types.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef PREEMPTED /* runs before each read of kernel memory, and each lookup */
#define PREEMPTED() ((void)0)
#endif

#ifdef WITH_KFUNC /* reads use bpf_rdonly_cast() (since 6.2); else the helper */
#define __ksym
#define __weak
#define bpf_ksym_exists(name)	   1
#define bpf_core_type_id_kernel(t) 0
void *bpf_rdonly_cast(const void *at, __u32 type)
{
	PREEMPTED();
	return (void *)at;
}
#else
#define ND_NO_KFUNC
#endif
#undef __always_inline
#define __always_inline inline __attribute__((always_inline))
#define __noinline
#define SEC(name)
#define __uint(name, val)		   int(*name)[val]
#define __array(name, val)		   val *(*name)[1]
#define BPF_CORE_READ(p, ...)		   0
#define BPF_PROBE_READ(p, field)	   ((p)->field)
#define bpf_core_type_size(t)		   sizeof(t)
#define bpf_core_field_offset(type, field) offsetof(type, field)
#define bpf_core_field_exists(...)	   1
#define bpf_core_type_exists(...)	   1
#define bpf_core_enum_value(type, name)	   name
#define bpf_core_enum_value_exists(...)	   1
#define bpf_core_read(to, size, from)	   memcpy(to, from, size)

enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY,
	BPF_MAP_TYPE_PERCPU_HASH = 5,
	BPF_MAP_TYPE_CGROUP_ARRAY = 8,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_ARRAY_OF_MAPS = 12,
	BPF_MAP_TYPE_QUEUE = 22,
	BPF_MAP_TYPE_RINGBUF = 27
};
enum { BPF_ANY, BPF_NOEXIST, BPF_EXIST };
#define BPF_F_MMAPABLE	 0
#define BPF_RB_NO_WAKEUP 1

static void *bpf_map_lookup_elem(void *map, const void *key);
static __u64 task_address(void);
static __u64 now_ns, now_jiffies = 1;
static __u32 here; /* CPU */
static __u32 current_tid = 4711;

#ifdef OWN_BIOS /* the harness has these: the tables of bios */
static int is_bio_map(void *map);
static void *bio_entry(void *map, __u64 bio);
static long bpf_map_update_elem(void *map, const void *key, const void *value, int flags);
static long bpf_map_delete_elem(void *map, const void *key);
#endif

#ifndef OWN_ROWS /* else the harness has these, rows and cells */
#ifndef OWN_BIOS /* else it has this, and the submitters of bios */
#define bpf_map_update_elem(...) 0
#endif
#define bpf_map_push_elem(...)	      0
#define bpf_map_peek_elem(map, value) (*(value) = 0)
#define bpf_map_pop_elem(map, value)  (*(value) = 0)
#endif
#ifndef OWN_BIOS /* else it has this */
#define bpf_map_delete_elem(...) 0
#endif
#ifndef RECORDS
#define bpf_ringbuf_reserve(...) ((void *)0)
#define bpf_ringbuf_submit(...)	 ((void)0)
#endif
#define bpf_get_stack(...)		   0
#define bpf_get_prandom_u32()		   0
#define bpf_get_smp_processor_id()	   here
#define bpf_get_current_pid_tgid()	   ((__u64)current_tid << 32 | current_tid)
#define bpf_get_current_task()		   task_address()
#define bpf_get_current_comm(to, size)	   ((void)0)
#define bpf_current_task_under_cgroup(...) 0
#define bpf_get_current_cgroup_id()	   1
#define bpf_ktime_get_ns()		   (++now_ns)
#define bpf_jiffies64()			   now_jiffies
/* Where the helper fails there are zeroes. */
#define bpf_probe_read_kernel(to, size, f)                                                         \
	((__u64)(f)-4096 < 1ULL << 47 ? memcpy(to, f, size) : memset(to, 0, size))
#define bpf_probe_read_kernel_str(...) 0

#include "kernel.bpf.h"
static struct task_struct current_task;
static __u64 task_address(void)
{
	return (__u64)&current_task;
}
#include "abi.h"
#define const /* the settings */
#include "maps.bpf.h"
#undef const
#include "points.bpf.h"
#include "setup.bpf.h"

#define WORLD_CPUS 2
#ifndef WORLD_SLOTS
#define WORLD_SLOTS 1024
#endif

static struct nd_cpu cpu_map[WORLD_CPUS];
static struct nd_slot slot_map[WORLD_SLOTS];
static struct nd_start start_map[WORLD_SLOTS];
static struct nd_ctrl ctrl_map[ND_MAX_CTRLS];
static struct nd_queue queue_map[ND_MAX_QUEUE_IDS];
static u64 cache_map[ND_ROW_CACHE];
static struct nd_cell the_cell;
static int cells_asked;

#define ARRAY(map, memory)                                                                         \
	if (m == (void *)&(map))                                                                   \
	return i < sizeof(memory) / sizeof((memory)[0]) ? (void *)&(memory)[i] : 0

static void *bpf_map_lookup_elem(void *m, const void *key)
{
	u32 i = *(const u32 *)key;

	PREEMPTED();
#ifdef NEVER_FORGET
	places_age = 0;
#endif
	ARRAY(cpus, cpu_map);
	ARRAY(slots, slot_map);
	ARRAY(starts, start_map);
	ARRAY(ctrls, ctrl_map);
	ARRAY(queues, queue_map);
	ARRAY(row_cache, cache_map);
	if (m == (void *)&rings)
		return m;
#ifdef OWN_ROWS
	if (m == (void *)&rows)
		return row_of(*(const u64 *)key);
	if (m == (void *)&rowless)
		return rowless_of(*(const u64 *)key);
	if (m == (void *)&cells)
		return cell_at(i);
#endif
#ifdef OWN_BIOS
	if (is_bio_map(m))
		return bio_entry(m, *(const u64 *)key);
#endif
	if (m == (void *)&cells) {
		cells_asked++;
		return &the_cell;
	}
	return 0;
}

static u64 seed;

static u32 random_below(u32 n)
{
	u64 z = seed += 0x9e3779b97f4a7c15ull;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return (u32)((z ^ (z >> 31)) % n);
}
