// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* USDT probes of a process: each hit becomes a record with its arguments. */
#include <stdbool.h> /* for usdt.bpf.h */
#include "host_abi.h"
#include "kernel.bpf.h"
#include <bpf/usdt.bpf.h>

/* The process that is traced. User space sets it. */
const volatile struct {
	u32 tgid;
} usdt_config = {.tgid = 1};

MAP(usdt_counts, PERCPU_ARRAY, u32, u64, ND_USDT_COUNTS);
RING(usdt_events, ND_USDT_RING);

static __always_inline void count(u32 what)
{
	u64 *n = bpf_map_lookup_elem(&usdt_counts, &what);

	if (n)
		__sync_fetch_and_add(n, 1);
}

/* Reads the arguments. A probe with fewer gives zeros, a text that cannot be read is empty. */
static __always_inline void fill(struct pt_regs *ctx, struct nd_usdt *hit, u64 cookie, int all)
{
	u32 texts = 0, arg;
	char *text;

	hit->at_ns = bpf_ktime_get_ns();
	hit->cookie = cookie;
#pragma unroll
	for (arg = 0; arg < ND_USDT_ARGS; arg++) {
		long value = 0;

		bpf_usdt_arg(ctx, arg, &value);
		hit->args[arg] = value;
		if (!all || !(cookie >> (ND_USDT_TEXT_SHIFT + arg) & 1) || texts >= ND_USDT_TEXTS)
			continue;
		text = hit->texts + texts++ * ND_USDT_TEXT;
		if (bpf_probe_read_user_str(text, ND_USDT_TEXT, (void *)value) < 0)
			*text = 0;
	}
}

SEC("?usdt")
int usdt_hit(struct pt_regs *ctx)
{
	struct nd_usdt *hit;
	u64 cookie;

	if (bpf_get_current_pid_tgid() >> 32 != usdt_config.tgid)
		return 0;
	count(ND_USDT_HITS);
	cookie = bpf_usdt_cookie(ctx);
	if (cookie >> ND_USDT_TEXT_SHIFT) {
		hit = bpf_ringbuf_reserve(&usdt_events, sizeof(*hit), 0);
		if (hit)
			fill(ctx, hit, cookie, 1);
	} else {
		hit = bpf_ringbuf_reserve(&usdt_events, __builtin_offsetof(struct nd_usdt, texts),
					  0);
		if (hit)
			fill(ctx, hit, cookie, 0);
	}
	if (hit)
		bpf_ringbuf_submit(hit, BPF_RB_NO_WAKEUP);
	else
		count(ND_USDT_LOST);
	return 0;
}
