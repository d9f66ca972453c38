/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ND_BESIDE_H
#define ND_BESIDE_H

/* What was observed beside the points, with cfg_context. src/model/conditions.rs has the same bits.
 */
enum nd_beside {
	ND_BESIDE_IRQ = 1 << 0,	 /* the interrupt was observed */
	ND_BESIDE_IDLE = 1 << 1, /* and interrupted the idle task */
	ND_BESIDE_KNOWS_SOFTIRQ = 1 << 2,
	ND_BESIDE_SOFTIRQ = 1 << 3, /* the CPU was in a soft interrupt */
	ND_BESIDE_RUNG = 1 << 4,    /* announced by a write to the doorbell register */
	ND_BESIDE_ELIDED = 1 << 5,  /* announced by the shadow doorbell only */
};

#endif
