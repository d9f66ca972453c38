/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The buckets of histograms. src/model/histogram.rs has the same rule. */
#pragma once

#include "abi.h"
#include "kernel.bpf.h"

/* Limits an index to `limit` - 1, in assembly. Clang moves and folds a check that it can see, and
 * the verifier of 6.1 then loses the bound. */
#ifdef __bpf__
#define BELOW(i, limit) asm volatile("if %0 < %1 goto +1\n\t%0 = %1 - 1" : "+r"(i) : "i"(limit))
#else
#define BELOW(i, limit) ((i) = (i) < (limit) ? (i) : (limit)-1)
#endif

/* Makes the verifier forget the bounds of a number, or it would follow each of the branches that
 * join. Conversion to the own byte order costs no instruction. A pointer becomes a number. */
#ifdef __bpf__
#define FORGET(x) asm volatile("%0 = le64 %0" : "+r"(x))
#else
#define FORGET(x)
#endif

/* Makes clang compute this address (not NULL) once, instead of one address per field. */
#define ONE_REGISTER(p)                                                                            \
	do {                                                                                       \
		asm volatile("" : "+r"(p));                                                        \
		if (!(p))                                                                          \
			__builtin_unreachable();                                                   \
	} while (0)

/* Hides from clang why a pointer is NULL. Clang would test the reason again where the caller tests
 * the pointer, and the verifier does not know that both tests agree. */
#define HIDE(p) asm volatile("" : "+r"(p))

/* Buckets of the numbers below 2^ND_WINDOW: eight per power of two. */
#define ND_WINDOW 11
#define ND_OCTAVE(times, i)                                                                        \
	times(i), times(i + 1), times(i + 2), times(i + 3), times(i + 4), times(i + 5),            \
		times(i + 6), times(i + 7)
#define ND_ONCE(x)	x
#define ND_TWICE(x)	x, x
#define ND_TIMES_4(x)	ND_TWICE(x), ND_TWICE(x)
#define ND_TIMES_8(x)	ND_TIMES_4(x), ND_TIMES_4(x)
#define ND_TIMES_16(x)	ND_TIMES_8(x), ND_TIMES_8(x)
#define ND_TIMES_32(x)	ND_TIMES_16(x), ND_TIMES_16(x)
#define ND_TIMES_64(x)	ND_TIMES_32(x), ND_TIMES_32(x)
#define ND_TIMES_128(x) ND_TIMES_64(x), ND_TIMES_64(x)
static const u8 bucket_of[1 << ND_WINDOW] = {
	ND_OCTAVE(ND_ONCE, 0),	    ND_OCTAVE(ND_ONCE, 8),	ND_OCTAVE(ND_TWICE, 16),
	ND_OCTAVE(ND_TIMES_4, 24),  ND_OCTAVE(ND_TIMES_8, 32),	ND_OCTAVE(ND_TIMES_16, 40),
	ND_OCTAVE(ND_TIMES_32, 48), ND_OCTAVE(ND_TIMES_64, 56), ND_OCTAVE(ND_TIMES_128, 64),
};

/* Halving a number lowers its bucket by eight, as long as eight are left. So the table serves all
 * numbers, shifted by whole bytes: fewer instructions and paths than a search for the top bit. */
static __always_inline u64 hist_index(u64 v)
{
	u64 i;

	if (v < 1ull << (ND_WINDOW + 8)) {
		if (v < 1ull << ND_WINDOW)
			i = bucket_of[v];
		else
			i = bucket_of[v >> 8] + 8 * 8;
	} else if (v < 1ull << (ND_WINDOW + 16)) {
		i = bucket_of[v >> 16] + 16 * 8;
	} else if (v < 1ull << (ND_WINDOW + 24)) {
		i = bucket_of[v >> 24] + 24 * 8;
	} else if (v >> (ND_HIST_MAX_EXP + 1)) {
		return ND_HIST_BUCKETS - 1;
	} else {
		i = bucket_of[(v >> 32) & 0xf] + 32 * 8;
	}
	return i;
}

/* `atomic`: for cells that CPUs share, and for rare programs that the usual one may interrupt. */
static __always_inline void add(u64 *to, u64 n, int atomic)
{
	if (atomic)
		__sync_fetch_and_add(to, n);
	else
		*to += n;
}

static __always_inline void hist_put(struct nd_hist *h, u64 i, u64 ns, int atomic)
{
	add(&h->sum_ns, ns, atomic);
	add(&h->bucket[i], 1, atomic);
	/* Without a compare-and-swap (5.12), two CPUs of one cell may lose the larger value: user
	 * space shows no less than the highest bucket has, and marks it (`~`). */
	if (ns > h->max_ns)
		h->max_ns = ns;
}

static __always_inline void hist_add(struct nd_hist *h, u64 ns, int atomic)
{
	u64 i = hist_index(ns);

	BELOW(i, ND_HIST_BUCKETS);
	hist_put(h, i, ns, atomic);
}

/* For a histogram that is not the last of its cell. The verifier takes a byte of the table for any
 * number below 256, and so the largest index for 511: still in the next histogram of the cell. */
static __always_inline void hist_add_inner(struct nd_hist *h, u64 ns)
{
	hist_put(h, hist_index(ns), ns, 0);
}

_Static_assert(255 + 32 * 8 < ND_HIST_BUCKETS + sizeof(struct nd_hist) / 8, "in the next one");
