// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Tests whether each command is attributed to its own controller, whatever the hooks have cached,
 * and whether a command is followed if the slots of its controller move.
 * Runs the unmodified C of the BPF programs on a model in which controllers and namespaces are
 * added and removed, and later ones reuse their memory. tests/places.rs runs it.
 *
 *   harness SEED STEPS
 *
 * Prints the number of commands, of commands on a hardware queue that reuses the memory of another
 * one, and of wrong results. With NEVER_FORGET the caches are never invalidated: some results must
 * then be wrong.
 */
#define WORLD_SLOTS 2048
#include "stubs.h"

#define CTRLS  3
#define QUEUES 2 /* for I/O, per controller */
#define STRIDE 64
#define TAGS   3
#define SPACES 2 /* maximum of namespaces per controller */

/* Memory that the kernel allocates and frees. */
static struct nvme_ctrl ctrl_memory[CTRLS];
static struct request_queue queue_memory[CTRLS * (1 + SPACES)];
static struct blk_mq_hw_ctx hctx_memory[CTRLS * (1 + SPACES * QUEUES)];
static struct rq_memory {
	struct request rq;
	struct nvme_request pdu;
} rq_memory[CTRLS * (1 + SPACES * QUEUES)][TAGS];
static u8 ctrl_used[CTRLS], queue_used[CTRLS * (1 + SPACES)];
static int owner[CTRLS * (1 + SPACES * QUEUES)]; /* the last owner of each hctx */
static u8 hctx_used[CTRLS * (1 + SPACES * QUEUES)];

struct space {
	int there, queue, hctx[QUEUES];
};
static struct controller {
	int there, memory, born;
	struct space admin, space[SPACES];
} world[CTRLS];

static u64 commands, moved, wrong;
static int births;

static int take(u8 *used, u32 n)
{
	u32 i;

	do
		i = random_below(n);
	while (used[i]);
	used[i] = 1;
	return (int)i;
}

static void make_space(struct space *s, struct nvme_ctrl *ctrl, int hctxs, void *queuedata)
{
	s->there = 1;
	s->queue = take(queue_used, CTRLS * (1 + SPACES));
	queue_memory[s->queue] = (struct request_queue){
		.queuedata = queuedata,
		.tag_set = queuedata ? ctrl->tagset : ctrl->admin_tagset,
		.id = s->queue ^ (int)random_below(2) << 4,
	};
	for (int h = 0; h < hctxs; h++) {
		s->hctx[h] = take(hctx_used, CTRLS * (1 + SPACES * QUEUES));
		hctx_memory[s->hctx[h]].queue_num = (u32)h;
		for (int t = 0; t < TAGS; t++)
			rq_memory[s->hctx[h]][t] = (struct rq_memory){
				.rq = {.q = &queue_memory[s->queue],
				       .mq_hctx = &hctx_memory[s->hctx[h]],
				       .tag = t,
				       .internal_tag = -1},
				.pdu = {.ctrl = ctrl},
			};
	}
}

static void free_space(struct space *s, int hctxs)
{
	s->there = 0;
	queue_used[s->queue] = 0;
	for (int h = 0; h < hctxs; h++)
		hctx_used[s->hctx[h]] = 0;
}

/* How many commands the rows have. */
static u64 in_rows(void)
{
	u64 n = the_cell.unmeasured;

	for (u32 i = 0; i < ND_HIST_BUCKETS; i++)
		n += the_cell.hist[ND_STAGES_BASIC - 1].bucket[i];
	return n;
}

/* A command from start to completion. Submission and completion may be on different CPUs. */
static void command(int instance, struct space *s, int h)
{
	u32 tag = random_below(TAGS), qid = s == &world[instance].admin ? 0 : (u32)h + 1;
	struct request *rq = &rq_memory[s->hctx[h]][tag].rq;
	struct nvme_command sqe = {.opcode = 2, .nsid = 1};
	struct nd_slot *slot = &slot_map[ctrl_map[instance].base + qid * STRIDE + tag];
	int id = world[instance].born << 8 | s->queue;
	u64 start, before = in_rows();

	/* admin commands are passthrough for blk-mq; I/O commands may be */
	rq->cmd_flags = !qid || !random_below(4) ? 34 + random_below(2) : random_below(16);
	commands++;
	moved += owner[s->hctx[h]] && owner[s->hctx[h]] != id;
	owner[s->hctx[h]] = id;
	here = random_below(2);
	on_start(rq, ND_HOOK_START_BTF, ACCESS_BTF);
	start = now_ns;
	on_setup_out(0, rq, &sqe, 0, ND_HOOK_SETUP_OUT_BTF, ACCESS_BTF);
	if (slot->rq != (u64)rq || slot->state != ND_OPEN ||
	    (kept_key(slot) >> ND_KEY_CTRL_SHIFT & 0xff) != (u32)instance ||
	    (slot->start_ns && slot->start_ns != start)) {
		wrong++;
		memset(slot_map, 0, sizeof(slot_map));
		return;
	}
	here = random_below(2);
	on_cqe(rq, ND_HOOK_CQE_BTF, ACCESS_BTF);
	on_complete(0, rq, ND_HOOK_COMPLETE_BTF, ACCESS_BTF);
	if (in_rows() != before + 1 || slot->state != ND_FREE || !slot->cqe_ns) {
		wrong++;
		memset(slot_map, 0, sizeof(slot_map));
	}
}

