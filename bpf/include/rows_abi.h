/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The keys of rows, and commands without a row. */
#ifndef ND_ROWS_ABI_H
#define ND_ROWS_ABI_H

/* Row key, 52 bits: valid | ctrl 8 | nsid 23 | opcode 8 | admin 1 | size class 2 | pattern 9. The
 * cache stores it with the 12-bit row number in one word, so that a read cannot tear. */
#define ND_KEY_PATTERN_SHIFT 0
#define ND_KEY_PATTERN_BITS  9
#define ND_KEY_CLASS_SHIFT   9
#define ND_KEY_ADMIN_SHIFT   11
#define ND_KEY_OPCODE_SHIFT  12
#define ND_KEY_NSID_SHIFT    20
#define ND_KEY_NSID_MASK     0x7fffffu
#define ND_KEY_CTRL_SHIFT    43
#define ND_KEY_VALID	     (1ull << 51)
#define ND_ROW_BITS	     12
#define ND_MAX_ROWS	     (1u << ND_ROW_BITS)

#define ND_CLASS_NONE  0
#define ND_CLASS_SMALL 1 /* <= 16 KiB */
#define ND_CLASS_MID   2 /* (16 KiB, 64 KiB] */
#define ND_CLASS_LARGE 3 /* > 64 KiB */

/* Commands of a kind (a row key without points) that found no free row: counted without times. */
struct nd_rowless {
	__u64 commands;
	__u64 bytes;
};

#define ND_MAX_ROWLESS 1024

#endif
