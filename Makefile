# Each target installs the packages that it needs; see tests/vm/deps.sh.

.DEFAULT_GOAL := help
.PHONY: help deps build debug-arm64 kernels shapes demo pictures test test-fast check-exports test-vm test-cost test-diff test-alarms fuzz test-all bench record-cost table matrix dist staged deb rpm archive release check-packages check-release reproducible clean

# the date in packages and man pages; where it changes, cargo compiles the C of the crates again
dist staged deb rpm archive release check-packages check-release reproducible: export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct)

# Builds that tests need share the BPF objects, which take a CPU minute: build.rs. Packages don't.
test test-fast test-cost test-vm test-all build debug-arm64: export NVME_DEEP_OBJECTS := $(CURDIR)/target/objects

help: ## print this list
	@sed -nE 's/^([a-z0-9-]+):[^#]*## (.*)/  make \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 20

deps: ## install the packages that building and testing need
	@tests/vm/deps.sh

# `make bench` with a kernel of arm64 needs the program for it
ARCH ?= $(findstring arm64,$(KERNEL))
# guests and costs need no Parquet, a sixth of the time of a release build
test test-cost test-vm: FEATURES := --no-default-features --features live
build: deps ## build target/release/nvme-deep (ARCH=arm64: target/aarch64-unknown-linux-gnu/release/nvme-deep)
ifeq ($(ARCH),)
	cargo build --release --locked $(FEATURES)
else
	@tests/vm/deps.sh $(filter --arm64,--$(ARCH))
	packaging/cross.sh $(ARCH) sh -c 'cargo build --release --locked --target $$TRIPLE'
endif

# without Parquet it takes a quarter of the time of a release build
debug-arm64: ## build target/aarch64-unknown-linux-gnu/debug/nvme-deep, for guests
	@tests/vm/deps.sh --arm64
	packaging/cross.sh arm64 sh -c 'cargo build --locked --no-default-features --features live --target $$TRIPLE'

# a guest test fetches its kernel itself, unless it is there
kernels: deps ## fetch all kernels that tests boot (tests/vm/kernels)
	@tests/vm/deps.sh --arm64
	@for name in $$(awk '!/^#/ && !/linux-source/ { print $$1 }' tests/vm/kernels); do tests/vm/fetch.sh $$name || exit; done

shapes: deps ## compile the kernels of other shapes (tests/vm/shapes), some 12 CPU minutes each, once
	@tests/vm/deps.sh flex bison bc dwarves libssl-dev rsync
	@for name in $$(awk '/linux-source/ { print $$1 }' tests/vm/kernels); do tests/vm/fetch.sh $$name || exit; done

# a debug build without Parquet takes less than half the time of a release build
demo: ## see nvme-deep at work in a guest with known latencies
	@tests/vm/deps.sh --demo
	cargo build --locked --no-default-features --features live
	@tests/vm/demo.sh

pictures: build ## make docs/pictures anew, from recordings of the tests
	@tests/vm/pictures.sh

# not by name, lest make -n run the line
SUBMAKE := $(MAKE) --no-print-directory

# test-fast keeps about one CPU busy; the other builds what guests run, and counts instructions: they vary by 2%
# on a busy machine, and the guests do not wait for it.
test: ## run all the tests: test-fast, test-cost, test-vm
	@tests/vm/deps.sh valgrind
	@mkdir -p target; nice $(SUBMAKE) test-cost >target/test-cost.log 2>&1 & cost=$$!; \
	trap 'kill $$cost 2>/dev/null; exit 1' INT TERM; \
	{ $(SUBMAKE) test-fast && $(SUBMAKE) test-vm; } || { kill $$cost 2>/dev/null || cat target/test-cost.log; exit 1; }; \
	wait $$cost || { cat target/test-cost.log; exit 1; }; \
	sed '/Compiling\|Checking/d' target/test-cost.log

test-fast: deps ## check format and lints, run the tests that need no guest
	cargo fmt --check
	clang-format --dry-run -Werror $(wildcard bpf/*.c bpf/include/*.h tests/bench/*.c tests/bench/*.h tests/bench/*/*.c)
	cargo clippy --all-targets --locked -- -D warnings
# without live: a program that reads recordings; test-all runs it
	cargo clippy --locked --no-default-features -- -D warnings
	cargo test --locked
	RUSTDOCFLAGS='-D warnings' cargo doc --locked --no-deps
	@$(MAKE) --no-print-directory check-exports

# the binary that the tests run: `cargo build` would make another one, without the features of their crates
check-exports: deps ## compare exports with the recordings, by pyarrow, DuckDB and others (pip)
	cargo test --locked --test from --no-run
	@tests/exports/check.sh target/debug/nvme-deep

