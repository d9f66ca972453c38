/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The stages before the request (--stages=full), at the end of a command. They are divided thus:
 *
 *   submission      block_bio_queue                                     request
 *       |-- throttle --|-- block --|- freeze -|- zone -|- iocost -|- wbt -|- tag -|
 *
 * The waits are measured one by one, and `block` is the rest. So the parts add up to the whole. In
 * time lines `block` comes first, although some of it lies between the waits.
 */
#ifndef ND_WAITS_H
#define ND_WAITS_H

/* Behind the histograms of the fine stages and of the total. Waits of no length are not added: most
 * commands have none, and user space adds them (src/abi). */
enum nd_before {
	BEFORE_SUBMIT = ND_STAGES_FINE,
	BEFORE_BIO,
	BEFORE_FREEZE,
	BEFORE_ZONE,
	BEFORE_IOCOST,
	BEFORE_WBT,
	BEFORE_TAG,
};

/* The waits of a slot's command. Without single commands they are where these would be. */
static __always_inline struct nd_waits *waits_in(struct nd_slot *s)
{
	return cfg_trace ? &s->waits : (struct nd_waits *)&s->submission;
}

/* If the command has the points before the request: sets ND_SAW_BIO in the slot, and returns it. */
static __always_inline u32 seen_before(struct nd_slot *s, u32 saw)
{
	if (!cfg_waits || !(saw & ND_SAW_START) || waits_in(s)->start_ns != s->start_ns)
		return 0;
	s->saw |= ND_SAW_BIO;
	return ND_SAW_BIO;
}

/* In nd_waits.freeze_ns: the wait was for a zone. */
#define ND_FOR_ZONE (1ULL << 63)

/* The wait for a frozen queue, or for a zone. */
static __always_inline u64 to_enter(struct nd_waits *w)
{
	return w->freeze_ns & ~ND_FOR_ZONE;
}

/* The stage of to_enter(). */
static __always_inline u32 entering(struct nd_waits *w)
{
	return w->freeze_ns & ND_FOR_ZONE ? BEFORE_ZONE : BEFORE_FREEZE;
}

static __always_inline void wait_add(struct nd_hist *h, u64 ns, int atomic)
{
	if (ns)
		hist_add(h, ns, atomic);
}

/* Adds the stages before the request, which began at `first`. Returns where the command begins. */
static __always_inline u64 stages_before(struct nd_cell *c, struct nd_slot *s, u64 first, u32 saw,
					 int atomic)
{
	struct nd_waits *w = waits_in(s);
	u64 rest;

	if (!cfg_waits || !(saw & ND_SAW_BIO))
		return first;
	rest = first - w->bio_ns - to_enter(w) - w->iocost_ns - w->wbt_ns - w->tag_ns;
	hist_add(&c->hist[BEFORE_BIO], rest, atomic);
	wait_add(&c->hist[BEFORE_SUBMIT], w->bio_ns - w->submit_ns, atomic);
	wait_add(&c->hist[entering(w)], to_enter(w), atomic);
	wait_add(&c->hist[BEFORE_IOCOST], w->iocost_ns, atomic);
	wait_add(&c->hist[BEFORE_WBT], w->wbt_ns, atomic);
	wait_add(&c->hist[BEFORE_TAG], w->tag_ns, atomic);
	return w->submit_ns;
}

static __always_inline void partial_wait(u32 row, u32 stage, u64 ns)
{
	if (ns)
		add_interval(row, stage, ns);
}

/* The same for a command that was observed in part: an attempt that is retried has no end. */
static __always_inline u64 partial_before(u32 row, struct nd_slot *s, u64 first)
{
	struct nd_waits *w = waits_in(s);
	u64 rest;

	if (!cfg_waits || !(*(volatile u16 *)&s->saw & ND_SAW_BIO))
		return first;
	rest = first - w->bio_ns - to_enter(w) - w->iocost_ns - w->wbt_ns - w->tag_ns;
	add_interval(row, BEFORE_BIO, rest);
	partial_wait(row, BEFORE_SUBMIT, w->bio_ns - w->submit_ns);
	partial_wait(row, entering(w), to_enter(w));
	partial_wait(row, BEFORE_IOCOST, w->iocost_ns);
	partial_wait(row, BEFORE_WBT, w->wbt_ns);
	partial_wait(row, BEFORE_TAG, w->tag_ns);
	return w->submit_ns;
}

static __always_inline void early_times_of(struct nd_early_times *t, struct nd_slot *s)
{
	struct nd_waits *w = waits_in(s);

	t->submit_ns = w->submit_ns;
	t->bio_ns = w->bio_ns;
	t->tag_ns = s->start_ns - w->tag_ns;
	t->wbt_ns = t->tag_ns - w->wbt_ns;
	t->iocost_ns = t->wbt_ns - w->iocost_ns;
	t->freeze_ns = t->iocost_ns - to_enter(w);
	t->zone_ns = w->freeze_ns & ND_FOR_ZONE ? t->freeze_ns : t->iocost_ns;
	t->bios = w->also;
}

#endif
