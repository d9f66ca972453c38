/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The keys of rows, and commands without a row. */
#ifndef ND_ROWS_ABI_H
#define ND_ROWS_ABI_H

/* Row key, 52 bits: valid | ctrl 8 | nsid 23 | opcode 8 | admin 1 | size class 2 | pattern 9. The
 * cache stores it with the 12-bit row number in one word, so that a read cannot tear. */
enum nd_key {
	ND_KEY_PATTERN_SHIFT = 0,
	ND_KEY_PATTERN_BITS = 9,
	ND_KEY_CLASS_SHIFT = 9,
	ND_KEY_ADMIN_SHIFT = 11,
	ND_KEY_OPCODE_SHIFT = 12,
	ND_KEY_NSID_SHIFT = 20,
	ND_KEY_NSID_MASK = 0x7fffff,
	ND_KEY_CTRL_SHIFT = 43,
	ND_KEY_VALID_SHIFT = 51,
	ND_ROW_BITS = 12,
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
