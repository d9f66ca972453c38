/* SPDX-License-Identifier: GPL-2.0 */
/* From a row key to its cell: one word of a direct-mapped cache, a hash only for what is new. */
#ifndef ND_ROWS_H
#define ND_ROWS_H

static __always_inline u64 key_of(u32 ctrl, u32 nsid, u32 opcode, u32 admin)
{
	if (nsid >= ND_KEY_NSID_MASK)
		nsid = ND_KEY_NSID_MASK;
	return ND_KEY_VALID | (u64)ctrl << ND_KEY_CTRL_SHIFT | (u64)nsid << ND_KEY_NSID_SHIFT |
	       opcode << ND_KEY_OPCODE_SHIFT | admin << ND_KEY_ADMIN_SHIFT;
}

/* I/O commands whose third dword holds a number of blocks. */
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

static __noinline int row_slow(u64 key)
{
	u32 *found = bpf_map_lookup_elem(&rows, &key);
	u32 row;

	if (found)
		return *found;
	if (bpf_map_pop_elem(&free_rows, &row))
		return -1;
	if (bpf_map_update_elem(&rows, &key, &row, BPF_NOEXIST) == 0)
		return row;
	/* another CPU was first */
	bpf_map_push_elem(&free_rows, &row, BPF_ANY);
	found = bpf_map_lookup_elem(&rows, &key);
	return found ? *found : -1;
}

static __always_inline struct nd_cell *cell_of(u64 key)
{
	u32 at = (key * 0x9e3779b97f4a7c15ull) >> 54; /* ten bits: ND_ROW_CACHE */
	u64 *word = bpf_map_lookup_elem(&row_cache, &at);
	u32 index;
	int row;

	if (!word)
		return 0;
	if ((*word >> ND_ROW_BITS) == key) {
		row = *word & (ND_MAX_ROWS - 1);
	} else {
		row = row_slow(key);
		if (row < 0)
			return 0;
		*word = key << ND_ROW_BITS | (row & (ND_MAX_ROWS - 1));
	}
	index = bpf_get_smp_processor_id();
	if (cfg_atomic)
		index %= cfg_shards;
	index = index * cfg_rows + row;
	return bpf_map_lookup_elem(&cells, &index);
}

#endif