/* The slots of a controller move, between the setup of a command and its completion: user space
 * has seen that a reset has given it more queues. Another command may be set up meanwhile. */
static void move_during_command(int instance, struct space *s, int h)
{
	struct request *rq = &rq_memory[s->hctx[h]][0].rq, *other = &rq_memory[s->hctx[h]][1].rq;
	struct nvme_command sqe = {.opcode = 2, .nsid = 1}, next = sqe;
	struct nd_ctrl *ctrl = &ctrl_map[instance];
	u32 half = CTRLS * STRIDE * (1 + QUEUES), at = ctrl->base + ((u32)h + 1) * STRIDE;
	int meanwhile = (int)random_below(2);
	u64 before;

	command(instance, s, h); /* the queue is known */
	rq->cmd_flags = other->cmd_flags = 0;
	before = in_rows();
	commands += 1 + meanwhile;
	on_start(rq, ND_HOOK_START_BTF, ACCESS_BTF);
	on_setup_out(0, rq, &sqe, 0, ND_HOOK_SETUP_OUT_BTF, ACCESS_BTF);
	ctrl->base = ctrl->base < half ? ctrl->base + half : ctrl->base - half;
	on_control(ND_CONTROL_FORGET, 0);
	if (meanwhile) {
		next.command_id = 1;
		on_start(other, ND_HOOK_START_BTF, ACCESS_BTF);
		on_setup_out(0, other, &next, 0, ND_HOOK_SETUP_OUT_BTF, ACCESS_BTF);
	}
	here = random_below(2);
	on_cqe(rq, ND_HOOK_CQE_BTF, ACCESS_BTF);
	on_complete(0, rq, ND_HOOK_COMPLETE_BTF, ACCESS_BTF);
	if (meanwhile)
		on_complete(0, other, ND_HOOK_COMPLETE_BTF, ACCESS_BTF);
	if (in_rows() != before + 1 + (u64)meanwhile || slot_map[at].state != ND_FREE) {
		wrong++;
		memset(slot_map, 0, sizeof(slot_map));
	}
}

static void step(void)
{
	int n = (int)random_below(CTRLS), k = (int)random_below(SPACES);
	struct controller *c = &world[n];
	u32 what = random_below(20);

	if (!c->there) {
		/* the lowest free number, as in the kernel */
		for (n = 0; world[n].there; n++)
			;
		c = &world[n];
		c->there = 1;
		c->born = ++births;
		c->memory = take(ctrl_used, CTRLS);
		ctrl_memory[c->memory] = (struct nvme_ctrl){
			.instance = n, .tagset = &c->memory, .admin_tagset = &c->born};
		make_space(&c->admin, &ctrl_memory[c->memory], 1, 0);
		command(n, &c->admin, 0); /* at least Identify */
	} else if (what == 0) {
		for (int i = 0; i < SPACES; i++)
			if (c->space[i].there)
				free_space(&c->space[i], QUEUES);
		free_space(&c->admin, 1);
		ctrl_used[c->memory] = 0;
		c->there = 0;
	} else if (what == 1 && c->space[k].there) {
		free_space(&c->space[k], QUEUES);
	} else if (what == 2) {
		command(n, &c->admin, 0);
	} else if (!c->space[k].there) {
		make_space(&c->space[k], &ctrl_memory[c->memory], QUEUES, c);
		command(n, &c->admin, 0); /* Identify */
	} else if (what == 3) {
		move_during_command(n, &c->space[k], (int)random_below(QUEUES));
	} else {
		command(n, &c->space[k], (int)random_below(QUEUES));
	}
}

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	seed = strtoull(argv[1], 0, 0);
	cfg_mode = ND_MODE_BASIC;
	cfg_start_hook = 1;
	for (u32 n = 0; n < CTRLS; n++)
		ctrl_map[n] = (struct nd_ctrl){
			.base = n * STRIDE * (1 + QUEUES), .stride = STRIDE, .queues = 1 + QUEUES};
	for (long i = strtol(argv[2], 0, 0); i > 0; i--)
		step();
	wrong += cpu_map[0].count[ND_UNTRACKED] + cpu_map[1].count[ND_UNTRACKED];
	wrong += cpu_map[0].count[ND_ORPHAN_DONE] + cpu_map[1].count[ND_ORPHAN_DONE];
	wrong += cpu_map[0].count[ND_OVERWRITTEN] + cpu_map[1].count[ND_OVERWRITTEN];
	printf("%llu %llu %llu\n", commands, moved, wrong);
	return 0;
}
