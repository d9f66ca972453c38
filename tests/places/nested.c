// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Interrupts a program by itself. Before 6.1 the kernel lets a program at a tracepoint run in an
 * interrupt while the same program runs in the interrupted context, on one CPU: a completion in a
 * softirq, or in a task that polls, and nvme_irq. Runs the unmodified C of the BPF programs.
 * tests/places.rs runs it:
 *
 *   nested SEED STEPS MODE NESTS
 *
 * The compiler calls a function before each access to memory (-fsanitize=thread), where an
 * interrupt may come and complete a command. So an interrupt also comes between the load and the
 * store of an addition that is not atomic. NESTS: the setting of the programs.
 *
 * Prints: completions, those in an interrupt of a completion, hits that were lost, commands that
 * are in no cell, and wrong results (sums of a cell that do not add up, exceptions, open slots).
 */
#define WITH_KFUNC
#define OWN_ROWS
#define WORLD_SLOTS 4096

typedef unsigned long long word;
static void *row_of(word key);
static void *cell_at(unsigned int index);
static void *rowless_of(word key);
static int add_to(void *map, const word *key, const unsigned int *row);
static unsigned int next_row;
#define bpf_map_update_elem(map, key, value, flags) add_to(map, (void *)(key), (void *)(value))
#define bpf_map_push_elem(...)			    0
#define bpf_map_peek_elem(map, value)		    (*(value) = next_row, next_row == ROWS)
#define bpf_map_pop_elem(map, value)		    (next_row == ROWS ? -1 : (*(value) = next_row++, 0))
#define bpf_this_cpu_ptr(p)			    ((void *)(p))

#define ROWS  32
#define HCTXS 40 /* more than the caches of places hold */
#define TAGS  4

#include "stubs.h"

const struct kernel_stat kstat;
const int __preempt_count;
const struct pcpu_hot pcpu_hot;

static word row_keys[ROWS];
static u32 row_numbers[ROWS], rows_known;
static struct nd_cell cell_map[WORLD_CPUS * ROWS];

static void *row_of(word key)
{
	for (u32 i = 0; i < rows_known; i++)
		if (row_keys[i] == key)
			return &row_numbers[i];
	return 0;
}

static void *rowless_of(word key)
{
	return 0;
}

static int add_to(void *map, const word *key, const u32 *row)
{
	if (map != (void *)&rows || row_of(*key))
		return -1;
	row_keys[rows_known] = *key;
	row_numbers[rows_known++] = *row;
	return 0;
}

static void *cell_at(u32 index)
{
	return index < WORLD_CPUS * ROWS ? &cell_map[index] : 0;
}

static struct nvme_ctrl the_ctrl;
static struct request_queue the_queue;
static struct nvme_queue nvmeqs[HCTXS];
static struct blk_mq_hw_ctx hctxs[HCTXS];
static struct io {
	struct request rq;
	struct nvme_request pdu;
	struct nvme_command sqe;
	int set_up;
	int busy; /* a program is at work on it */
} ios[HCTXS][TAGS];

static u64 set_ups, completed, in_completion, wrong;
static volatile int open, completing; /* a program that may be interrupted; at a completion */

static int within; /* an interrupt */

#define PROGRAM(call)                                                                              \
	do {                                                                                       \
		open = !within;                                                                    \
		call;                                                                              \
		open = 0;                                                                          \
	} while (0)

/* The device has answered: nvme_irq finds the CQE, or a task that polls. */
static void reap(struct io *io, int irq)
{
	if (irq)
		on_irq_in((u64)io->rq.mq_hctx->driver_data, ND_HOOK_IRQ_IN_FENTRY, ACCESS_BTF);
	if (irq)
		on_cqe(&io->rq, ND_HOOK_CQE_BTF, ACCESS_BTF);
	else
		PROGRAM(on_cqe(&io->rq, ND_HOOK_CQE_BTF, ACCESS_BTF));
	if (irq)
		on_irq_out(ND_HOOK_IRQ_OUT_FEXIT, ACCESS_BTF);
	io->pdu.genctr++;
	io->rq.state = MQ_RQ_COMPLETE;
}

