// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Tests the recovery of commands when a program was skipped. Runs the unmodified C on a model
 * of tasks that submit, interrupts, polls, retries and requeues, in random order.
 *
 *   faults SEED STEPS MODE MASK SWITCHES EVERY
 *
 * MODE is ND_MODE_*. MASK selects programs (bits by hook number) that ignore one of EVERY events.
 * SWITCHES enables checks: 1 recovery of commands, 2 unsure doorbells, 4 the count of interrupts.
 * 7 enables all; without any one of them some results must be wrong. 8 is a driver that changes the
 * generation at the setup, on a kernel that skips no tracepoints. 16: one task of each CPU is
 * idle. 32: a filter rejects half of the commands, which leave no record.
 *
 * Each command must leave one record, with its own points: the model stores the clock before and
 * after each point. Prints: commands completed, records, records without a latency, points of other
 * commands (and commands without exactly one record), points checked, requeues reported, requeues,
 * unsure doorbells. Rejected commands count nowhere.
 */
#define WITH_KFUNC
#define RECORDS
struct kernel_stat;
static struct kernel_stat *this_stat(void);
#define bpf_this_cpu_ptr(p) this_stat()

static void *new_record(unsigned long size);
static void submit(void *record);
#define bpf_ringbuf_reserve(ring, size, flags) new_record(size)
#define bpf_ringbuf_submit(record, flags)      submit(record)

#include "stubs.h"
#include "truth.h"

const struct kernel_stat kstat;
static struct kernel_stat stats[2];

static struct kernel_stat *this_stat(void)
{
	return &stats[here];
}

#define CPUS   2 /* each with its own queue and two tasks */
#define TASKS  4
#define TAGS   8
#define STRIDE 64
#define DEPTH  32 /* of a submission queue */

static struct io {
	struct request rq;
	struct nvme_request pdu;
	struct nvme_command sqe;
	enum place place;
	int busy, again; /* used by a command; to be issued again */
	u64 start_from, start_to;
	struct truth *truth;
} ios[CPUS][TAGS];

static struct nvme_ctrl the_ctrl;
static struct request_queue the_queue;
static struct blk_mq_hw_ctx hctxs[CPUS];
static struct nvme_queue nvmeqs[CPUS];
static struct truth truths[CPUS][1 << 16];

static u64 completed, records, unmeasured, foreign, seen, said, requeued;
static int draining, old_driver, seed_is_odd, idle, filters;

/* The record that a program is writing. */
static union {
	struct nd_event event;
	struct nd_pair pair;
	struct nd_other other;
} record;

static void *new_record(unsigned long size)
{
	return &record;
}

static void check(struct truth *t, enum point p, u64 ns, int in_pattern)
{
	if (!in_pattern || !ns)
		return;
	seen++;
	if (!t->from[p] || ns <= t->from[p] || ns > t->to[p])
		foreign++;
}

static void submit(void *r)
{
	struct nd_event *e = &record.event;
	struct truth *t = &truths[e->qid - 1][e->cid];
	struct nd_times *times = &record.pair.times;
	u32 saw = e->pattern;

	if (e->kind == ND_KIND_REQUEUE)
		said++;
	if (e->kind != ND_KIND_PAIR)
		return;
	records++;
	t->records++;
	if (!t->active)
		foreign++;
	unmeasured += !!(saw & ND_NO_ANY);
	check(t, P_SETUP_OUT, record.pair.end.setup_out_ns, !(saw & ND_NO_SETUP));
	check(t, P_COMPLETE, e->ns, !(saw & ND_NO_COMPLETE));
	if (cfg_mode == ND_MODE_TOTAL)
		return;
	check(t, P_START, times->start_ns, saw & ND_SAW_START);
	check(t, P_DOORBELL, times->doorbell_ns, saw & ND_SAW_DOORBELL);
	/* a return after the device has answered is no doorbell */
	foreign += saw & ND_SAW_DOORBELL && t->to[P_CQE] && times->doorbell_ns > t->to[P_CQE];
	check(t, P_CQE, times->cqe_ns, saw & ND_SAW_CQE);
	if (cfg_mode != ND_MODE_FINE)
		return;
	check(t, P_SETUP_IN, times->setup_in_ns, saw & ND_SAW_SETUP_IN);
	check(t, P_ISSUE, times->issue_ns, saw & ND_SAW_ISSUE);
	check(t, P_IRQ, times->irq_ns, saw & ND_SAW_IRQ);
	check(t, P_END, times->end_ns, saw & ND_SAW_END);
}