# all tests of a suite wait for its guest, and two guests run at a time: tests/vm/judge/guest.rs. Each test has
# a thread, so that the guests that take longest begin first.
GUEST_THREADS = 400

# what only 6.12 needs to show, and every attach method on 5.10, 6.1 and 7.x; test-all runs the rest
test-vm: build ## run the guest tests: most suites on one kernel, all attach methods on the others
	cargo test --locked --test vm -- --ignored --test-threads=$(GUEST_THREADS) --skip only_in_test_all

test-cost: build ## fail if our modes cost over 5 % more than tests/bench/recorded.json, or reading too much
	@tests/vm/deps.sh valgrind
# release builds lack some options of debug builds, which tests/dist.rs runs
	target/release/nvme-deep dist target/dist
	cargo test --locked --test all -- --ignored reading_cost::
	cargo test --locked --test all -- --ignored a_million --nocapture
	@tests/bench/guard.sh
	@CPUS=2 COUNT=300 ONLY='^latency --stages$$|^trace' LIMIT=0.05 tests/bench/lines.sh

test-diff: ## print how often diff raises false alarms, and finds changes, for docs/dev/methods.md (minutes)
	cargo test --release --locked --test all -- --ignored --nocapture diff::

record-cost: build ## write tests/bench/recorded.json
	@tests/bench/guard.sh --record

TARGET ?= all
SECONDS ?= 60
SEED ?= $(shell date +%s)
fuzz: deps ## fuzz the readers (TARGET=all SECONDS=60 SEED=...), each for SECONDS: docs/dev/testing.md
	cargo test --profile fuzz --locked --test fuzz -- --fuzz $(TARGET) --seconds $(SECONDS) --seed $(SEED)

test-alarms: ## print how often diagnose names causes in healthy runs, and finds causes, for docs/dev/diagnose.md (half an hour)
	cargo test --release --locked --test diagnosis -- --ignored --nocapture --test-threads=1

test-all: test-fast test-cost build debug-arm64 shapes ## run test-fast, test-cost and all guest tests
	@tests/vm/deps.sh systemd valgrind podman crun docker.io chromium
	@$(SUBMAKE) archive
	cargo test --locked --test all -- --ignored a_browser
	cargo test --release --locked --lib costs_at_most -- --ignored --nocapture
	cargo test --locked --no-default-features --test from
	cargo test --locked --test vm -- --ignored --test-threads=$(GUEST_THREADS)

bench: build ## count what we and other tools cost, in a guest (KERNEL=6.12, or one of arm64)
	@tests/vm/deps.sh $(if $(ARCH),--arm64 libbpf-dev:arm64,bpftrace libbpf-tools linux-perf blktrace libbpf-dev)
	@tests/bench/bench.sh $(KERNEL)

table: build debug-arm64 ## find anew what each kernel offers, for the planner's tests and docs/dev/kernels.md
	NVME_DEEP_BLESS=1 cargo test --locked --test vm -- --ignored --test-threads=1 methods:: arm64::
	NVME_DEEP_BLESS=1 cargo test --locked --test all plan::the_table_in_the_docs

matrix: build ## plant each cause for `diagnose` in guests, keep the recordings, renew the table (minutes)
	NVME_DEEP_BLESS=1 cargo test --locked --test vm -- --ignored --test-threads=1 plants::
	NVME_DEEP_BLESS=1 cargo test --locked --test all plants::the_table_in_the_docs

dist: build ## write man pages and completions to target/dist
	target/release/nvme-deep dist target/dist

staged: deps
	packaging/build.sh
	packaging/stage.sh

deb: staged ## build target/package/out/*.deb
	packaging/pack.sh deb

rpm: staged ## build target/package/out/*.rpm
	packaging/pack.sh rpm

archive: staged ## build target/package/out/*.tar.gz, with a static binary
	packaging/pack.sh archive

release: deps ## build all that the page of a release needs, for amd64 and arm64 (ARCHES='amd64 arm64'), in target/package/out
	@tests/vm/deps.sh --arm64
	packaging/release.sh

check-packages: staged ## build all packages; install, use and purge them in clean roots, and in a guest; build the crate
	@tests/vm/deps.sh lintian mmdebstrap rpm rpm2cpio cpio
	packaging/pack.sh deb rpm archive
	packaging/check.sh
	cargo package --locked

check-release: deps ## check what `make release` made, for both architectures (as root)
	@tests/vm/deps.sh --arm64 lintian mmdebstrap debootstrap rpm rpm2cpio cpio
	cd target/package/out && sha256sum --quiet -c SHA256SUMS
	ARCH=amd64 packaging/check.sh
	ARCH=arm64 packaging/check.sh

reproducible: staged ## build all packages twice, in different directories, and compare them
	packaging/pack.sh deb rpm archive
	packaging/reproduce.sh

clean: ## remove all that was built or fetched
	rm -rf target
