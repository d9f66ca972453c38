// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Tests the search for a request's former slot. Runs the unmodified C of the BPF programs; a task
 * is preempted in the setup, at each read in turn. tests/places.rs runs it.
 *
 * A request with a scheduler completes unseen, and is set up again with another tag. While its
 * setup runs, another CPU sets up a second request with the first tag. The slot of that tag must
 * stay with the second request. All pairs of generations are tried.
 *
 * The request of flushes takes the tag of another request each time. The setup and the completion
 * of a flush are skipped, and 0 to 15 flushes follow; after 15 its generation is the same again.
 * Then another request is set up with its tag: the flush is over.
 *
 * Prints the number of runs, of those with a wrong result, of wrong ones in which blk-mq takes the
 * first request back instead, and of wrong ones with flushes.
 */
#define WITH_KFUNC
static void preempted(void);
#define PREEMPTED()	    preempted()
#define bpf_this_cpu_ptr(p) ((void *)(p))

#include "stubs.h"

const struct kernel_stat kstat;
const int __preempt_count;
const struct pcpu_hot pcpu_hot;

#define STRIDE 64

static struct io {
	struct request rq;
	struct nvme_request pdu;
	struct nvme_command sqe;
} first, second;

static struct nvme_ctrl the_ctrl;
static struct request_queue the_queue;
static struct blk_mq_hw_ctx hctx;
static struct nvme_queue nvmeq;
static int reads_left = -1; /* until the task is preempted */

static void make(struct io *io, int internal, u32 generation)
{
	io->rq = (struct request){.q = &the_queue, .mq_hctx = &hctx, .internal_tag = internal};
	io->pdu = (struct nvme_request){.ctrl = &the_ctrl, .cmd = &io->sqe, .genctr = generation};
	io->sqe.opcode = 2;
	io->sqe.nsid = 1;
}

static void set_up(struct io *io, u32 tag)
{
	io->rq.tag = tag;
	io->rq.start_time_ns = now_ns;
	io->sqe.command_id = (io->pdu.genctr & 0xf) << 12 | tag;
	on_setup_out(0, &io->rq, &io->sqe, 0, ND_HOOK_SETUP_OUT_BTF, ACCESS_BTF);
}

static void preempted(void)
{
	if (reads_left < 0 || reads_left--)
		return;
	here = 1;
	current_tid++;
	set_up(&second, 1);
	current_tid--;
	here = 0;
}

static struct nd_slot *slot_of_tag(u32 tag)
{
	return &slot_map[STRIDE + tag];
}

static u64 counted(u32 what)
{
	return cpu_map[0].count[what] + cpu_map[1].count[what];
}

static void begin(u32 generation, u32 other)
{
	memset(slot_map, 0, sizeof(slot_map));
	memset(start_map, 0, sizeof(start_map));
	memset(cpu_map, 0, sizeof(cpu_map));
	make(&first, 5, generation);
	make(&second, 6, other);
	set_up(&first, 1);
}

/* Whether the slot of a tag has this command, which is open. */
static int has(u32 tag, struct io *io)
{
	return slot_of_tag(tag)->rq == (u64)&io->rq && slot_of_tag(tag)->state == ND_OPEN;
}

/* Whether the second setup ran within the first one. */
static int run(u32 generation, u32 other, int reads, u64 *wrong)
{
	int within;

	begin(generation, other);
	first.pdu.genctr++; /* its CQE; the completion is unseen */
	reads_left = reads;
	set_up(&first, 2);
	within = reads_left < 0;
	reads_left = -1;
	if (!within)
		set_up(&second, 1);
	*wrong += !has(1, &second) || !has(2, &first) || counted(ND_OVERWRITTEN) ||
		  counted(ND_REQUEUED) || counted(ND_UNSEEN_COMPLETE) != 1;
	return within;
}

/* The same for a requeue: blk-mq has given the tag back before the program runs. If the second
 * command comes first, how the first one ended is unknown. */
static int requeue(u32 generation, u32 other, int reads, u64 *wrong)
{
	int within;

	begin(generation, other);
	first.rq.tag = -1;
	reads_left = reads;
	on_requeue(&first.rq, ND_HOOK_REQUEUE_BTF, ACCESS_BTF);
	within = reads_left < 0;
	reads_left = -1;
	if (!within)
		set_up(&second, 1);
	*wrong += !has(1, &second) || counted(ND_UNSEEN_COMPLETE) ||
		  counted(ND_OVERWRITTEN) + counted(ND_REQUEUED) != 1;
	return within;
}

static void end_flush(void)
{
	on_cqe(&first.rq, ND_HOOK_CQE_BTF, ACCESS_BTF);
	first.pdu.genctr++;
}

static int is_lost_flush(u32 generation, u32 later)
{
	begin(generation, 0);
	memset(slot_map, 0, sizeof(slot_map)); /* its setup is skipped */
	make(&first, -1, generation);
	make(&second, -1, 0);
	first.rq.tag = 1;
	first.rq.deadline = now_jiffies + 2;
	first.rq.start_time_ns = now_ns;
	first.sqe.command_id = (generation & 0xf) << 12 | 1;
	end_flush();
	for (u32 n = 0; n < later; n++) {
		set_up(&first, 2);
		end_flush();
		on_complete(0, &first.rq, ND_HOOK_COMPLETE_BTF, ACCESS_BTF);
	}
	set_up(&second, 1);
	return !has(1, &second) || counted(ND_OVERWRITTEN) || counted(ND_UNSEEN_SETUP) != 1 ||
	       counted(ND_UNSEEN_COMPLETE) != 1;
}

int main(void)
{
	u64 runs = 0, wrong = 0, of_requeues = 0, of_flushes = 0;

	the_queue = (struct request_queue){.queuedata = &the_ctrl, .id = 1};
	hctx = (struct blk_mq_hw_ctx){.driver_data = &nvmeq};
	ctrl_map[0] = (struct nd_ctrl){.stride = STRIDE, .queues = 2, .points = ND_SAW_ALL};
	cfg_mode = ND_MODE_TOTAL;
	cfg_recover = 1;
	cfg_setup_skips = 1;
	on_control(ND_CONTROL_BEGIN, 0);
	for (u32 pair = 0; pair < 256; pair++)
		for (int reads = 0; runs++, run(pair & 15, pair >> 4, reads, &wrong); reads++)
			;
	for (u32 pair = 0; pair < 256; pair++)
		for (int reads = 0; requeue(pair & 15, pair >> 4, reads, &of_requeues); reads++)
			;
	for (cfg_mode = ND_MODE_TOTAL; cfg_mode <= ND_MODE_FINE; cfg_mode++)
		for (u32 pair = 0; pair < 256; pair++)
			of_flushes += is_lost_flush(pair & 15, pair >> 4);
	printf("%llu %llu %llu %llu\n", runs, wrong, of_requeues, of_flushes);
	return 0;
}