/* Runs the program at a point, and stores the clock before and after it. */
/* As HOOK() of bpf/nvme_deep.bpf.c. */
#define RUN(name, call)                                                                            \
	do {                                                                                       \
		enum { hook = ND_HOOK_##name };                                                    \
		if (!ignored(hook))                                                                \
			call;                                                                      \
	} while (0)

#define AT(truth, point, call)                                                                     \
	do {                                                                                       \
		(truth)->from[point] = now_ns;                                                     \
		(truth)->to[point] = ~0ull;                                                        \
		call;                                                                              \
		(truth)->to[point] = ++now_ns;                                                     \
	} while (0)

static struct blk_mq_queue_data bd;

static void release(struct io *io)
{
	io->busy = 0;
	io->rq.state = MQ_RQ_IDLE;
	io->rq.ref.counter = 0;
}

/* blk-mq allocates a request. Some never reach the driver: they are merged into others. */
static void start(struct io *io)
{
	io->busy = 1;
	io->rq.ref.counter = 1;
	/* statistics may be off */
	io->rq.start_time_ns = old_driver && seed_is_odd ? now_ns : 0;
	io->rq.bio = (void *)(u64)random_below(4);
	io->rq.__sector = random_below(1 << 20);
	io->start_from = now_ns;
	RUN(START_BTF, on_start(&io->rq, hook, ACCESS_BTF));
	io->start_to = ++now_ns;
	io->pdu.retries = 0;
	io->sqe.opcode = filters && random_below(2) ? WRITE : READ;
	io->again = 0;
	if (!random_below(16))
		release(io);
}

/* A command must have left one record before its id is used again. */
static void retire(struct truth *t)
{
	foreign += t->active == OVER && t->records != !t->rejected;
	memset(t, 0, sizeof(*t));
}

static void set_up(struct io *io)
{
	u32 q = io->rq.mq_hctx->queue_num;
	u64 from = now_ns, to;
	struct truth *t;

	RUN(SETUP_IN_FENTRY, on_setup_in(0, &io->rq, 0, hook, ACCESS_BTF));
	to = ++now_ns;
	io->pdu.genctr += old_driver;
	io->sqe.command_id = (io->pdu.genctr & 0xf) << 12 | io->rq.tag;
	t = &truths[q][io->sqe.command_id];
	/* a rejected command keeps its id, and is the same command for the programs */
	if (t->active != ACTIVE) {
		retire(t);
		t->active = ACTIVE;
	}
	t->rejected = io->sqe.opcode == WRITE;
	io->truth = t;
	if (!io->pdu.retries) {
		t->from[P_START] = io->start_from;
		t->to[P_START] = io->start_to;
	}
	t->from[P_SETUP_IN] = from;
	t->to[P_SETUP_IN] = to;
	AT(t, P_SETUP_OUT,
	   RUN(SETUP_OUT_BTF, on_setup_out(0, &io->rq, &io->sqe, 0, hook, ACCESS_BTF)));
	io->place = SET_UP;
}

static void issue(struct io *io)
{
	io->rq.state = MQ_RQ_IN_FLIGHT;
	io->rq.timeout = 100;
	io->rq.deadline = now_jiffies + 100;
	AT(io->truth, P_ISSUE, RUN(ISSUE_BTF, on_issue(&io->rq, hook, ACCESS_BTF)));
}

static void copy(struct io *io)
{
	struct nvme_queue *q = io->rq.mq_hctx->driver_data;

	q->sq_tail = (q->sq_tail + 1) % DEPTH;
	io->place = COPIED;
}

/* Rings the doorbell: the device may complete the commands now. Returns a reading of the clock. */
static u64 write_doorbell(u32 cpu)
{
	nvmeqs[cpu].last_sq_tail = nvmeqs[cpu].sq_tail;
	for (int t = 0; t < TAGS; t++)
		if (ios[cpu][t].place == COPIED)
			ios[cpu][t].place = AT_DEVICE;
	return now_ns;
}

/* The state of a task that submits. */
static struct task {
	enum { IDLE, SINGLE, RUN, BATCH } what;
	int step, n, i;
	struct io *io[4];
	u32 cids[4]; /* the commands, also after their io is in use by others */
} tasks_of[TASKS];

static struct io *free_io(u32 cpu)
{
	struct io *io = &ios[cpu][random_below(TAGS)];

	return io->busy || io->place != AWAY ? 0 : io;
}

/* The function that returns now rang the doorbell of the task's commands that have none yet. */
static void rung(struct task *t, int n, u64 from)
{
	for (int i = 0; i < n; i++) {
		struct truth *truth = &truths[here][t->cids[i]];

		if (truth->from[P_DOORBELL])
			continue; /* announced by an earlier doorbell */
		truth->from[P_DOORBELL] = from;
		truth->to[P_DOORBELL] = ++now_ns;
	}
}

static void fexit_queue_rq(struct task *t, int i, int last, u32 ret)
{
	u64 from = now_ns;
	int told = last || nvmeqs[here].sq_tail == nvmeqs[here].last_sq_tail; /* by any task */

	bd = (struct blk_mq_queue_data){.rq = &t->io[i]->rq, .last = last};
	RUN(QUEUE_RQ_FEXIT, on_queued(&hctxs[here], &bd, ret, hook, ACCESS_BTF));
	if (!ret && told)
		rung(t, i + 1, from);
}

/* blk-mq takes it back. kblockd issues it again later, or it is retried after an error. */
static void back(struct io *io)
{
	RUN(REQUEUE_BTF, on_requeue(&io->rq, hook, ACCESS_BTF));
	io->rq.state = MQ_RQ_IDLE;
	io->place = AWAY;
	io->again = 1;
}

static void begin(struct task *t)
{
	u32 kind = random_below(4);

	t->n = kind < 2 ? 1 : 1 + (int)random_below(4);
	t->i = t->step = 0;
	for (int i = 0; i < t->n; i++) {
		struct io *io = 0;

		/* requeued requests are issued first */
		for (int tag = 0; tag < TAGS && !io; tag++)
			if (ios[here][tag].again)
				io = &ios[here][tag];
		if (io) {
			io->again = 0;
		} else {
			io = free_io(here);
			if (io)
				start(io);
		}
		if (!io || !io->busy) {
			t->n = i;
			break;
		}
		t->io[i] = io;
	}
	t->what = !t->n ? IDLE : kind < 2 ? SINGLE : kind == 2 ? RUN : BATCH;
}

/* The next step of a task. Between two steps, another task may run on its CPU. */
static void advance(struct task *t)
{
	struct io *io = t->io[t->i];
	int last = t->i == t->n - 1;
	u64 from;

	switch (t->what) {
	case IDLE:
		if (!draining)
			begin(t);
		return;
	case SINGLE:
	case RUN:
		if (t->step == 0) {
			set_up(io);
			t->cids[t->i] = io->sqe.command_id;
			if (t->what == SINGLE && !random_below(12)) { /* no memory to map it */
				fexit_queue_rq(t, t->i, 1, 9);
				requeued++;
				back(io);
				t->what = IDLE;
				return;
			}
			issue(io);
		} else if (t->step == 1) {
			copy(io);
			if (last)
				write_doorbell(here);
		} else {
			fexit_queue_rq(t, t->i, last, 0);
			t->step = -1;
			if (++t->i == t->n)
				t->what = IDLE;
		}
		t->step++;
		return;
	case BATCH:
		if (t->step == 0) {
			set_up(io);
			t->cids[t->i] = io->sqe.command_id;
			issue(io);
			if (++t->i == t->n) {
				t->i = 0;
				t->step++;
			}
		} else if (t->step == 1) {
			for (int i = 0; i < t->n; i++)
				copy(t->io[i]);
			write_doorbell(here);
			t->step++;
		} else {
			from = now_ns;
			RUN(QUEUE_RQS_FEXIT, on_doorbell(hook, ACCESS_BTF));
			rung(t, t->n, from);
			t->what = IDLE;
		}
	}
}

static void complete(struct io *io, int has_cqe)
{
	int retry = !random_below(10) && !draining;
	struct truth *t = io->truth;

	AT(t, P_COMPLETE, RUN(COMPLETE_BTF, on_complete(0, &io->rq, hook, ACCESS_BTF)));
	completed += !t->rejected;
	if (retry && has_cqe) {
		io->pdu.retries++;
		t->active = OVER;
		back(io);
		return;
	}
	if (cfg_mode == ND_MODE_FINE)
		AT(t, P_END, RUN(END_BTF, on_end(&io->rq, hook, ACCESS_BTF)));
	t->active = OVER;
	release(io);
	io->place = AWAY;
}

/* Completes some of the commands at the device, in an interrupt or in a task that polls. */
static void reap(int irq)
{
	struct io *found[TAGS];
	u64 from = now_ns, to;
	int n = 0, together = (int)random_below(2);

	if (irq) {
		stats[here].irqs_sum++;
		RUN(IRQ_IN_FENTRY, on_irq_in((u64)&nvmeqs[here], hook, ACCESS_BTF));
	}
	to = ++now_ns;
	for (int t = 0; t < TAGS; t++) {
		struct io *io = &ios[here][t];

		if (io->place != AT_DEVICE || (!draining && random_below(2)))
			continue;
		if (irq) {
			io->truth->from[P_IRQ] = from;
			io->truth->to[P_IRQ] = to;
		}
		AT(io->truth, P_CQE, {
			RUN(CQE_BTF, on_cqe(&io->rq, hook, ACCESS_BTF));
			RUN(CQE_SECOND, on_cqe(&io->rq, hook, ACCESS_BTF));
		});
		io->pdu.genctr += !old_driver;
		io->rq.state = MQ_RQ_COMPLETE;
		io->place = COPIED + 10;
		if (together)
			found[n++] = io;
		else
			complete(io, 1);
	}
	for (int i = 0; i < n; i++)
		complete(found[i], 1);
	if (irq)
		RUN(IRQ_OUT_FEXIT, on_irq_out(hook, ACCESS_BTF));
}

static void step(void)
{
	u32 what = random_below(10);

	now_jiffies += !random_below(50);
	here = random_below(CPUS);
	if (what < 7) {
		u32 n = random_below(2);

		current_tid = idle && !n ? 0 : 100 + here * 2 + n;
		advance(&tasks_of[here * 2 + n]);
	} else if (what < 9) {
		/* the interrupt comes in one of the tasks that submit: while a task polls a queue,
		 * the queue has no interrupt */
		current_tid = 100 + here * 2 + random_below(2);
		reap(1);
	} else {
		current_tid = 200 + here;
		reap(0);
	}
}

static void make_world(void)
{
	the_queue = (struct request_queue){.queuedata = &the_ctrl, .id = 1};
	ctrl_map[0] = (struct nd_ctrl){
		.base = 0, .stride = STRIDE, .queues = 1 + CPUS, .points = ND_SAW_ALL};
	for (u32 c = 0; c < CPUS; c++) {
		nvmeqs[c].q_depth = DEPTH;
		hctxs[c] = (struct blk_mq_hw_ctx){.driver_data = &nvmeqs[c], .queue_num = c};
		for (int t = 0; t < TAGS; t++) {
			struct io *io = &ios[c][t];

			io->rq = (struct request){.q = &the_queue,
						  .mq_hctx = &hctxs[c],
						  .tag = t,
						  .internal_tag = -1};
			io->pdu = (struct nvme_request){.ctrl = &the_ctrl, .cmd = &io->sqe};
			io->sqe.nsid = 1;
		}
	}
}

int main(int argc, char **argv)
{
	long steps;
	u32 on;

	if (argc != 7)
		return 2;
	seed = strtoull(argv[1], 0, 0);
	seed_is_odd = seed & 1;
	steps = strtol(argv[2], 0, 0);
	cfg_mode = strtoul(argv[3], 0, 0);
	test_ignore[0] = strtoull(argv[4], 0, 0);
	on = strtoul(argv[5], 0, 0);
	test_ignore_every = strtoul(argv[6], 0, 0);
	idle = on >> 4 & 1;
	filters = targ_any = targ_by_opcode = on >> 5 & 1;
	targ_opcodes[0][0] = 1 << READ;
	cfg_trace = ND_TRACE_PAIRS;
	cfg_start_hook = cfg_doorbell = cfg_mode != ND_MODE_TOTAL;
	cfg_end = cfg_mode == ND_MODE_FINE;
	cfg_recover = on & 1;
	old_driver = on >> 3 & 1;
	cfg_setup_skips = on & 1 && !old_driver;
	cfg_exit_skips = on >> 1 & 1;
	cfg_irq_count = on >> 2 & 1;
	make_world();
	on_control(ND_CONTROL_BEGIN, 0);
	now_jiffies++;
	while (steps--)
		step();
	draining = 1;
	for (int i = 0; i < 20000; i++)
		step();
	for (u32 i = 0; i < WORLD_SLOTS; i++)
		if (slot_map[i].state == ND_COMPLETED || on_control(ND_CONTROL_COMPLETED, i))
			on_control(ND_CONTROL_CLOSE, i);
	for (int q = 0; q < CPUS; q++)
		for (u32 cid = 0; cid < 1 << 16; cid++)
			retire(&truths[q][cid]);
	printf("%llu %llu %llu %llu %llu %llu %llu %llu\n", completed, records, unmeasured, foreign,
	       seen, said, requeued,
	       cpu_map[0].count[ND_UNSURE_DOORBELL] + cpu_map[1].count[ND_UNSURE_DOORBELL]);
	return 0;
}
