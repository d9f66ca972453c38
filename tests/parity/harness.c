// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Runs the bucket rules and the code that closes a command in an ordinary process. The headers of
 * bpf/include are compiled unchanged; the kernel's helpers are stubs. tests/parity.rs writes one
 * question per line to stdin and reads one answer per line from stdout.
 */
#include <linux/types.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#undef __always_inline
#define __always_inline inline __attribute__((always_inline))
#define __noinline
#define SEC(name)
#define __uint(name, val)	    int(*name)[val]
#define __array(name, val)	    val *(*name)[1]
#define BPF_CORE_READ(...)	    0
#define bpf_core_type_size(t)	    sizeof(t)
#define bpf_core_type_id_kernel(t)  0
#define bpf_core_field_offset(t, f) 0
#define bpf_core_field_exists(...)  0
#define ND_NO_KFUNC		    /* reads use the helper, a stub here */

enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY,
	BPF_MAP_TYPE_ARRAY_OF_MAPS = 12,
	BPF_MAP_TYPE_QUEUE = 22,
	BPF_MAP_TYPE_STACK = 23,
	BPF_MAP_TYPE_RINGBUF = 27
};

enum { BPF_ANY, BPF_NOEXIST, BPF_RB_NO_WAKEUP = 1 };
#define BPF_F_MMAPABLE		 0
#define bpf_map_delete_elem(...) 0
#define bpf_map_push_elem(...)	 0
#define bpf_map_pop_elem(...)	 -1

static void *bpf_map_lookup_elem(void *map, const void *key);
static void *bpf_ringbuf_reserve(void *ring, __u64 size, __u64 flags);
static void bpf_ringbuf_submit(void *record, __u64 flags);
static __u32 bpf_get_smp_processor_id(void);
static __u64 bpf_ktime_get_ns(void);
static long bpf_map_update_elem(void *map, const void *key, const void *value, __u64 flags);
static long bpf_get_stack(void *ctx, void *to, __u32 size, __u64 flags);
static __u32 bpf_get_prandom_u32(void);
static __u64 bpf_get_current_pid_tgid(void);
static int bpf_probe_read_kernel(void *to, __u32 size, const void *from);

#include "kernel.bpf.h"
#include "abi.h"
/* user space sets these before the load; here they change between questions */
#define const
#include "maps.bpf.h"
#undef const
#include "hist.bpf.h"

#define ND_ROWS_H    /* replaces rows.bpf.h: one cell, the last key that it was requested with, the \
			number of requests */
static struct nd_cell the_cell;
static u64 cell_key;
static int cell_calls;

static u64 kept_key(struct nd_slot *s)
{
	return s->key >> ND_ROW_BITS;
}

static struct nd_cell *cell_of(struct nd_slot *s, u32 *saw, struct nd_cpu *cpu)
{
	cell_key = kept_key(s) | *saw;
	cell_calls++;
	return &the_cell;
}

static int add_interval(u32 row, u32 stage, u64 ns)
{
	hist_add(&the_cell.hist[stage], ns, 1);
	return 0;
}

static int count_rowless(u64 key, u32 bytes)
{
	abort();
}

#include "stages.bpf.h"
#include "doorbell.bpf.h"

static struct nd_cpu the_cpu;
static char the_ring;
static struct nd_pair the_record;
static int records;
static u64 record_size;

static int bpf_probe_read_kernel(void *to, __u32 size, const void *from)
{
	abort();
}

static void *bpf_map_lookup_elem(void *map, const void *key)
{
	(void)key;
	if (map == &rings)
		return &the_ring;
	return map == &cpus ? &the_cpu : 0;
}

static void *bpf_ringbuf_reserve(void *r, __u64 size, __u64 flags)
{
	(void)flags;
	record_size = size;
	return r == &the_ring && size <= sizeof(the_record) ? &the_record : 0;
}

static void bpf_ringbuf_submit(void *record, __u64 flags)
{
	(void)flags;
	records += record == &the_record;
}

static __u32 bpf_get_smp_processor_id(void)
{
	return 0;
}

static __u64 bpf_ktime_get_ns(void)
{
	return ~0ull;
}

/* Stacks and submitters are not tested here. */
static long bpf_map_update_elem(void *map, const void *key, const void *value, __u64 flags)
{
	abort();
}

static long bpf_get_stack(void *ctx, void *to, __u32 size, __u64 flags)
{
	abort();
}

static __u32 bpf_get_prandom_u32(void)
{
	abort();
}

static __u64 bpf_get_current_pid_tgid(void)
{
	abort();
}

static u64 number(void)
{
	char *word = strtok(0, " \n"), *end;
	u64 n;

	if (!word)
		exit(3);
	n = strtoull(word, &end, 0);
	if (*end)
		exit(4);
	return n;
}

static void histogram(const struct nd_hist *h)
{
	u64 n = 0;
	int last = -1;

	for (int i = 0; i < ND_HIST_BUCKETS; i++) {
		n += h->bucket[i];
		if (h->bucket[i])
			last = i;
	}
	printf(" %llu %d %llu %llu", n, last, h->sum_ns, h->max_ns);
}

