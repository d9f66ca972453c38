// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * load DEPTH BATCH WARM COUNT DRAIN-MS DEVICE...: asynchronous reads of 4 KiB that bypass the page
 * cache: DEPTH in flight, BATCH per submission, the devices in turn. First it issues WARM reads
 * outside the marks. Between the marks it issues COUNT reads, and waits DRAIN-MS, so that a tool
 * receives the last events. It prints the number of all reads, and the nanoseconds that the COUNT
 * reads took. Every read completes before a mark: the counts are of whole commands. It is linked
 * statically, without libaio, so that it costs nothing but its system calls.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <linux/fs.h>
#include <time.h>
#include <unistd.h>

#include "mark.h"

#define READ_BYTES  4096
#define DEPTH_MAX   1024
#define DEVICES_MAX 64
/* Odd, so that it visits each block of a device of 2^n blocks once. Neighbours are never in one
 * batch. */
#define STRIDE 97003u

static int devices[DEVICES_MAX];
static long device_count;
/* of the smallest device */
static uint64_t blocks = UINT64_MAX;
static long depth, batch;
static aio_context_t context;
static struct iocb requests[DEPTH_MAX];
/* those not in flight */
static struct iocb *idle[DEPTH_MAX];
static long idle_count;
static uint64_t position, turn;
static long issued;

static void die(const char *what, int error)
{
	fprintf(stderr, "load: %s: %s\n", what, strerror(error));
	exit(1);
}

static void submit(long count)
{
	struct iocb **first = &idle[idle_count - count];
	int device = devices[turn++ % device_count];

	for (long i = 0; i < count; i++) {
		position = (position + STRIDE) % blocks;
		first[i]->aio_offset = position * READ_BYTES;
		first[i]->aio_fildes = device;
	}
	for (long done = 0; done < count;) {
		long taken = syscall(SYS_io_submit, context, count - done, first + done);

		if (taken < 0)
			die("io_submit", errno);
		done += taken;
	}
	idle_count -= count;
	issued += count;
}

static void reap(void)
{
	struct io_event events[DEPTH_MAX];
	long count = syscall(SYS_io_getevents, context, 1, depth, events, NULL);

	if (count < 0)
		die("io_getevents", errno);
	for (long i = 0; i < count; i++) {
		if (events[i].res != READ_BYTES)
			die("a read", events[i].res < 0 ? -events[i].res : EIO);
		idle[idle_count++] = (struct iocb *)(uintptr_t)events[i].obj;
	}
}

/* Issues `count` reads, and waits for all of them. */
static void read_blocks(long count)
{
	while (count || idle_count < depth) {
		long now = count < batch ? count : batch;

		if (now && idle_count >= now) {
			submit(now);
			count -= now;
		} else {
			reap();
		}
	}
}

static void open_device(const char *path)
{
	int device = open(path, O_RDONLY | O_DIRECT);
	uint64_t bytes;

	if (device < 0 || ioctl(device, BLKGETSIZE64, &bytes))
		die(path, errno);
	if (bytes / READ_BYTES < blocks)
		blocks = bytes / READ_BYTES;
	devices[device_count++] = device;
}

static void prepare(void)
{
	char *buffers;

	if (syscall(SYS_io_setup, depth, &context))
		die("io_setup", errno);
	buffers = aligned_alloc(READ_BYTES, depth * READ_BYTES);
	if (!buffers)
		die("buffers", ENOMEM);
	memset(buffers, 1, depth * READ_BYTES);
	for (idle_count = 0; idle_count < depth; idle_count++) {
		struct iocb *request = &requests[idle_count];

		request->aio_lio_opcode = IOCB_CMD_PREAD;
		request->aio_buf = (uintptr_t)(buffers + idle_count * READ_BYTES);
		request->aio_nbytes = READ_BYTES;
		idle[idle_count] = request;
	}
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

int main(int argc, char **argv)
{
	long warm, count, drain_ms;
	uint64_t begin, end;

	if (argc < 7 || argc > 6 + DEVICES_MAX) {
		fprintf(stderr, "usage: load DEPTH BATCH WARM COUNT DRAIN-MS DEVICE...\n");
		return 2;
	}
	depth = atol(argv[1]);
	batch = atol(argv[2]);
	warm = atol(argv[3]);
	count = atol(argv[4]);
	drain_ms = atol(argv[5]);
	if (depth < 1 || depth > DEPTH_MAX || batch < 1 || batch > depth) {
		fprintf(stderr, "load: a depth of 1 to %d, and no batch above it\n", DEPTH_MAX);
		return 2;
	}
	for (char **path = argv + 6; *path; path++)
		open_device(*path);
	prepare();

	read_blocks(warm);
	mark(MARK_BEGIN);
	begin = now_ns();
	read_blocks(count);
	end = now_ns();
	usleep(drain_ms * 1000);
	mark(MARK_END);

	printf("%ld %llu\n", issued, (unsigned long long)(end - begin));
	return 0;
}
