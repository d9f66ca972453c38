/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Marks that the load generator executes inside the guest for the plugin. A mark is an instruction
 * without effect, which the plugin finds when QEMU translates it. On x86,
 * `nopl disp32(%rax,%rax,1)`, it holds a number that no compiler uses for padding. On arm64,
 * `movz xzr`, it holds the lower half of the number.
 */
#ifndef ND_BENCH_MARK_H
#define ND_BENCH_MARK_H

#define MARK_OPCODE "\x0f\x1f\x84\x00" /* the bytes before the number */
#define MARK_BEGIN  0x6e640001	       /* counting begins */
#define MARK_END    0x6e640002	       /* counting ends; the plugin writes the counts */
/* The same for lines.c, whose load runs on all CPUs. */
#define MARK_LINES_BEGIN 0x6e640003
#define MARK_LINES_END	 0x6e640004

#define MARK_ARM64    0xd280001fu /* movz xzr, #0 */
#define MARK_AT_ARM64 5		  /* the place of its number, of 16 bits */

#ifdef __aarch64__
#define mark(number)                                                                               \
	asm volatile(".inst %c0"                                                                   \
		     :                                                                             \
		     : "i"(MARK_ARM64 | (number & 0xffffu) << MARK_AT_ARM64)                       \
		     : "memory")
#else
#define mark(number) asm volatile("nopl %c0(%%rax,%%rax,1)" : : "i"(number) : "memory")
#endif

#endif
