/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The order of this CPU's accesses, as other CPUs see it: docs/dev/memory-order.md. */
#ifndef ND_FENCE_H
#define ND_FENCE_H

/*
 * Orders what is before it with what is after it. x86 keeps the order of stores and that of loads.
 * On arm64 an atomic operation that returns a value orders all, from 5.18 on. The builds without
 * ND_LOOP have no such instruction, because 5.10 refuses a program that contains one.
 */
#if defined(__TARGET_ARCH_arm64) && defined(ND_LOOP)
enum bpf_func_id___fence { BPF_FUNC_copy_from_user_task___fence = 191 }; /* 5.18, too */

static __always_inline void fence(void)
{
	u64 word = 0, before;

	asm volatile("" : "+m"(word)::"memory");
	if (bpf_core_enum_value_exists(enum bpf_func_id___fence,
				       BPF_FUNC_copy_from_user_task___fence)) {
		before = __sync_fetch_and_add(&word, 1);
		asm volatile("" ::"r"(before) : "memory");
	}
}
#else
#define fence() asm volatile("" ::: "memory")
#endif

#endif
