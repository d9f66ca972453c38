/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The keys of rows, and commands without a row. */
#ifndef ND_ROWS_ABI_H
#define ND_ROWS_ABI_H

/* Row key, 54 bits: valid | ctrl 8 | nsid 23 | opcode 8 | admin 1 | size class 2 | pattern 11. The
 * cache stores it with the 10-bit row number in one word, so that a read cannot tear. The patterns
 * have 10 bits so far (enum nd_saw). */
enum nd_key {
	ND_KEY_PATTERN_SHIFT = 0,
	ND_KEY_PATTERN_BITS = 11,
	ND_KEY_CLASS_SHIFT = ND_KEY_PATTERN_BITS,
	ND_KEY_ADMIN_SHIFT = ND_KEY_CLASS_SHIFT + 2,
	ND_KEY_OPCODE_SHIFT = ND_KEY_ADMIN_SHIFT + 1,
	ND_KEY_NSID_SHIFT = ND_KEY_OPCODE_SHIFT + 8,
	ND_KEY_NSID_MASK = 0x7fffff,
	ND_KEY_CTRL_SHIFT = ND_KEY_NSID_SHIFT + 23,
	ND_KEY_VALID_SHIFT = ND_KEY_CTRL_SHIFT + 8,
	ND_ROW_BITS = 63 - ND_KEY_VALID_SHIFT,
	ND_MAX_ROWS = 1 << ND_ROW_BITS,
	ND_MAX_ROWLESS = 1024, /* kinds of commands without a row */
};

/* BTF has no enumerators of 64 bits before clang 15. */
#define ND_KEY_VALID (1ull << ND_KEY_VALID_SHIFT)

enum nd_class {
	ND_CLASS_NONE = 0,
	ND_CLASS_SMALL = 1, /* <= 16 KiB */
	ND_CLASS_MID = 2,   /* (16 KiB, 64 KiB] */
	ND_CLASS_LARGE = 3, /* > 64 KiB */
};

/* Commands of a kind (a row key without points) that found no free row: counted without times. */
struct nd_rowless {
	__u64 commands;
	__u64 bytes;
};

#endif
