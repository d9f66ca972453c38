#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# rustc for `make fuzz`, with counters of what an input reaches (tests/fuzz/coverage.rs).
case " $* " in
# runs while building
*" --crate-name build_script_build "*) exec "$@" ;;
# is built beside the test, never runs, and has nobody who counts
*" --crate-type bin "*" --cfg test "*) ;;
*" --crate-type bin "*)
	case " $* " in
	*" --crate-name fuzz "*) ;;
	*) set -- "$@" -Clink-arg=-Wl,--unresolved-symbols=ignore-all ;;
	esac
	;;
esac
exec "$@" -Cpasses=sancov-module \
	-Cllvm-args=-sanitizer-coverage-level=3 \
	-Cllvm-args=-sanitizer-coverage-inline-8bit-counters
