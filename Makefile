# SPDX-License-Identifier: Apache-2.0
# A thin front for meson and the scripts in tools/. `make help` lists the targets.

PREFIX ?= /usr/local
# build/, or a directory of one's own when somebody else owns build/.
ifndef BUILD
BUILD := $(shell tools/build-dir)
endif

.DEFAULT_GOAL := build
.PHONY: build help deps deps-test deps-bench deps-fuzz demo check test bench soak fuzz lint format asan install clean

build: ## compile into build/; the program is build/croft
	@tools/build "$(BUILD)"

deps: ## install what building needs (Debian, Ubuntu), or name the packages
	@tools/deps build

deps-test:
	@tools/deps test

deps-bench:
	@tools/deps bench

deps-fuzz:
	@tools/deps fuzz

demo: deps ## let a sample agent misbehave in an environment; review, land and verify its work
	@echo "building croft"
	@QUIET=1 tools/build "$(BUILD)"
	@demo/run "$(BUILD)/croft"

check: ## the inner loop, below 3 minutes on two cores: build, style, unit tests, quick scripts
	@QUIET=1 tools/build "$(BUILD)"
	@BUILD="$(BUILD)" tools/run-tests --check

test: deps-test ## run every test
	@tools/build "$(BUILD)"
	@BUILD="$(BUILD)" tools/run-tests

bench: deps-bench ## measure against bubblewrap and native
	@tools/build "$(BUILD)"
	@BUILD="$(BUILD)" CROFT="$(BUILD)/croft" bench/run

soak: deps-test ## 10,000 runs in a row, 500 at once, 2,000 rounds of environments: nothing left, nothing lost
	@tools/build "$(BUILD)"
	@BUILD="$(BUILD)" CROFT="$(BUILD)/croft" tests/soak/soak.py
	@BUILD="$(BUILD)" CROFT="$(BUILD)/croft" tests/soak/envs.py

fuzz: deps-fuzz ## fuzz each target for FUZZ_SECONDS (default 60)
	@tools/build "$(BUILD)-fuzz" fuzz
	@tools/fuzz "$(BUILD)-fuzz" $${FUZZ_SECONDS:-60}

lint: deps-test ## clang-format, clang-tidy, layers and style
	@QUIET=1 tools/build "$(BUILD)"
	@tools/lint "$(BUILD)"

format: ## let clang-format settle the layout of all C files
	@find src include tests bench -name '*.[ch]' -not -path '*/node_modules/*' -exec clang-format -i {} +

asan: deps ## compile with AddressSanitizer and UBSan into build-asan/
	@tools/build "$(BUILD)-asan" asan

install: ## install below $(DESTDIR)$(PREFIX)
	@tools/build "$(BUILD)"
	@QUIET=1 tools/build "$(BUILD)-lib" system
	@tools/install "$(BUILD)" "$(BUILD)-lib" "$(DESTDIR)$(PREFIX)" "$(PREFIX)"

clean: ## remove what was built
	@rm -rf "$(BUILD)" "$(BUILD)-asan" "$(BUILD)-gcc" "$(BUILD)-clang" "$(BUILD)-fuzz" "$(BUILD)-lib"

help: ## this list
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 18
