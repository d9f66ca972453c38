// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Reads kernel memory for `inflight` and the preemption mode, by BPF_PROG_TEST_RUN. */
#include "abi.h"
#include "kernel.bpf.h"

MAP(window, ARRAY, u32, char[ND_MEMORY_WINDOW], 1);

/* Arguments: address, number of bytes. Returns 0 if all are read. */
SEC("raw_tp")
int read_memory(struct bpf_raw_tracepoint_args *ctx)
{
	u64 at = ctx->args[0], bytes = ctx->args[1];
	u32 zero = 0;
	void *to = bpf_map_lookup_elem(&window, &zero);

	if (!to || !bytes || bytes > ND_MEMORY_WINDOW)
		return 1;
	return bpf_probe_read_kernel(to, bytes, (void *)at) ? 1 : 0;
}
