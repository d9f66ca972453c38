// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * A stand-in for a QEMU that was built with the trace backend dtrace: it has the USDT notes of its
 * NVMe controller, and a semaphore for each. A line `NAME ARGS...` on stdin is a hit.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "note.h"

#define PROBE(name, format, ...)                                                                   \
	do {                                                                                       \
		if (name##_semaphore)                                                              \
			__asm__ volatile(NOTE("qemu", "pci_nvme_" #name, #name "_semaphore",       \
					      format)::__VA_ARGS__);                               \
	} while (0)

#define SEMAPHORE(name)                                                                            \
	volatile uint16_t name##_semaphore __attribute__((section(".probes"), visibility("hidde"   \
											 "n")))

SEMAPHORE(io_cmd);
SEMAPHORE(admin_cmd);
SEMAPHORE(read);
SEMAPHORE(write);
SEMAPHORE(rw_cb);
SEMAPHORE(enqueue_req_completion);
SEMAPHORE(create_sq);
SEMAPHORE(irq_msix);
SEMAPHORE(mmio_cfg);

static void hit(const char *name, const uint64_t *a)
{
	uint16_t cid = a[0];

	if (!strcmp(name, "io_cmd"))
		PROBE(io_cmd, ARG2(0) ARG4(1) ARG2(2) ARG1(3) ARG8(4), "r"(cid),
		      "r"((uint32_t)a[1]), "r"((uint16_t)a[2]), BYTE((uint8_t)a[3]), "r"("NVME"));
	else if (!strcmp(name, "admin_cmd"))
		PROBE(admin_cmd, ARG2(0) ARG2(1) ARG1(2) ARG8(3), "r"(cid), "r"((uint16_t)a[1]),
		      BYTE((uint8_t)a[2]), "r"("NVME"));
	else if (!strcmp(name, "read"))
		PROBE(read, ARG2(0) ARG4(1) ARG4(2) ARG8(3) ARG8(4), "r"(cid), "r"((uint32_t)a[1]),
		      "r"((uint32_t)a[2]), "r"(a[3]), "m"(a[4]));
	else if (!strcmp(name, "write"))
		PROBE(write, ARG2(0) ARG8(1) ARG4(2) ARG4(3) ARG8(4) ARG8(5), "r"(cid),
		      "r"("write"), "r"((uint32_t)a[1]), "r"((uint32_t)a[2]), "m"(a[3]), "m"(a[4]));
	else if (!strcmp(name, "rw_cb"))
		PROBE(rw_cb, ARG2(0) ARG8(1), "r"(cid), "r"("disk"));
	else if (!strcmp(name, "enqueue_req_completion"))
		PROBE(enqueue_req_completion, ARG2(0) ARG2(1) CONST(4, 0) CONST(4, 0) ARG2(2),
		      "r"(cid), "r"((uint16_t)a[1]), "r"((uint16_t)a[4]));
	else if (!strcmp(name, "create_sq"))
		PROBE(create_sq, ARG8(0) ARG2(1) ARG2(2) CONST(2, 9) CONST(2, 1), "r"(a[0]),
		      "r"((uint16_t)a[1]), "r"((uint16_t)a[2]));
	else if (!strcmp(name, "irq_msix"))
		PROBE(irq_msix, ARG4(0), "r"((uint32_t)a[0]));
	else if (!strcmp(name, "mmio_cfg"))
		PROBE(mmio_cfg, ARG8(0), "r"(a[0]));
}

int main(void)
{
	uint64_t args[6] = {0};
	char line[256], name[64];

	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		if (sscanf(line, "%63s %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64,
			   name, args, args + 1, args + 2, args + 3, args + 4) < 1)
			continue;
		hit(name, args);
		puts(name);
		fflush(stdout);
	}
	return 0;
}