/* The waits of a command: its points before the request come from the question. */
static void waits_of(struct nd_slot *s, u32 mode)
{
	u64 t[7];

	for (int i = 0; i < 7; i++)
		t[i] = number();
	cfg_waits = mode == 3;
	cfg_wait_points = cfg_waits ? ND_WAIT_ALL : 0;
	if (!t[0]) {
		s->waits.start_ns = 0;
		return;
	}
	s->waits = (struct nd_waits){
		.start_ns = s->start_ns,
		.submit_ns = t[0],
		.bio_ns = t[1],
		.freeze_ns = t[3] > t[2] ? t[3] - t[2] : (t[4] - t[3]) | ND_FOR_ZONE,
		.iocost_ns = t[5] - t[4],
		.wbt_ns = t[6] - t[5],
		.tag_ns = s->start_ns - t[6],
	};
}

/* The longest --slow that shows a command. All bits: whatever --slow is, as its time is not known.
 */
static u64 longest_slow(struct nd_slot *s, u32 saw, u64 complete, u64 end)
{
	u64 longest = 0;

	for (int bit = 63; bit >= 0; bit--) {
		cfg_slow_ns = longest | 1ull << bit;
		if (!is_fast(s, saw, complete, end))
			longest = cfg_slow_ns;
	}
	cfg_slow_ns = 0;
	return longest;
}

/*
 * finish MODE BACK START SETUP_IN SETUP_OUT ISSUE DOORBELL IRQ CQE COMPLETE_SLOT COMPLETE END KEY
 * BYTES SUBMIT BIO FREEZE ZONE IOCOST WBT TAG: closes a command in a slot with these points.
 * COMPLETE_SLOT is the field of the slot, COMPLETE and END are the arguments. BACK: blk-mq takes
 * the request back. Without COMPLETE the completion was not observed, without SETUP_OUT the setup.
 * Answer: key, calls of cell_of, state, rq, bytes, unmeasured commands, the counters; samples, last
 * bucket in use, sum and maximum of every histogram; the number of records, the longest --slow that
 * shows the command, and the record.
 */
static void answer_finish(void)
{
	struct nd_slot s;
	u64 complete, end;
	u32 asked = number(), mode = asked == 3 ? ND_MODE_FINE : asked;
	int back = number();

	memset(&the_cell, 0, sizeof(the_cell));
	memset(&the_cpu, 0, sizeof(the_cpu));
	memset(&the_record, 0xa5, sizeof(the_record));
	cell_calls = records = 0;
	cell_key = 0;
	cfg_mode = mode;
	cfg_trace = ND_TRACE_COMMANDS;

	memset(&s, 0xa5, sizeof(s)); /* old content must not matter */
	s.rq = 0xffff888000000000;
	s.state = mode == ND_MODE_FINE ? ND_COMPLETED : ND_OPEN;
	s.tid = 4711;
	s.start_ns = number();
	s.setup_in_ns = number();
	s.setup_out_ns = number();
	s.issue_ns = number();
	s.doorbell_ns = number();
	s.irq_ns = number();
	s.cqe_ns = number();
	s.complete_ns = number();
	complete = number();
	end = number();
	s.key = number() << ND_ROW_BITS;
	s.bytes = number();
	s.submission.known = 0; /* the setup sets it */
	waits_of(&s, asked);
	if (mode != ND_MODE_FINE) /* the slot has no fine part then */
		memset(&s.setup_in_ns, 0x5a,
		       sizeof(s) - __builtin_offsetof(struct nd_slot, setup_in_ns));

	cfg_recover = 1;
	if (complete && !back) {
		finish(&s, &the_cpu, complete, end);
	} else {
		end_slot(&s);
		finish_partial(&s, &the_cpu, complete, end);
	}

	printf("%llu %d %u %llu %llu %llu", cell_key, cell_calls, s.state, s.rq, the_cell.bytes,
	       the_cell.unmeasured);
	for (int i = 0; i < ND_COUNT_MAX; i++)
		printf(" %llu", the_cpu.count[i]);
	for (int i = 0; i < ND_STAGES_FULL; i++)
		histogram(&the_cell.hist[i]);
	if (complete && complete < s.setup_out_ns)
		complete = s.setup_out_ns;
	printf(" %d %llu ", records, longest_slow(&s, the_record.end.event.pattern, complete, end));
	for (size_t i = 0; i < record_size; i++)
		printf("%02x", ((unsigned char *)&the_record)[i]);
	puts("");
}

/* pack CTRL NSID OPCODE ADMIN CLASS PATTERN */
static void answer_pack(void)
{
	u64 ctrl = number(), nsid = number(), opcode = number(), admin = number(), size = number();

	printf("%llu\n", ND_KEY_VALID | ctrl << ND_KEY_CTRL_SHIFT | nsid << ND_KEY_NSID_SHIFT |
				 opcode << ND_KEY_OPCODE_SHIFT | admin << ND_KEY_ADMIN_SHIFT |
				 size << ND_KEY_CLASS_SHIFT | number() << ND_KEY_PATTERN_SHIFT);
}

/* announce OLD N DEPTH FROM TO */
static void answer_announce(void)
{
	u32 old = number(), n = number(), depth = number(), from = number();

	printf("%u\n", announced_how(old, n, depth, from, number()));
}

int main(void)
{
	static char line[1024];

	while (fgets(line, sizeof(line), stdin)) {
		char *what = strtok(line, " \n");

		if (!what)
			return 2;
		if (!strcmp(what, "hist")) {
			printf("%u\n", hist_index(number()));
		} else if (!strcmp(what, "finish")) {
			answer_finish();
		} else if (!strcmp(what, "pack")) {
			answer_pack();
		} else if (!strcmp(what, "announce")) {
			answer_announce();
		} else {
			return 2;
		}
	}
	return 0;
}
