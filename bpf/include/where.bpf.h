/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The controller and queue of a command, at its set-up: usually cached. tests/places tests it. */
#ifndef ND_WHERE_H
#define ND_WHERE_H

/* Finds the controller and queue of a command from the request and its queue. Caches an I/O queue
 * in `w`, an admin queue in `admin`. NULL: the command cannot be followed. */
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
	fence();
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
	/* `w` caches an old queue. Hooks that do not check the controller may cache it too. */
	else if (typed && w->place.hctx == (u64)rq->mq_hctx && w->place.age == age &&
		 w->ctrl != address)
		forget_places();
	remember(&w->place, rq, q, first_slot(ctrl->base, ctrl->stride, qid), ctrl->stride, age,
		 typed);
	w->ctrl = address;
	if (cfg_exit_skips || cfg_context)
		w->nvmeq = nvmeq_of(rq, typed);
	w->key = key_of(instance, 0, 0, !qid);
	w->qid = qid;
	w->points = ctrl->points;
	if (cfg_start_hook && known == QUEUE_WAS_ANOTHER) {
		/* The start was stored under the old queue. The entry here is outdated. */
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
 * Like where_by_queue(), usually from the cache. The address of a queue can be reused for another
 * queue, of another controller or number, and that of a controller for one with another number. But
 * no controller, namespace or queue appears without admin commands (at least Identify), and each of
 * these invalidates the cache. Admin queues are never cached.
 */
static __always_inline struct nd_where *where(struct request *rq, struct nd_cpu *cpu, int typed)
{
	u64 hctx = (u64)rq->mq_hctx;
	struct nd_where *w = &cpu->where[place_number(hctx)];

	ONE_REGISTER(w);
	if (is_of(&w->place, hctx) && !is_admin(rq))
		return w;
	return where_slowly(rq, w, &cpu->admin);
}

#endif
