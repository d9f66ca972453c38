/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* USDT notes of the stand-ins in this directory. */
#ifndef NOTE_H
#define NOTE_H

/* A note of a USDT probe, at a nop. Its arguments are in registers, memory or constants. */
#define NOTE(provider, name, semaphore, format)                                                    \
	"990: nop\n"                                                                               \
	".pushsection .note.stapsdt,\"\",\"note\"\n"                                               \
	".balign 4\n"                                                                              \
	".4byte 992f-991f, 994f-993f, 3\n"                                                         \
	"991: .asciz \"stapsdt\"\n"                                                                \
	"992: .balign 4\n"                                                                         \
	"993: .8byte 990b, _.stapsdt.base, " semaphore "\n"                                        \
	".asciz \"" provider "\"\n"                                                                \
	".asciz \"" name "\"\n"                                                                    \
	".asciz \"" format "\"\n"                                                                  \
	"994: .balign 4\n"                                                                         \
	".popsection\n"

__asm__(".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n"
	".weak _.stapsdt.base\n"
	".hidden _.stapsdt.base\n"
	"_.stapsdt.base: .space 1\n"
	".popsection\n");

/*
 * Arguments, by their sizes: operand N of the asm statement, which is a register or memory, or a
 * constant.
 */
#ifdef __aarch64__
#define MODIFIER(letter) ""
#define CONSTANT	 ""
#define BYTE		 "r"
#else
#define MODIFIER(letter) letter
#define CONSTANT	 "$"
#define BYTE		 "q"
#endif
#define ARG1(n)	       " 1@%" MODIFIER("b") #n
#define ARG2(n)	       " 2@%" MODIFIER("w") #n
#define ARG4(n)	       " 4@%" MODIFIER("k") #n
#define ARG4_SIGNED(n) " -4@%" MODIFIER("k") #n
#define ARG8(n)	       " 8@%" #n
#define ARG4_MEMORY(n) " 4@%" #n
#define CONST(size, n) " " #size "@" CONSTANT #n

#endif
