/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Whose a command is and where it goes, at its setup: usually as remembered. tests/places tries it.
 */
#ifndef ND_WHERE_H
#define ND_WHERE_H

/*
 * Whose command it is and where it goes, as the request and its queue tell. An I/O queue is put
 * down in `w` and remembered there, an admin queue in `admin`. NULL: it can't be followed.
 */
static __always_inline struct nd_where *where_by_queue(struct request *rq, struct nd_where *w,
						       struct nd_where *admin, int typed)
{
	struct request_queue *q = GET(typed, rq, q);
	u32 age = places_age, qid = 0, instance, io;
	struct nd_ctrl *ctrl;
	struct nd_start *st;
	u64 address;
	int known;

	if (!q)
		return 0;
	if (!GET(typed, q, queuedata))
		forget_places(); /* see where() */
	ctrl = ctrl_of(rq, q, &instance, &address, typed);
	if (!ctrl || !ctrl->stride)
		return 0;
	io = is_io(q, address, typed);
	if (io)
		qid = hctx_number(rq, typed) + 1;
	if (qid >= ctrl->queues)
		return 0;
	known = learn_queue(q, ctrl, address, instance, io, typed);
	if (!known)
		return 0;
	if (!qid)
		w = admin;
	/* the memory of an old queue; hooks that do not see the controller may have it, too */
	else if (typed && w->place.hctx == (u64)rq->mq_hctx && w->place.age == age &&
		 w->ctrl != address)
		forget_places();
	remember(&w->place, rq, q, first_slot(ctrl->base, ctrl->stride, qid), ctrl->stride, age,
		 typed);
	w->ctrl = address;
	w->key = key_of(instance, 0, 0, !qid);
	w->qid = qid;
	w->doorbell = ctrl->doorbell;
	if (cfg_start_hook && known == QUEUE_WAS_ANOTHER) {
		/* this one's start went to the other's place: what is here is of another life */
		st = start_entry(GET(typed, rq, internal_tag), GET(typed, rq, tag), w->place.first,
				 w->place.tags, w->place.spread);
		if (st)
			st->rq = 0;
	}
	return w;
}

static __noinline struct nd_where *where_slowly(struct request *rq, struct nd_where *w,
						struct nd_where *admin)
{
	return where_by_queue(drop_trust(rq), w, admin, TYPED);
}

/*
 * The same, usually by what the hook remembers. An address may come back for another queue, of
 * another controller or number, and a controller's for one of another number. But no controller,
 * namespace or queue comes to be without admin commands (Identify, at least); after each of these
 * everything is forgotten. Admin queues are never remembered.
 */
static __always_inline struct nd_where *where(struct request *rq, struct nd_cpu *cpu, int typed)
{
	u64 hctx = (u64)rq->mq_hctx;
	struct nd_where *w = &cpu->where[place_number(cpu, hctx)];

	if (is_of(&w->place, hctx) && !is_admin(rq))
		return w;
	return where_slowly(rq, w, &cpu->admin);
}

#endif
