// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Tests machines with more tags than slots, and more CPUs than copies of the cells. Runs the
 * unmodified C of the BPF programs: queues have windows of few slots, or none, and commands that
 * find no free slot there have extra ones. tests/places.rs runs it.
 *
 *   windows SEED STEPS EXTRA OWN MODE SCHEDULER
 *
 * EXTRA: number of extra slots. OWN: number of cells for single CPUs. Commands of random tags are
 * set up, rejected and set up again, and completed, in random order; sometimes their completion is
 * skipped. With a scheduler, a rejected request comes back with another tag.
 *
 * Prints the number of commands, of those in a cell, of those without a slot, of completions
 * without a slot, of completions that were not observed, of wrong results, of cells in use by
 * single CPUs, and by several.
 */
#define WITH_KFUNC
#define OWN_ROWS
#define OWN_SLOTS
#define WORLD_SLOTS 4096

typedef unsigned long long word;
static void *row_of(word key);
static void *cell_at(unsigned int index);
static void *rowless_of(word key);
static void *window_at(unsigned int queue);
static void *extra_at(word rq);
static int add_to(void *map, const void *key, const unsigned int *value);
static int remove_from(const word *rq);
static int push(void *map, const unsigned int *value);
static int pop(void *map, unsigned int *value, int keep);
#define bpf_map_update_elem(map, key, value, flags) add_to(map, key, (void *)(value))
#define bpf_map_delete_elem(map, key)		    remove_from(key)
#define bpf_map_push_elem(map, value, flags)	    push(map, value)
#define bpf_map_peek_elem(map, value)		    pop(map, value, 1)
#define bpf_map_pop_elem(map, value)		    pop(map, value, 0)

#define bpf_this_cpu_ptr(p) ((void *)(p))
static void preempted(void);
#define PREEMPTED() preempted()
#include "stubs.h"

const struct kernel_stat kstat;
const int __preempt_count;
const struct pcpu_hot pcpu_hot;

#define QUEUES	3
#define TAGS	64 /* of a queue */
#define WINDOW	8
#define WINDOWS 2 /* one queue has none */
#define ROWS	64
#define CELLS	96

/* A free list of numbers, the next one last. */
struct list {
	u32 n, number[WORLD_SLOTS];
};

static struct list row_list, cell_list, window_list, extra_list;
static word row_keys[ROWS], extra_keys[WORLD_SLOTS];
static u32 row_numbers[ROWS], rows_known, extra_numbers[WORLD_SLOTS], extra_known;
static u32 window_keys[WINDOWS], windows_known;
static u64 window_places[WINDOWS];
static struct nd_cell cell_map[CELLS];

static void fill(struct list *list, u32 n, u32 from, u32 step)
{
	list->n = n;
	for (u32 i = 0; i < n; i++)
		list->number[i] = from + (n - 1 - i) * step;
}

static struct list *list_of(void *map)
{
	return map == (void *)&free_rows      ? &row_list
	       : map == (void *)&free_cells   ? &cell_list
	       : map == (void *)&free_windows ? &window_list
					      : &extra_list;
}

static int push(void *map, const u32 *value)
{
	struct list *list = list_of(map);

	list->number[list->n++] = *value;
	return 0;
}

static int pop(void *map, u32 *value, int keep)
{
	struct list *list = list_of(map);

	if (!list->n)
		return -1;
	*value = list->number[list->n - 1];
	list->n -= !keep;
	return 0;
}

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

static void *cell_at(u32 index)
{
	return index < CELLS ? &cell_map[index] : 0;
}

static void *window_at(u32 queue)
{
	for (u32 i = 0; i < windows_known; i++)
		if (window_keys[i] == queue)
			return &window_places[i];
	return 0;
}

static void *extra_at(word rq)
{
	for (u32 i = 0; i < extra_known; i++)
		if (extra_keys[i] == rq)
			return &extra_numbers[i];
	return 0;
}

static int remove_from(const word *rq)
{
	for (u32 i = 0; i < extra_known; i++)
		if (extra_keys[i] == *rq) {
			extra_keys[i] = extra_keys[--extra_known];
			extra_numbers[i] = extra_numbers[extra_known];
			return 0;
		}
	return -1;
}

