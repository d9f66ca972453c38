/* SPDX-License-Identifier: GPL-2.0 */
/* Bucket rules. hist_index() mirrors src/hist.rs, lat_index() mirrors src/lat_buckets.rs. */
#ifndef ND_HIST_H
#define ND_HIST_H

/* floor(log2(v)), v > 0. BPF has no count-leading-zeros, so halve five times. */
static __always_inline u32 log2_u32(u32 v)
{
	u32 r, s;

	r = (v > 0xffff) << 4;
	v >>= r;
	s = (v > 0xff) << 3;
	v >>= s;
	r |= s;
	s = (v > 0xf) << 2;
	v >>= s;
	r |= s;
	s = (v > 3) << 1;
	v >>= s;
	r |= s;
	return r | v >> 1;
}

/*
 * Holds an index below a limit, out of clang's sight: what clang sees it moves and folds, and 6.1's
 * verifier then loses the bound.
 */
#ifdef __bpf__
#define BELOW(i, limit) asm volatile("if %0 < %1 goto +1\n\t%0 = %1 - 1" : "+r"(i) : "i"(limit))
#else
#define BELOW(i, limit) ((i) = (i) < (limit) ? (i) : (limit)-1)
#endif

/*
 * Where branches meet again the verifier goes on once for each, as long as it knows different
 * things of a number that matters later. This makes it forget what it knows; on a machine of this
 * byte order it is no instruction at all.
 */
#if !defined(__bpf__)
#define FORGET(x)
#elif __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define FORGET(x) asm volatile("%0 = le64 %0" : "+r"(x))
#else
#define FORGET(x) asm volatile("%0 = be64 %0" : "+r"(x))
#endif

/* floor(log2(n)) of the numbers that fit a byte; 0 of 0. */
#define ND_TWICE(x)	x, x
#define ND_TIMES_4(x)	ND_TWICE(x), ND_TWICE(x)
#define ND_TIMES_8(x)	ND_TIMES_4(x), ND_TIMES_4(x)
#define ND_TIMES_16(x)	ND_TIMES_8(x), ND_TIMES_8(x)
#define ND_TIMES_32(x)	ND_TIMES_16(x), ND_TIMES_16(x)
#define ND_TIMES_64(x)	ND_TIMES_32(x), ND_TIMES_32(x)
#define ND_TIMES_128(x) ND_TIMES_64(x), ND_TIMES_64(x)
static const u8 log2_of_byte[256] = {
	0,
	0,
	ND_TWICE(1),
	ND_TIMES_4(2),
	ND_TIMES_8(3),
	ND_TIMES_16(4),
	ND_TIMES_32(5),
	ND_TIMES_64(6),
	ND_TIMES_128(7),
};

/*
 * With x = v >> shift in 8..15 and the bucket's width 2^shift, (shift + 1) * 8 + (x - 8) is
 * shift * 8 + x; below 8 the shift is 0 and the same holds.
 *
 * A table of bytes has fewer instructions than five halvings, and, what is more, four ways through
 * instead of 32: the verifier follows each, in every histogram of every program.
 */
static __always_inline u64 hist_index(u64 v)
{
	u64 shift, top, i;

	if (v < 1ull << 16) {
		if (v < 1ull << ND_HIST_SUB_BITS)
			return v;
		shift = v < 1ull << 8 ? 0 : 8;
	} else {
		if (v >> (ND_HIST_MAX_EXP + 1))
			return ND_HIST_BUCKETS - 1;
		shift = v < 1ull << 24 ? 16 : v < 1ull << 32 ? 24 : 32;
	}
	top = v >> shift;
	shift += log2_of_byte[top & 0xff] - ND_HIST_SUB_BITS;
	i = (shift << ND_HIST_SUB_BITS) + (v >> shift);
	BELOW(i, ND_HIST_BUCKETS);
	return i;
}

static __always_inline u64 lat_index(u64 ns)
{
	u64 us = ns / 1000, d, s;

	if (us < cfg_lat_min_us)
		return ND_LAT_BELOW;
	d = (us - cfg_lat_min_us) >> (cfg_lat_shift & 63);
	if (d >> 32)
		s = ND_LAT_ABOVE;
	else
		s = d ? log2_u32(d) + 1 : 0;
	if (s >= ND_LAT_IN)
		s = ND_LAT_ABOVE;
	BELOW(s, ND_LAT_SLOTS);
	return s;
}

/*
 * Adds to a counter of this CPU's shard. With a shard per CPU only the usual program, on this CPU,
 * writes it. Shared shards, and the rare programs that the usual one may interrupt, need the
 * atomic.
 */
static __always_inline void add(u64 *to, u64 n, int atomic)
{
	if (atomic)
		__sync_fetch_and_add(to, n);
	else
		*to += n;
}

static __always_inline void hist_add(struct nd_hist *h, u64 ns, int atomic)
{
	u64 i = hist_index(ns);

	add(&h->sum_ns, ns, atomic);
	add(&h->bucket[i], 1, atomic);
	/* Without a compare-and-swap (5.12) two CPUs of one shard may lose the larger: user space
	 * never shows less than the lowest value of the highest bucket. */
	if (ns > h->max_ns)
		h->max_ns = ns;
}

#endif