/* A completion: in the interrupt, or after it in a softirq, or in a task that polls. */
static void complete(struct io *io)
{
	io->busy = 1;
	reap(io, within || random_below(2));
	completing += !within;
	PROGRAM(on_complete(0, &io->rq, ND_HOOK_COMPLETE_BTF, ACCESS_BTF));
	if (cfg_end)
		PROGRAM(on_end(&io->rq, ND_HOOK_END_BTF, ACCESS_BTF));
	completing -= !within;
	completed++;
	io->set_up = io->busy = 0;
}

static void interrupt_now(void)
{
	struct io *io = &ios[random_below(HCTXS)][random_below(TAGS)];

	if (random_below(completing ? 4 : 64) || !io->set_up || io->busy)
		return;
	within = 1;
	complete(io);
	in_completion += completing;
	within = 0;
}

/* The compiler calls nothing in these functions. */
#define PLAIN __attribute__((no_sanitize("thread")))

PLAIN static void interrupt(void)
{
	if (!open)
		return;
	open = 0;
	interrupt_now();
	open = 1;
}

static void set_up(struct io *io)
{
	u32 q = io->rq.mq_hctx->queue_num;
	struct blk_mq_queue_data bd = {.rq = &io->rq, .last = 1};

	io->busy = 1;
	io->sqe.command_id = (io->pdu.genctr & 0xf) << 12 | io->rq.tag;
	io->rq.state = MQ_RQ_IN_FLIGHT;
	io->rq.deadline = ++now_jiffies + io->rq.timeout;
	PROGRAM(on_start(&io->rq, ND_HOOK_START_BTF, ACCESS_BTF));
	PROGRAM(on_setup_in(0, &io->rq, 0, ND_HOOK_SETUP_IN_FENTRY, ACCESS_BTF));
	PROGRAM(on_setup_out(0, &io->rq, &io->sqe, 0, ND_HOOK_SETUP_OUT_BTF, ACCESS_BTF));
	PROGRAM(on_issue(&io->rq, ND_HOOK_ISSUE_BTF, ACCESS_BTF));
	set_ups++;
	io->set_up = 1;
	io->busy = 0; /* the device may answer before the function returns */
	nvmeqs[q].last_sq_tail = ++nvmeqs[q].sq_tail;
	PROGRAM(on_queued(&hctxs[q], &bd, 0, ND_HOOK_QUEUE_RQ_FEXIT, ACCESS_BTF));
}

/* What the compiler calls. */
PLAIN void __tsan_init(void)
{
}
PLAIN void __tsan_func_entry(void *at)
{
}
PLAIN void __tsan_func_exit(void)
{
}
#define ACCESS(name)                                                                               \
	PLAIN void __tsan_##name(void *at)                                                         \
	{                                                                                          \
		interrupt();                                                                       \
	}