static int add_to(void *map, const void *key, const u32 *value)
{
	/* BPF_NOEXIST; another CPU may have been first */
	if ((map == (void *)&rows && row_of(*(const word *)key)) ||
	    (map == (void *)&windows && window_at(*(const u32 *)key)) ||
	    (map == (void *)&extra && extra_at(*(const word *)key)))
		return -1;
	if (map == (void *)&rows) {
		row_keys[rows_known] = *(const word *)key;
		row_numbers[rows_known++] = *value;
	} else if (map == (void *)&windows) {
		window_keys[windows_known] = *(const u32 *)key;
		window_places[windows_known++] = *(const u64 *)(const void *)value;
	} else if (map == (void *)&extra) {
		extra_keys[extra_known] = *(const word *)key;
		extra_numbers[extra_known++] = *value;
	}
	return 0;
}

static struct nvme_ctrl the_ctrl;
static struct request_queue the_queue;
static struct blk_mq_hw_ctx hctxs[QUEUES];
static struct io {
	struct request rq;
	struct nvme_request pdu;
	struct nvme_command sqe;
	enum { IDLE, SET_UP, REJECTED } state;
	int lost; /* without a slot */
	int busy; /* a program runs */
	u64 begin_ns;
} ios[QUEUES][TAGS];
static u8 tag_used[QUEUES][TAGS];

static u64 commands, wrong;
static u32 scheduler;
static u64 nested_untracked;
static int setting_up, within, started; /* programs that run */

static u64 counted(u32 what)
{
	return cpu_map[0].count[what] + cpu_map[1].count[what];
}

static struct nd_slot *slot_with(struct io *io)
{
	struct nd_slot *found = 0;

	for (u32 i = 0; i < WORLD_SLOTS; i++)
		if (slot_map[i].rq == (u64)&io->rq && slot_map[i].state != ND_FREE) {
			wrong += !!found; /* one command, two slots */
			found = &slot_map[i];
		}
	return found;
}

static void set_up(u32 q, struct io *io)
{
	u64 untracked = counted(ND_UNTRACKED) - nested_untracked, begin;
	struct nd_slot *s;
	u32 tag;

	do
		tag = scheduler ? random_below(TAGS) : (u32)(io - ios[q]);
	while (tag_used[q][tag]);
	tag_used[q][tag] = 1;
	io->rq.tag = (int)tag;
	if (!within)
		here = random_below(2);
	io->busy = 1;
	now_jiffies++;
	io->rq.deadline = now_jiffies + io->rq.timeout;
	if (io->state == IDLE) {
		commands++;
		io->sqe.common.opcode = 1 + random_below(2);
		io->rq.start_time_ns = now_ns;
		on_start(&io->rq, ND_HOOK_START_BTF, TYPED);
		io->begin_ns = now_ns;
	}
	io->sqe.common.command_id = (io->pdu.genctr & 0xf) << 12 | tag;
	begin = now_ns;
	io->busy = 1;
	setting_up++;
	on_setup_out(0, &io->rq, &io->sqe, 0, ND_HOOK_SETUP_OUT_BTF, TYPED);
	setting_up--;
	io->busy = 0;
	io->lost = counted(ND_UNTRACKED) - nested_untracked != untracked;
	io->state = SET_UP;
	s = slot_with(io);
	wrong += !s != io->lost;
	if (s)
		wrong += s->state != ND_OPEN || s->setup_out_ns <= begin ||
			 (s->start_ns && s->start_ns != io->begin_ns);
}

static void reject(u32 q, struct io *io)
{
	io->busy = 1;
	here = random_below(2);
	if (scheduler) {
		tag_used[q][io->rq.tag] = 0;
		io->rq.tag = -1;
	}
	on_requeue(&io->rq, ND_HOOK_REQUEUE_BTF, TYPED);
	if (!scheduler)
		tag_used[q][io->rq.tag] = 0;
	io->state = REJECTED;
	io->busy = 0;
}

static void complete(u32 q, struct io *io, int skipped)
{
	if (!within)
		here = random_below(2);
	io->busy = 1;
	io->pdu.genctr++;
	on_cqe(&io->rq, ND_HOOK_CQE_BTF, TYPED, 0);
	if (!skipped) {
		on_complete(0, &io->rq, ND_HOOK_COMPLETE_BTF, TYPED);
		if (!within)
			here = random_below(2);
		if (cfg_end)
			on_end(&io->rq, ND_HOOK_END_BTF, TYPED);
		wrong += !!slot_with(io);
	}
	tag_used[q][io->rq.tag] = 0;
	io->state = IDLE;
	io->lost = 0;
	io->busy = 0;
}

/* Another program runs in the middle of this one: a completion on any CPU, or a set-up. The kernel
 * guards each program against itself on its CPU. */
