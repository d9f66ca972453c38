// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The types that the BPF programs share with user space: libbpf-cargo makes Rust of its BTF
 * (src/abi). It has no programs, and is not loaded. */
#include "abi.h"
#include "host_abi.h"
#include "shared.h" /* made by build.rs: a variable of each struct and enum */
