/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The times of points in the slot of a command: cleared at its set-up, copied to its event. */
#ifndef ND_TIMES_H
#define ND_TIMES_H

/* Clears those that the run uses. The set-up itself sets start_ns and setup_out_ns. */
static __always_inline void clear_times(struct nd_slot *s, u32 mode)
{
	if (mode != ND_MODE_TOTAL) {
		s->doorbell_ns = 0;
		s->cqe_ns = 0;
	} else if (cfg_setup_skips) {
		s->cqe_ns = 0;
	}
	if (mode == ND_MODE_FINE) {
		s->setup_in_ns = 0;
		s->issue_ns = 0;
		s->irq_ns = 0;
		s->complete_ns = 0;
	}
}

static __always_inline void times_of(struct nd_times *t, struct nd_slot *s, u64 end)
{
	t->start_ns = s->start_ns;
	t->doorbell_ns = s->doorbell_ns;
	t->cqe_ns = s->cqe_ns;
	t->end_ns = end;
	if (cfg_mode == ND_MODE_FINE) {
		t->setup_in_ns = s->setup_in_ns;
		t->issue_ns = s->issue_ns;
		t->irq_ns = s->irq_ns;
	} else {
		t->setup_in_ns = 0;
		t->issue_ns = 0;
		t->irq_ns = 0;
	}
}

#endif