static void preempted(void)
{
	u32 q = random_below(QUEUES), was = here;
	struct io *io = &ios[q][random_below(TAGS / 2)];
	u64 untracked;

	if (within || !started || random_below(8) || io->busy)
		return;
	within = 1;
	here = random_below(2);
	if (io->state == SET_UP) {
		complete(q, io, 0);
	} else if (!setting_up || here != was) {
		untracked = counted(ND_UNTRACKED);
		set_up(q, io);
		nested_untracked += counted(ND_UNTRACKED) - untracked;
	}
	here = was;
	within = 0;
}

static void step(int may_skip)
{
	u32 q = random_below(QUEUES);
	struct io *io = &ios[q][random_below(TAGS / 2)];

	if (io->state != SET_UP)
		set_up(q, io);
	else if (!random_below(6) && !io->lost)
		reject(q, io);
	else if (random_below(3))
		complete(q, io, may_skip && !io->lost && !random_below(20));
}

static void make(void)
{
	the_ctrl.tagset = &the_ctrl;
	the_queue = (struct request_queue){
		.queuedata = &the_queue, .tag_set = (void *)&the_ctrl, .id = 1};
	ctrl_map[0] = (struct nd_ctrl){
		.base = 7, .stride = WINDOW, .queues = QUEUES + 1, .points = ND_SAW_ALL};
	for (u32 q = 0; q < QUEUES; q++) {
		hctxs[q].queue_num = q;
		for (u32 t = 0; t < TAGS; t++) {
			struct io *io = &ios[q][t];

			io->rq = (struct request){.q = &the_queue,
						  .mq_hctx = &hctxs[q],
						  .internal_tag = scheduler ? (int)t : -1};
			io->pdu = (struct nvme_request){.ctrl = &the_ctrl, .cmd = &io->sqe};
			io->sqe.common.nsid = 1;
		}
	}
}

/* A machine at the beginning of a run, with as many extra slots. */
static void begin_machine(u32 extras)
{
	cfg_windows = cfg_sparse = cfg_atomic = cfg_recover = 1;
	cfg_rows = ROWS;
	fill(&row_list, ROWS, 0, 1);
	fill(&cell_list, CELLS, 0, 1);
	fill(&window_list, WINDOWS, 0, WINDOW);
	fill(&extra_list, extras, WINDOW * WINDOWS, 1);
	cpu_map[0].first_cell = cpu_map[1].first_cell = WORLD_CPUS;
	on_control(ND_CONTROL_BEGIN, 0);
	make();
}

int main(int argc, char **argv)
{
	u64 total = 0, own = 0, shared = 0;
	u32 extras, stages;
	long steps;

	if (argc != 7)
		return 2;
	seed = strtoull(argv[1], 0, 0);
	steps = strtol(argv[2], 0, 0);
	extras = strtoul(argv[3], 0, 0);
	cfg_own_cells = strtoul(argv[4], 0, 0);
	cfg_mode = strtoul(argv[5], 0, 0);
	scheduler = strtoul(argv[6], 0, 0);
	cfg_start_hook = 1;
	cfg_end = cfg_mode == ND_MODE_FINE;
	begin_machine(extras);
	started = 1;
	for (long i = 0; i < steps; i++)
		step(extras > TAGS * QUEUES);
	started = 0;
	/* each request once more, so that skipped completions are found */
	for (u32 q = 0; q < QUEUES; q++)
		for (u32 t = 0; t < TAGS / 2; t++) {
			if (ios[q][t].state != SET_UP)
				set_up(q, &ios[q][t]);
			complete(q, &ios[q][t], 0);
		}
	for (u32 i = 0; i < WORLD_SLOTS; i++)
		wrong += slot_map[i].state != ND_FREE;
	wrong += extra_list.n != extras || extra_known;
	stages = cfg_mode == ND_MODE_FINE ? ND_STAGES_FINE : ND_STAGES_BASIC;
	for (u32 i = 0; i < CELLS; i++) {
		struct nd_cell *c = &cell_map[i];

		for (u32 b = 0; b < ND_HIST_BUCKETS; b++)
			total += c->hist[stages - 1].bucket[b];
		own += c->row && i < cfg_own_cells;
		shared += c->row && i >= cfg_own_cells;
		wrong += c->row > ROWS;
	}
	printf("%llu %llu %llu %llu %llu %llu %llu %llu\n", commands, total, counted(ND_UNTRACKED),
	       counted(ND_UNTRACKED_DONE), counted(ND_UNSEEN_COMPLETE), wrong, own, shared);
	return 0;
}
