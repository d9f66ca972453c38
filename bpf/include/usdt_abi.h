/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What bpf/usdt.bpf.c shares with src/session/host/usdt.rs. */
#ifndef ND_USDT_ABI_H
#define ND_USDT_ABI_H

enum nd_usdt_limit {
	ND_USDT_ARGS = 6,		/* arguments of a probe that are read */
	ND_USDT_TEXTS = 3,		/* those of them that are texts */
	ND_USDT_TEXT = 224,		/* bytes of a text, with its end */
	ND_USDT_RING = 8 * 1024 * 1024, /* bytes of the ring */
};

/* The cookie of a probe: its number, and a bit for each argument that is a text. */
enum nd_usdt_cookie {
	ND_USDT_PROBE = 0xffff,
	ND_USDT_TEXT_SHIFT = 16,
};

/* Counters. */
enum nd_usdt_count {
	ND_USDT_HITS,
	ND_USDT_LOST,
	ND_USDT_COUNTS,
};

/* A hit. Without texts a record ends before them. */
struct nd_usdt {
	__u64 at_ns;
	__u64 cookie;
	__u64 args[ND_USDT_ARGS];
	char texts[ND_USDT_TEXTS][ND_USDT_TEXT];
};

#endif
