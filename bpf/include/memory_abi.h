/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What bpf/memory.bpf.c shares with src/session/kernel_memory.rs. */
#ifndef ND_MEMORY_ABI_H
#define ND_MEMORY_ABI_H

enum nd_memory_limit {
	ND_MEMORY_WINDOW = 4096, /* bytes per run */
};

#endif
