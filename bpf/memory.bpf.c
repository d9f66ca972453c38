// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Reads kernel memory for `inflight` and the preemption mode. User space runs it by
 * BPF_PROG_TEST_RUN. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "abi.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, ND_MEMORY_WINDOW);
} window SEC(".maps");

/* Arguments: address, number of bytes. Returns 0 if all are read. */
SEC("raw_tp")
int read_memory(struct bpf_raw_tracepoint_args *ctx)
{
	__u64 at = ctx->args[0], bytes = ctx->args[1];
	__u32 zero = 0;
	void *to = bpf_map_lookup_elem(&window, &zero);

	if (!to || !bytes || bytes > ND_MEMORY_WINDOW)
		return 1;
	return bpf_probe_read_kernel(to, bytes, (void *)at) ? 1 : 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
