/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* From a row key to its cell: by a word of the slot, else by a direct-mapped cache, else by a hash.
 * Each group of CPUs, usually of one, has a cell for each row. */
#ifndef ND_ROWS_H /* tests/parity has rows of its own */
#define ND_ROWS_H

#include "hist.bpf.h"
#include "maps.bpf.h"

static __always_inline u64 key_of_command(u64 nsid, u64 opcode)
{
	if (nsid >= ND_KEY_NSID_MASK)
		nsid = ND_KEY_NSID_MASK;
	return nsid << ND_KEY_NSID_SHIFT | opcode << ND_KEY_OPCODE_SHIFT;
}

static __always_inline u64 key_of(u32 ctrl, u32 nsid, u32 opcode, u32 admin)
{
	return ND_KEY_VALID | (u64)ctrl << ND_KEY_CTRL_SHIFT | admin << ND_KEY_ADMIN_SHIFT |
	       key_of_command(nsid, opcode);
}

/* Keeps the row of the slot if the previous key was the same. */
static __always_inline void keep_key(struct nd_slot *s, u64 key)
{
	if (s->key >> (ND_ROW_BITS + ND_KEY_PATTERN_BITS) != key >> ND_KEY_PATTERN_BITS)
		s->key = (key & ~ND_KEY_VALID) << ND_ROW_BITS;
}

#define ND_PATTERN ((1ull << ND_KEY_PATTERN_BITS) - 1)

static __always_inline u64 kept_key(struct nd_slot *s)
{
	return ((s->key >> ND_ROW_BITS) & ~ND_PATTERN) | ND_KEY_VALID;
}

/* I/O commands with a number of blocks in CDW12. */
static __always_inline int says_blocks(u32 admin, u32 opcode)
{
	return !admin && (opcode == 0x01 || opcode == 0x02 || opcode == 0x04 || opcode == 0x05 ||
			  opcode == 0x08 || opcode == 0x0c || opcode == 0x7d);
}

static __always_inline u32 class_of(u32 bytes)
{
	if (bytes <= 16 << 10)
		return ND_CLASS_SMALL;
	return bytes <= 64 << 10 ? ND_CLASS_MID : ND_CLASS_LARGE;
}

/* Whether a pattern of points may take the free row number `next`. Rows are taken in order and
 * never freed: the last ones are for commands of other kinds. */
static __always_inline int may_have_row(u32 saw, u32 next)
{
	if (next < cfg_rows - cfg_rows / 8)
		return 1;
	if (next < cfg_rows - cfg_rows / 16)
		return (saw & ~ND_SAW_BIO) == ND_SAW_ALL || !(saw & ~ND_SAW_BASIC);
	return !saw;
}

/* Not static, as others for rare cases: the verifier verifies it once, not at each call. */
__noinline int row_slow(u64 key)
{
	u32 *found = bpf_map_lookup_elem(&rows, &key);
	u32 row;

	if (found)
		return *found;
	if (bpf_map_peek_elem(&free_rows, &row) || !may_have_row(key & ND_PATTERN, row))
		return -1;
	if (bpf_map_pop_elem(&free_rows, &row))
		return -1;
	if (bpf_map_update_elem(&rows, &key, &row, BPF_NOEXIST) == 0)
		return row;
	/* Another CPU was first. */
	bpf_map_push_elem(&free_rows, &row, BPF_ANY);
	found = bpf_map_lookup_elem(&rows, &key);
	return found ? *found : -1;
}

static __always_inline u64 word_of(u64 key, u32 row)
{
	return key << ND_ROW_BITS | (row & (ND_MAX_ROWS - 1));
}

/* The word of a row; 0: no free row. */
static __always_inline u64 row_word(u64 key)
{
	u32 at = (key * 0x9e3779b97f4a7c15ull) >> 54; /* ten bits: ND_ROW_CACHE */
	u64 *word = bpf_map_lookup_elem(&row_cache, &at);
	int row;

	if (!word)
		return 0;
	if ((*word >> ND_ROW_BITS) == key)
		return *word;
	row = row_slow(key);
	if (row < 0)
		return 0;
	return *word = word_of(key, row);
}

/* The word of a row with only the basic points of `key`, or none; 0: no row. A command without a
 * setup or completion has no total: see count_rowless(). */
__noinline u64 word_with_fewer(u64 key)
{
	int row;

	if (key & ND_NO_ANY)
		return 0;
	key &= ~(ND_PATTERN & ~ND_SAW_BASIC);
	row = row_slow(key);
	if (row < 0) {
		key &= ~ND_PATTERN;
		row = row_slow(key);
	}
	return row < 0 ? 0 : word_of(key, row);
}

/* Counts a command for which no row is free, without its times. */
__noinline int count_rowless(u64 key, u32 bytes)
{
	struct nd_rowless none = {}, *sum;

	key |= ND_NO_ANY;
	bpf_map_update_elem(&rowless, &key, &none, BPF_NOEXIST);
	sum = bpf_map_lookup_elem(&rowless, &key);
	count(sum ? ND_FEWER_POINTS : ND_NO_ROW);
	if (!sum)
		return 0;
	__sync_fetch_and_add(&sum->commands, 1);
	__sync_fetch_and_add(&sum->bytes, bytes);
	return 0;
}

/* Usually the cell of the slot's previous command. (The topmost bit of the word is ND_KEY_VALID.)
 * Leaves out points in `saw` if few rows are left. */
static __always_inline struct nd_cell *cell_of(struct nd_slot *s, u32 *saw, struct nd_cpu *cpu)
{
	u64 word = s->key;
	u32 index;

	if ((s64)word >= 0 || ((word >> ND_ROW_BITS) & ND_PATTERN) != *saw) {
		u64 key = kept_key(s) | *saw;

		word = row_word(key);
		if (!word) {
			/* a total has no points to leave out */
			word = cfg_mode == ND_MODE_TOTAL ? 0 : word_with_fewer(key);
			if (!word)
				return 0;
			*saw = (word >> ND_ROW_BITS) & ND_PATTERN;
			count_here(cpu, ND_FEWER_POINTS);
		}
		s->key = word;
	}
	index = cpu->first_cell + (word & (ND_MAX_ROWS - 1));
	return bpf_map_lookup_elem(&cells, &index);
}

/* Adds to a stage of a row, for commands that were observed in part. Not static: see row_slow(). */
__noinline int add_interval(u32 row, u32 stage, u64 ns)
{
	struct nd_cpu *cpu = this_cpu();
	u32 index = (cpu ? cpu->first_cell : 0) + (row & (ND_MAX_ROWS - 1));
	struct nd_cell *c = bpf_map_lookup_elem(&cells, &index);

	if (!cpu || !c)
		return 0;
	if (cfg_mode == ND_MODE_FINE)
		BELOW(stage, ND_STAGES_FINE);
	else
		BELOW(stage, ND_STAGES_BASIC);
	if (cfg_mode == ND_MODE_TOTAL)
		stage = 0;
	hist_add(&c->hist[stage], ns, 1);
	return 0;
}

#endif