#define ACCESSES(kind)                                                                             \
	ACCESS(kind##1) ACCESS(kind##2) ACCESS(kind##4) ACCESS(kind##8) ACCESS(kind##16)
ACCESSES(read)
ACCESSES(write)
ACCESSES(unaligned_read)
ACCESSES(unaligned_write)
PLAIN void __tsan_read_range(void *at, size_t size)
{
	interrupt();
}
PLAIN void __tsan_write_range(void *at, size_t size)
{
	interrupt();
}
PLAIN void *__tsan_memcpy(void *to, const void *from, size_t size)
{
	return memmove(to, from, size);
}
PLAIN void *__tsan_memset(void *to, int byte, size_t size)
{
	return memset(to, byte, size);
}
/* An interrupt comes before or after it. */
#define ATOMIC(bits, type)                                                                         \
	PLAIN type __tsan_atomic##bits##_fetch_add(volatile type *to, type n, int order)           \
	{                                                                                          \
		type was;                                                                          \
                                                                                                   \
		interrupt();                                                                       \
		was = *to;                                                                         \
		*to = was + n;                                                                     \
		return was;                                                                        \
	}
ATOMIC(32, u32)
ATOMIC(64, u64)
PLAIN void __tsan_atomic_thread_fence(int order)
{
}

static u64 hits(u32 hook)
{
	return cpu_map[0].hits[hook] + cpu_map[1].hits[hook];
}

static u64 lost_hits(void)
{
	u64 lost = 2 * set_ups - hits(ND_HOOK_SETUP_OUT_BTF) - hits(ND_HOOK_QUEUE_RQ_FEXIT);

	lost += 2 * completed - hits(ND_HOOK_CQE_BTF) - hits(ND_HOOK_COMPLETE_BTF);
	return lost + (cfg_end ? completed - hits(ND_HOOK_END_BTF) : 0);
}

/* The commands in all cells. The stages of a cell add up to its total. */
static u64 in_cells(void)
{
	u32 stages = cfg_mode == ND_MODE_FINE ? ND_STAGES_FINE : ND_STAGES_BASIC;
	u64 all = 0;

	for (u32 i = 0; i < WORLD_CPUS * ROWS; i++) {
		struct nd_cell *c = &cell_map[i];
		u64 ns = 0, n = 0;

		for (u32 s = 0; s < stages - 1; s++)
			ns += c->hist[s].sum_ns;
		for (u32 b = 0; b < ND_HIST_BUCKETS; b++)
			n += c->hist[stages - 1].bucket[b];
		wrong += ns != c->hist[stages - 1].sum_ns || c->bytes != n * 4096;
		all += n;
	}
	return all;
}

static void make(void)
{
	the_ctrl.tagset = &the_ctrl;
	the_queue = (struct request_queue){
		.queuedata = &the_queue, .tag_set = (void *)&the_ctrl, .id = 1};
	ctrl_map[0] = (struct nd_ctrl){.stride = 64, .queues = HCTXS + 1, .points = ND_SAW_ALL};
	cpu_map[1].first_cell = ROWS;
	for (u32 q = 0; q < HCTXS; q++) {
		nvmeqs[q].q_depth = 1 << 15;
		hctxs[q] = (struct blk_mq_hw_ctx){.driver_data = &nvmeqs[q], .queue_num = q};
		for (u32 t = 0; t < TAGS; t++) {
			struct io *io = &ios[q][t];

			io->rq = (struct request){.q = &the_queue,
						  .mq_hctx = &hctxs[q],
						  .tag = (int)t,
						  .__data_len = 4096,
						  .internal_tag = -1};
			io->pdu = (struct nvme_request){.ctrl = &the_ctrl, .cmd = &io->sqe};
			io->sqe.nsid = 1;
			io->sqe.opcode = 1 + q % 2;
		}
	}
}

static void step(void)
{
	struct io *io = &ios[random_below(HCTXS)][random_below(TAGS)];

	here = random_below(WORLD_CPUS);
	if (io->set_up)
		complete(io);
	else
		set_up(io);
}

int main(int argc, char **argv)
{
	static const u32 none[] = {ND_UNTRACKED,       ND_UNTRACKED_DONE, ND_ORPHAN_DONE,
				   ND_OVERWRITTEN,     ND_UNSEEN_SETUP,	  ND_REQUEUED,
				   ND_UNSEEN_COMPLETE, ND_NO_ROW,	  ND_FEWER_POINTS};
	u64 found;
	long steps;

	if (argc != 5)
		return 2;
	seed = strtoull(argv[1], 0, 0);
	steps = strtol(argv[2], 0, 0);
	cfg_mode = strtoul(argv[3], 0, 0);
	cfg_nests = cpu_map[0].shares = cpu_map[1].shares = strtoul(argv[4], 0, 0);
	cfg_rows = ROWS;
	cfg_recover = cfg_doorbell = cfg_start_hook = 1;
	cfg_end = cfg_mode == ND_MODE_FINE;
	make();
	on_control(ND_CONTROL_BEGIN, 0);
	now_jiffies++;
	while (steps--)
		step();
	for (u32 q = 0; q < HCTXS; q++)
		for (u32 t = 0; t < TAGS; t++)
			if (ios[q][t].set_up)
				complete(&ios[q][t]);
	for (u32 i = 0; i < WORLD_SLOTS; i++)
		wrong += slot_map[i].state != ND_FREE;
	for (u32 i = 0; i < sizeof(none) / sizeof(*none); i++)
		wrong += cpu_map[0].count[none[i]] + cpu_map[1].count[none[i]];
	found = in_cells();
	printf("%llu %llu %llu %llu %llu\n", completed, in_completion, lost_hits(),
	       completed - found, wrong);
	return 0;
}
