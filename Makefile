# SPDX-License-Identifier: Apache-2.0
# A thin front for meson and the scripts in tools/. `make help` lists the targets.

PREFIX ?= /usr/local
# build/, or a directory of one's own when somebody else owns build/.
ifndef BUILD
BUILD := $(shell tools/build-dir)
endif

.DEFAULT_GOAL := build
.PHONY: build help deps deps-test deps-bench deps-fuzz deps-deb deps-v2 deps-agents demo check test test-v2 test-agents bench soak fuzz lint format asan install uninstall deb clean

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

deps-deb:
	@tools/deps deb

demo: deps ## let a sample agent misbehave in an environment; review, land and verify its work
	@echo "building croft"
	@QUIET=1 PROGRAMS=1 tools/build "$(BUILD)"
	@demo/run "$(BUILD)/croft"

check: ## the inner loop, below 3 minutes on two cores: build, style, unit tests, quick scripts
	@WERROR=1 QUIET=1 tools/build "$(BUILD)"
	@BUILD="$(BUILD)" tools/run-tests --check

test: deps-test ## run every test
	@WERROR=1 tools/build "$(BUILD)"
	@BUILD="$(BUILD)" tools/run-tests

bench: deps-bench ## measure against bubblewrap and native
	@tools/build "$(BUILD)"
	@BUILD="$(BUILD)" CROFT="$(BUILD)/croft" bench/run

deps-v2:
	@tools/deps v2

deps-agents:
	@tools/deps agents

test-agents: deps-test deps-agents ## run real coding agents, from npm, against a model server of our own
	@QUIET=1 tools/build "$(BUILD)"
	@BUILD="$(BUILD)" tools/run-tests agents

test-v2: deps-v2 ## test resources and sessions on cgroup v2 with systemd, in a machine in emulation (slow; as root)
	@tools/build "$(BUILD)"
	@BUILD="$(BUILD)" tools/test-v2 $(NAMES)

soak: deps-test ## 10,000 runs and session commands in a row, hundreds at once, 2,000 rounds of environments and sessions
	@tools/build "$(BUILD)"
	@BUILD="$(BUILD)" CROFT="$(BUILD)/croft" tests/soak/soak.py
	@BUILD="$(BUILD)" CROFT="$(BUILD)/croft" tests/soak/envs.py
	@BUILD="$(BUILD)" CROFT="$(BUILD)/croft" tests/soak/session.py

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
	@QUIET=1 PROGRAMS=1 tools/build "$(BUILD)"
	@tools/install "$(BUILD)" "$(DESTDIR)$(PREFIX)" "$(PREFIX)"

uninstall: ## remove what was installed below $(DESTDIR)$(PREFIX)
	@tools/install --remove "$(DESTDIR)$(PREFIX)"

deb: deps-deb ## build Debian packages, croft and libcroft-dev, into $(BUILD)-deb
	@tools/deb "$(BUILD)-deb"

clean: ## remove what was built
	@rm -rf "$(BUILD)" "$(BUILD)-asan" "$(BUILD)-gcc" "$(BUILD)-clang" "$(BUILD)-fuzz" "$(BUILD)-deb" "$(BUILD)-v2"

help: ## this list
	@sed -n 's/^\([a-z0-9-]*\):[^#]*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 18
