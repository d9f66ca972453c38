// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The types shared with user space: libbpf-cargo makes Rust of them (src/abi). Never loaded. */
#include "abi.h"
#include "host_abi.h"
#include "shared.h" /* made by build.rs: a variable of each struct and enum */
