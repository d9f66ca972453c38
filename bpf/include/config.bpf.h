/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The configuration of a run (config_abi.h). It has its own section, which is one map. */
#ifndef ND_CONFIG_H
#define ND_CONFIG_H

#include "config_abi.h"

const volatile struct nd_config config SEC(".rodata.config") = {};

/*
 * The names of the settings: cfg_mode is config.mode, or a constant where a build fixes it
 * (src/session/build_table.rs). Those that begin with targ_, tp_ or test_ have no other prefix.
 * build.rs makes the file from struct nd_config.
 */
#include "settings.h"

#endif
