// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The types and numbers that the BPF programs share with user space. This object has no programs
 * and is not loaded: libbpf-cargo generates Rust from its BTF (src/abi). A type without a variable
 * here is not in the BTF.
 */
#include "abi.h"
#include "host_abi.h"
#include "shared.h" /* made by build.rs: a variable of each struct and enum */
