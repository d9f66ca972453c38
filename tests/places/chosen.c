// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Commands of a controller that the filter leaves out, on CPUs that share cells, and in batches.
 * tests/places.rs runs it: chosen CASE ends with 0 if the case holds.
 */
#define WITH_KFUNC
#define bpf_this_cpu_ptr(p) ((void *)(p))
#include "stubs.h"

const struct kernel_stat kstat;
const int __preempt_count;
const struct pcpu_hot pcpu_hot;

static struct nvme_ctrl the_ctrl;
static struct request_queue the_queue;
static struct blk_mq_hw_ctx the_hctx;
static struct io {
	struct request rq;
	struct nvme_request pdu;
	struct nvme_command sqe;
} the_io;

static u64 counted(u32 what)
{
	return cpu_map[0].count[what] + cpu_map[1].count[what];
}

static void begin(u32 first_slot, u32 recover)
{
	cfg_mode = ND_MODE_BASIC;
	cfg_rows = 64;
	cfg_recover = cfg_setup_skips = recover;
	the_ctrl.tagset = &the_ctrl;
	the_queue = (struct request_queue){
		.queuedata = &the_queue, .tag_set = (void *)&the_ctrl, .id = 1};
	ctrl_map[0] = (struct nd_ctrl){
		.base = first_slot, .stride = 64, .queues = 1 << 16, .points = ND_SAW_ALL};
	the_io.rq = (struct request){
		.q = &the_queue, .mq_hctx = &the_hctx, .tag = 3, .internal_tag = -1};
	the_io.pdu = (struct nvme_request){.ctrl = &the_ctrl, .cmd = &the_io.sqe};
	the_io.sqe.nsid = 1;
	the_io.sqe.opcode = 2;
	on_control(ND_CONTROL_BEGIN, 0);
}

static void set_up(void)
{
	struct request *rq = &the_io.rq;

	rq->deadline = ++now_jiffies + rq->timeout;
	the_io.sqe.command_id = (the_io.pdu.genctr & 0xf) << 12 | rq->tag;
	on_start(rq, ND_HOOK_START_BTF, ACCESS_BTF);
	on_setup_out(0, rq, &the_io.sqe, 0, ND_HOOK_SETUP_OUT_BTF, ACCESS_BTF);
}

static void complete(void)
{
	/* the driver changes the generation after its tracepoint */
	on_cqe(&the_io.rq, ND_HOOK_CQE_BTF, ACCESS_BTF);
	the_io.pdu.genctr++;
	on_complete(0, &the_io.rq, ND_HOOK_COMPLETE_BTF, ACCESS_BTF);
}

/* Whether its commands are filtered, once each, and change no slot. The second command finds the
 * place in the cache, and the setup of the third is skipped. */
static int filters_all(u32 recover)
{
	static struct nd_slot untouched[WORLD_SLOTS];
	u64 done = counted(ND_FILTERED_DONE), filtered = counted(ND_FILTERED);

	begin(ND_NO_SLOT, recover);
	for (int i = 0; i < 3; i++) {
		if (i < 2)
			set_up();
		else
			the_io.rq.deadline = ++now_jiffies + the_io.rq.timeout;
		complete();
	}
	return counted(ND_FILTERED) == filtered + 2 && counted(ND_FILTERED_DONE) == done + 3 &&
	       !counted(ND_UNTRACKED) && !counted(ND_UNTRACKED_DONE) && !counted(ND_ORPHAN_DONE) &&
	       !counted(ND_UNSEEN_SETUP) && !cells_asked &&
	       !memcmp(slot_map, untouched, sizeof(slot_map));
}

/* Both ways to add give the same cell. */
static int shared_cells_are_the_same(u32 mode)
{
	static struct nd_cell first;
	u64 start = now_ns;

	begin(0, 1);
	cfg_mode = mode;
	cfg_start_hook = 1;
	the_cell = (struct nd_cell){};
	set_up();
	complete();
	first = the_cell;
	the_cell = (struct nd_cell){};
	cpu_map[0].shares = 1;
	now_ns = start;
	the_io.pdu.genctr = 0;
	set_up();
	complete();
	cpu_map[0].shares = 0;
	return first.hist[0].sum_ns && !memcmp(&first, &the_cell, sizeof(first));
}

/* One doorbell announces each command of a batch of any size, except one that another task has. */
static int doorbells_are_for_whole_batches(void)
{
	u32 tid = this_task(), rung;
	struct nd_task *t = task_of(tid);

	begin(0, 1);
	for (u32 n = 1; n <= ND_TASK_SLOTS; n++) {
		memset(slot_map, 0, sizeof(slot_map));
		t->tid = tid;
		t->n = n;
		rung = 0;
		for (u32 i = 0; i < n; i++) {
			t->slot[i] = i;
			slot_map[i].state = ND_OPEN;
			slot_map[i].tid = tid + (i == n / 2);
		}
		on_doorbell(ND_HOOK_QUEUE_RQS_FEXIT, ACCESS_BTF);
		for (u32 i = 0; i < n; i++)
			rung += slot_map[i].doorbell_ns && i != n / 2;
		if (rung != n - 1 || slot_map[n / 2].doorbell_ns ||
		    counted(ND_LATE_DOORBELL) != n)
			return 0;
	}
	return 1;
}

int main(int argc, char **argv)
{
	switch (argc == 2 ? atoi(argv[1]) : 0) {
	case 1:
		return !(filters_all(0) && filters_all(1));
	case 2:
		return !(shared_cells_are_the_same(ND_MODE_TOTAL) &&
			 shared_cells_are_the_same(ND_MODE_BASIC) &&
			 shared_cells_are_the_same(ND_MODE_FINE));
	case 3:
		return !doorbells_are_for_whole_batches();
	}
	return 2;
}
