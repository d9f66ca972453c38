/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the load generator tells the plugin, from inside the guest: an instruction that does nothing
 * but be seen when it is translated. `nopl disp32(%rax,%rax,1)` has room for a number that no
 * compiler ever pads with.
 */
#ifndef ND_BENCH_MARK_H
#define ND_BENCH_MARK_H

#define MARK_OPCODE "\x0f\x1f\x84\x00" /* what precedes the number */
#define MARK_BEGIN  0x6e640001	       /* counting begins */
#define MARK_END    0x6e640002	       /* counting ends, and the counts are written */

#define mark(number) asm volatile("nopl %c0(%%rax,%%rax,1)" : : "i"(number) : "memory")

#endif
