// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * A stand-in for SPDK's NVMe-oF target: functions of the same names, whose structures have their
 * fields where a release has them, and USDT notes. It does nothing else that SPDK
 * does.
 *
 *   target COUNT   waits for a line, serves COUNT commands, prints each as JSON, waits for a line
 *
 * -DLAYOUT=2305, 2309 or 2401: the release whose layout it has. -DLIBRARY: without main().
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "note.h"

#if LAYOUT == 2305
#define RELEASE "23.05"
enum { CMD = 24, RSP = 32, QID = 48, CTRLR = 32 };
#elif LAYOUT == 2309
#define RELEASE "23.09"
enum { CMD = 16, RSP = 24, QID = 48, CTRLR = 32 };
#else
#define RELEASE "24.01"
enum { CMD = 16, RSP = 24, QID = 2, CTRLR = 16 };
#endif

/* Where the subsystem of a controller is, and where this one has its NQN. */
enum { SUBSYSTEM = 232, SUBNQN = 347 };

const char *version(void)
{
	return "SPDK v" RELEASE;
}

/* The tracer counts it up while it is attached. */
volatile uint16_t tgt_state_semaphore __attribute__((section(".probes"), visibility("hidden")));

static uint8_t subsystem[512], ctrlr[1024], qpairs[3][128];

struct request {
	uint8_t fields[128];
	uint8_t cmd[64];
	uint8_t rsp[16];
};

static void put(void *to, size_t at, const void *value, size_t bytes)
{
	memcpy((uint8_t *)to + at, value, bytes);
}

#define PUT(to, at, type, value) put(to, at, &(type){value}, sizeof(type))

/* Called as it is: gcc would make copies for constant arguments. */
#ifdef __clang__
#define EXPORT __attribute__((noinline, visibility("default")))
#else
#define EXPORT __attribute__((noipa, visibility("default")))
#endif

EXPORT void nvmf_transport_req_complete(void *req)
{
	__asm__ volatile("" ::"r"(req) : "memory");
}

EXPORT void nvmf_transport_req_free(void *req)
{
	__asm__ volatile("" ::"r"(req) : "memory");
}

static void complete(struct request *req)
{
	memcpy(req->rsp + 12, req->cmd + 2, 2);
	nvmf_transport_req_complete(req);
}

EXPORT int spdk_nvmf_request_complete(struct request *req)
{
	complete(req);
	return 0;
}

EXPORT int spdk_bdev_readv_blocks_ext(void *desc, void *ch, void *iov, int iovcnt, uint64_t offset,
				      uint64_t count, void *cb, void *cb_arg, void *opts)
{
	__asm__ volatile("" ::"r"(cb_arg) : "memory");
	usleep(1000);
	return 0;
}

/* Commands with an odd id are answered at once, one with this id never. */
enum { NEVER = 1000 };

EXPORT void spdk_nvmf_request_exec(struct request *req)
{
	uint16_t cid;

	memcpy(&cid, req->cmd + 2, 2);
	if (cid == NEVER)
		return;
	if (cid % 2) {
		complete(req);
		return;
	}
	spdk_bdev_readv_blocks_ext(0, 0, 0, 0, 0, 0, 0, req, 0);
	spdk_nvmf_request_complete(req);
}

EXPORT int spdk_thread_send_msg(const void *thread, void (*fn)(void *), void *ctx)
{
	fn(ctx);
	return 0;
}

EXPORT void spdk_for_each_channel(void *device, void (*fn)(void *), void *ctx, void *done)
{
	fn(ctx);
}

static __attribute__((noinline)) void first_message(void *ctx)
{
	__asm__ volatile("" ::"r"(ctx) : "memory");
}

static __attribute__((noinline)) void second_message(void *ctx)
{
	__asm__ volatile("nop" ::"r"(ctx) : "memory");
}

/* A constant, a register, memory, and a negative number of four bytes. */
static __attribute__((noinline)) void change_states(const char *nqn, volatile uint32_t *to)
{
	int64_t status = -5;

	__asm__ volatile(NOTE("spdk", "nvmf_subsystem_change_state_done", "0",
			      CONST(-4, 0) ARG8(0) ARG4_MEMORY(1) CONST(4, 2)
				      ARG4_SIGNED(2))::"r"(nqn),
			 "m"(*to), "r"((int)status));
	__asm__ volatile(NOTE("spdk", "nvmf_poll_group_add_subsystem", "0",
			      CONST(-4, 0) ARG8(0) ARG8(1))::"r"(7L),
			 "r"(nqn));
	if (tgt_state_semaphore)
		__asm__ volatile(NOTE("spdk", "nvmf_tgt_state", "tgt_state_semaphore",
				      CONST(-4, 0) CONST(4, 5))::
					 : "memory");
}

static void prepare(struct request *req, unsigned number, uint8_t opcode)
{
	unsigned qid = number % 2 + 1;

	memset(req, 0, sizeof(*req));
	PUT(req->fields, 0, void *, qpairs[qid]);
	PUT(req->fields, CMD, void *, req->cmd);
	PUT(req->fields, RSP, void *, req->rsp);
	req->cmd[0] = opcode;
	PUT(req->cmd, 2, uint16_t, number);
	PUT(req->cmd, 4, uint32_t, 1);
	PUT(req->cmd, 40, uint64_t, number * 8UL);
	PUT(req->cmd, 48, uint16_t, 7);
	/* every fifth has a status: Invalid Field, without the phase bit */
	PUT(req->rsp, 14, uint16_t, number % 5 ? 0 : 2 << 1);
}

int serve(unsigned count)
{
	volatile uint32_t state = 2;
	static struct request req, left;
	unsigned i;

	strcpy((char *)subsystem + SUBNQN, "nqn.2024-01.test:one");
	PUT(ctrlr, 0, uint16_t, 9);
	PUT(ctrlr, SUBSYSTEM, void *, subsystem);
	for (i = 0; i < 3; i++) {
		PUT(qpairs[i], QID, uint16_t, i);
		PUT(qpairs[i], CTRLR, void *, ctrlr);
	}
	printf("ready %s\n", version());
	fflush(stdout);
	getchar();
	for (i = 0; i < count; i++) {
		prepare(&req, i, i % 3 ? 2 : 1);
		spdk_nvmf_request_exec(&req);
		printf("{\"qid\":%u,\"cid\":%u,\"opcode\":%u,\"slba\":%u,\"nlb\":8,\"status\":%u}\n",
		       i % 2 + 1, i, i % 3 ? 2 : 1, i * 8, i % 5 ? 0 : 2);
	}
	for (i = 0; i < 3; i++)
		spdk_thread_send_msg(0, first_message, 0);
	spdk_thread_send_msg(0, second_message, 0);
	spdk_for_each_channel(0, second_message, 0, 0);
	change_states((char *)subsystem + SUBNQN, &state);
	fflush(stdout);
	/* a request that ends without a response */
	prepare(&left, NEVER, 2);
	spdk_nvmf_request_exec(&left);
	nvmf_transport_req_free(&left);
	getchar();
	return 0;
}

#ifndef LIBRARY
int main(int argc, char **argv)
{
	return serve(argc > 1 ? atoi(argv[1]) : 10);
}
#endif
