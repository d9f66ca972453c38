/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What our QEMU plugins use of QEMU, and the marks (mark.h) as they see them.
 *
 * Debian 12's QEMU has plugins, but no package has their header: the parts that are used are
 * declared here. This is version 1 of the interface, QEMU 4.2 to 8.2; later versions reject it with
 * a message.
 */
#ifndef ND_BENCH_QEMU_PLUGIN_H
#define ND_BENCH_QEMU_PLUGIN_H

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mark.h"

typedef uint64_t qemu_plugin_id_t;
typedef uint32_t qemu_plugin_meminfo_t;
struct qemu_info;
struct qemu_plugin_tb;
struct qemu_plugin_insn;

enum qemu_plugin_cb_flags { QEMU_PLUGIN_CB_NO_REGS };
enum qemu_plugin_op { QEMU_PLUGIN_INLINE_ADD_U64 };
enum qemu_plugin_mem_rw { QEMU_PLUGIN_MEM_W = 2 };

void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id,
					   void (*callback)(qemu_plugin_id_t,
							    struct qemu_plugin_tb *));
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *tb, enum qemu_plugin_op op,
					      void *counter, uint64_t add);
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *tb,
					  void (*callback)(unsigned int, void *),
					  enum qemu_plugin_cb_flags flags, void *data);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn,
					    void (*callback)(unsigned int, void *),
					    enum qemu_plugin_cb_flags flags, void *data);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *insn,
				      void (*callback)(unsigned int, qemu_plugin_meminfo_t,
						       uint64_t, void *),
				      enum qemu_plugin_cb_flags flags, enum qemu_plugin_mem_rw rw,
				      void *data);
_Bool qemu_plugin_mem_is_store(qemu_plugin_meminfo_t info);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t index);
const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *insn);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *insn);

#define EXPORT __attribute__((visibility("default")))

EXPORT int qemu_plugin_version = 1;

#define MARK_SIZE 8

/* The number of a mark in the code of either processor, 0 for any other instruction. */
static inline uint32_t mark_of(const struct qemu_plugin_insn *insn)
{
	const char *bytes = qemu_plugin_insn_data(insn);
	const uint32_t variable = 0xffffu << MARK_AT_ARM64, upper = MARK_BEGIN & ~0xffffu;
	uint32_t number;

	if (qemu_plugin_insn_size(insn) == sizeof(number)) {
		memcpy(&number, bytes, sizeof(number));
		if ((number & ~variable) != MARK_ARM64)
			return 0;
		return upper | (number & variable) >> MARK_AT_ARM64;
	}
	if (qemu_plugin_insn_size(insn) != MARK_SIZE || memcmp(bytes, MARK_OPCODE, 4))
		return 0;
	memcpy(&number, bytes + 4, sizeof(number));
	return number;
}

/* Calls `callback` when the guest executes this instruction, if it is the mark `number`. */
static inline void at_mark(struct qemu_plugin_insn *insn, uint32_t number,
			   void (*callback)(unsigned int, void *))
{
	if (mark_of(insn) == number)
		qemu_plugin_register_vcpu_insn_exec_cb(insn, callback, QEMU_PLUGIN_CB_NO_REGS,
						       NULL);
}

/* The file of the argument out=FILE; NULL, with a message, if it is not given or not writable. */
static inline FILE *output_of(const char *plugin, int argc, char **argv)
{
	FILE *out = NULL;

	if (argc != 1 || strncmp(argv[0], "out=", 4)) {
		fprintf(stderr, "%s: where to? out=FILE\n", plugin);
		return NULL;
	}
	out = fopen(argv[0] + 4, "w");
	if (!out)
		perror(plugin);
	return out;
}

#endif
