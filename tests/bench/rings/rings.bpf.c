// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Fills rings. User space runs the program with the number of the ring as its argument. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#define RECORDS 256 /* of a run, as in rings.c */
#define BYTES	160 /* of a record */

struct ring {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
};

struct ring one SEC(".maps"), other SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 2);
	__uint(key_size, 4);
	__array(values, struct ring);
} rings SEC(".maps") = {.values = {&one, &other}};

/* Returns the nanoseconds that the run took; 0 if the ring is full. */
SEC("raw_tp")
int fill(struct bpf_raw_tracepoint_args *ctx)
{
	__u64 begin = bpf_ktime_get_ns(), *record;
	__u32 ring = ctx->args[0];
	void *to = bpf_map_lookup_elem(&rings, &ring);

	if (!to)
		return 0;
	for (int i = 0; i < RECORDS; i++) {
		record = bpf_ringbuf_reserve(to, BYTES, 0);
		if (!record)
			return 0;
		*record = begin;
		bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	}
	return bpf_ktime_get_ns() - begin;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
