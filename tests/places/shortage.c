// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Single cases of the machine of windows.c, whose queues have fewer slots than tags.
 * tests/places.rs runs it: shortage CASE ends with 0 if the case holds.
 */
#define RECORDS
#define bpf_ringbuf_reserve(ring, size, flags) record_of(size)
#define bpf_ringbuf_submit(record, flags)      take(record)
static void *record_of(unsigned long long size);
static void take(void *record);
#define main windows_main
#include "windows.c"
#undef main

static struct nd_pair the_record;
static u32 retries;

static void *record_of(unsigned long long size)
{
	return size <= sizeof(the_record) ? &the_record : 0;
}

static void take(void *record)
{
	struct nd_event *e = record;

	retries += e->kind == ND_KIND_RETRY;
}

/* The state of a fresh machine, with as many extra slots. */
static void begin(u32 extras)
{
	scheduler = 0;
	within = 1; /* no other CPU */
	here = 0;
	cfg_mode = ND_MODE_BASIC;
	begin_machine(extras);
}

static void finish_io(struct io *io, int status)
{
	io->pdu.genctr++;
	io->pdu.status = status;
	on_cqe(&io->rq, ND_HOOK_CQE_BTF, TYPED, 0);
	on_complete(0, &io->rq, ND_HOOK_COMPLETE_BTF, TYPED);
	tag_used[0][io->rq.tag] = 0;
	io->state = IDLE;
}

/* A command whose set-up is skipped: it has a tag and a command id. */
static void set_up_unseen(struct io *io)
{
	io->rq.tag = (int)(io - ios[0]);
	io->rq.deadline = ++now_jiffies + io->rq.timeout;
	io->sqe.common.opcode = 2;
	io->sqe.common.command_id = (io->pdu.genctr & 0xf) << 12 | io->rq.tag;
}

/* One command has no slot. When it has completed, skipped set-ups are recovered again. */
static int recovers_after_a_shortage(void)
{
	u64 before;
	int ok;

	begin(0);
	for (u32 tag = 0; tag < WINDOW + 1; tag++)
		set_up(0, &ios[0][tag]);
	ok = counted(ND_UNTRACKED) == 1 && ios[0][WINDOW].lost;
	/* as long as it is in flight, none is recovered */
	set_up_unseen(&ios[0][WINDOW + 1]);
	before = counted(ND_UNTRACKED_DONE);
	finish_io(&ios[0][WINDOW + 1], 0);
	ok = ok && counted(ND_UNTRACKED_DONE) == before + 1 && !counted(ND_UNSEEN_SETUP);
	for (u32 tag = 0; tag < WINDOW + 1; tag++)
		finish_io(&ios[0][tag], 0);
	before = counted(ND_UNSEEN_SETUP) + counted(ND_UNTRACKED_DONE);
	/* the first one completed in place of the other: both were counted */
	ok = ok && before == 2;
	extra_list.n = 0;
	fill(&extra_list, 4, WINDOW * WINDOWS, 1);
	before = counted(ND_UNSEEN_SETUP);
	set_up_unseen(&ios[0][1]);
	finish_io(&ios[0][1], 0);
	return ok && counted(ND_UNSEEN_SETUP) == before + 1;
}

/* A command with an extra slot fails, and blk-mq requeues it. */
static int a_retry_in_an_extra_slot_is_an_event(void)
{
	struct io *io = &ios[0][WINDOW];

	begin(4);
	cfg_trace = ND_TRACE_PAIRS;
	cfg_verdict = 1;
	for (u32 tag = 0; tag < WINDOW + 1; tag++)
		set_up(0, &ios[0][tag]);
	if (!extra_at((u64)&io->rq))
		return 0;
	finish_io(io, 0x281);
	on_requeue(&io->rq, ND_HOOK_REQUEUE_BTF, TYPED);
	if (retries != 1)
		return 0;
	/* its retry succeeds, and leaves nothing behind */
	set_up(0, io);
	finish_io(io, 0);
	on_requeue(&io->rq, ND_HOOK_REQUEUE_BTF, TYPED);
	if (retries != 1 || extra_known || extra_list.n != 4)
		return 0;
	/* one that is not to be retried gives its slot back at once */
	set_up(0, io);
	finish_io(io, ND_STATUS_DNR | 0x281);
	return !extra_known && extra_list.n == 4;
}

/* A command on a CPU that user space does not know. */
static int a_command_on_an_unknown_cpu_is_counted(void)
{
	struct io *io = &ios[0][0];

	begin(4);
	set_up_unseen(io);
	here = WORLD_CPUS;
	on_setup_out(0, &io->rq, &io->sqe, 0, ND_HOOK_SETUP_OUT_BTF, TYPED);
	on_complete(0, &io->rq, ND_HOOK_COMPLETE_BTF, TYPED);
	return counted(ND_NO_CPU) == 2;
}

int main(int argc, char **argv)
{
	int which = argc == 2 ? atoi(argv[1]) : 0;

	if (which == 1)
		return !recovers_after_a_shortage();
	if (which == 2)
		return !a_retry_in_an_extra_slot_is_an_event();
	if (which == 3)
		return !a_command_on_an_unknown_cpu_is_counted();
	return 2;
}
