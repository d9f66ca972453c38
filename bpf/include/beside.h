/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ND_BESIDE_H
#define ND_BESIDE_H

/* What was observed beside the points, with cfg_context. src/model/conditions.rs has the same bits.
 */
#define ND_BESIDE_IRQ		(1u << 0) /* the interrupt was observed */
#define ND_BESIDE_IDLE		(1u << 1) /* and interrupted the idle task */
#define ND_BESIDE_KNOWS_SOFTIRQ (1u << 2)
#define ND_BESIDE_SOFTIRQ	(1u << 3) /* the CPU was in a soft interrupt */
#define ND_BESIDE_RUNG		(1u << 4) /* announced by a write to the doorbell register */
#define ND_BESIDE_ELIDED	(1u << 5) /* announced by the shadow doorbell only */

#endif
