# SPDX-License-Identifier: MIT
# Shortcuts for CMake. `make help` lists the targets.

PREFIX      ?= /usr/local
BUILD       ?= build
CMAKE_FLAGS ?=
# Where links of the documents' site to source files lead; empty: they are plain text.
SOURCE_URL  ?=
# The Python whose modules packages.sh installs.
SYSTEM_PYTHON ?= $(or $(wildcard /usr/bin/python3),python3)
# Steps of tools/lint.sh; empty: all. (make has a LINT of its own, a program.)
ifeq ($(origin LINT),default)
LINT        :=
endif

# Which labels run in which build; empty: all; !a|b: all but these. See CONTRIBUTING.md.
TEST_LABELS ?= !oom
ASAN_LABELS ?= unit|sim|contract|redis|redlock|memcached|etcd|zookeeper|sql|wire|oom|cli|example|fuzz
TSAN_LABELS ?= unit|sim|contract|wire|torture

# Commas separate the arguments of $(call configure): a comma for CMake must come from a variable. If
# configuring fails, a package may be missing: print which.
configure = { command -v cmake && cmake -S . -B '$(1)' -G Ninja $(CMAKE_FLAGS) $(2); } >/dev/null || \
	{ tools/packages.sh missing build; false; }
# One line of progress, which a terminal sees change; V=1: every command.
compile = { [ -t 1 ] || [ -n "$(V)" ] || echo 'building $(1)'; \
	cmake --build '$(1)' $(if $(2),--target $(2)) $(if $(V),--verbose,$$([ -t 1 ] || echo -- --quiet)); }
with_asan = -DHOLDFAST_SANITIZE=address,undefined -DHOLDFAST_BENCH=OFF
with_tsan = -DHOLDFAST_SANITIZE=thread -DHOLDFAST_BENCH=OFF
with_prefix = '-DCMAKE_INSTALL_PREFIX=$(PREFIX)'

.PHONY: help build demo test plain test-fresh lint format bench faults model pictures compat install uninstall deb test-deb examples api abi-record clean asan tsan fuzz test-bindings bench-bindings interop-npm interop-redisson interop-redsync interop-redlock-py interop-curator interop-shedlock bench-peers docs lab-pictures

help:
	@echo 'make demo     see it work, on an embedded store in a temporary directory'
	@echo 'make build    $(BUILD)/bin/holdfast, $(BUILD)/lib/libholdfast.so, $(BUILD)/lib/holdfast/*.so'
	@echo 'make test     all tests; also under ASan+UBSan and TSan (TEST_LABELS, ASAN_LABELS, TSAN_LABELS)'
	@echo 'make asan     only the ASan+UBSan run; make tsan: only the TSan run; make plain: only the one without them'
	@echo 'make test-bindings   all languages: their own tests, and all of them on one lock (LANGUAGES="go rust": only these; together: all on one lock)'
	@echo 'make fuzz     every decoder under libFuzzer, SECONDS=60 for each (FUZZ="url resp": only these)'
	@echo 'make interop-npm, interop-redisson, interop-redsync, interop-redlock-py, interop-curator, interop-shedlock   with real clients, which are fetched'
	@echo 'make lint     format, clang-tidy, cppcheck, warnings as errors, scripts, man pages'
	@echo 'make format   let clang-format rewrite the sources'
	@echo 'make bench    speed, as ratios to raw loops; bench-peers: beside other lock libraries, which are fetched (PEERS); bench-bindings: each language beside C'
	@echo 'make docs     the documents as a site to read and search in a browser: $(BUILD)/site/index.html. SOURCE_URL=https://host/project/blob/main: links to source files'
	@echo 'make lab-pictures   runs every experiment of the lab, and draws docs/lab anew; three minutes'
	@echo 'make faults   every engine under every fault; most of an hour; writes docs/faults.md. FAULTS_ARGS="--engine redis --fault client": only these'
	@echo 'make compat   share every kind of store with an earlier version, which it builds: COMPAT_REV, STORES="redis etcd"'
	@echo 'make model    larger searches of the models than make test does; most of an hour, 10 GB of memory'
	@echo 'make pictures docs/terminal.svg, from a real run'
	@echo 'make install  PREFIX=$(PREFIX), DESTDIR=$(DESTDIR); make uninstall takes away what it put there'
	@echo 'make deb      Debian packages, in build-deb; make test-deb tries them in a clean Debian root (KEEP=1: those that are there)'
	@echo 'make test-fresh   make demo and make test in new roots of Debian and Ubuntu that have only make and git; needs root, most of an hour (FRESH="trixie arm64": only these; FRESH_LABELS="unit|cli": not all tests)'
	@echo 'make examples $(BUILD)/bin/examples; those that are installed build against what is installed'
	@echo 'make api      the manual pages of the C interface and docs/api, from the headers and man/api'
	@echo 'make abi-record   after a deliberate change of the public interface'
	@echo 'make clean; V=1 shows every command'

build:
	@$(call configure,$(BUILD),$(with_prefix))
	@$(call compile,$(BUILD),product)

demo:
	@tools/packages.sh build
	@$(MAKE) --no-print-directory build
	@tools/demo.sh '$(if $(filter $(CURDIR),$(PWD)),$(BUILD),$(abspath $(BUILD)))/bin/holdfast'

test:
	@tools/packages.sh test
	@$(call configure,$(BUILD),$(with_prefix))
	@$(call compile,$(BUILD))
	@$(call configure,build-asan,$(with_asan))
	@$(call compile,build-asan)
	@$(call configure,build-tsan,$(with_tsan))
	@$(call compile,build-tsan)
	@tools/run-tests.sh "plain:$(BUILD):$(TEST_LABELS)" "asan:build-asan:$(ASAN_LABELS)" "tsan:build-tsan:$(TSAN_LABELS)"

plain:
	@tools/packages.sh test
	@$(call configure,$(BUILD),$(with_prefix))
	@$(call compile,$(BUILD))
	@tools/run-tests.sh "plain:$(BUILD):$(TEST_LABELS)"

asan:
	@tools/packages.sh test
	@$(call configure,build-asan,$(with_asan))
	@$(call compile,build-asan)
	@tools/run-tests.sh "asan:build-asan:$(ASAN_LABELS)"

tsan:
	@tools/packages.sh test
	@$(call configure,build-tsan,$(with_tsan))
	@$(call compile,build-tsan)
	@tools/run-tests.sh "tsan:build-tsan:$(TSAN_LABELS)"

test-bindings bench-bindings:
	@tools/packages.sh bindings $(LANGUAGES)
	@$(call configure,$(BUILD),$(with_prefix))
	@$(call compile,$(BUILD),product with_server together)
	@bindings/$(@:%-bindings=%).sh '$(BUILD)' $(LANGUAGES)

interop-npm interop-redisson interop-redsync interop-redlock-py interop-curator interop-shedlock:
	@tools/packages.sh test
	@$(call configure,$(BUILD),)
	@$(call compile,$(BUILD))
	@test/interop/foreign.sh $(@:interop-%=%) '$(BUILD)'

# Every fuzz target for SECONDS seconds; FUZZ names some of them.
fuzz:
	@tools/packages.sh fuzz
	@$(call configure,build-fuzz,$(with_asan) -DHOLDFAST_FUZZ=ON -DCMAKE_C_COMPILER=clang)
	@$(call compile,build-fuzz,fuzz)
	@tools/fuzz.sh build-fuzz "$(or $(SECONDS),60)" $(FUZZ)

lint:
	@tools/packages.sh lint
	@tools/lint.sh $(LINT)

format:
	@tools/lint.sh format

bench: build
	@$(call compile,$(BUILD),holdfast_bench)
	@'$(BUILD)/bin/holdfast' bench $(BENCH_ARGS)

# Other lock libraries beside ours: PEERS="redis etcd" does only these servers, SECONDS is the time of a round.
bench-peers:
	@tools/packages.sh test
	@$(call configure,$(BUILD),)
	@$(call compile,$(BUILD))
	@$(call compile,$(BUILD),peer_ours)
	@bench/peers/install.sh '$(BUILD)/peers'
	@'$(BUILD)/bin/test/closed' python3 -B bench/peers/run.py '$(BUILD)' '$(BUILD)/peers' '$(or $(SECONDS),1)' $(PEERS)

# The table of faults. It goes on where an interrupted run was: $(BUILD)/faults.jsonl has what was run. Networks and disks of a
# cell's own need root.
faults:
	@tools/packages.sh test
	@$(call configure,$(BUILD),)
	@$(call compile,$(BUILD))
	@'$(BUILD)/bin/test/closed' python3 -B lab/faults/run.py '$(BUILD)/bin/test/faults_lab' '$(BUILD)/faults.jsonl' $(FAULTS_ARGS)
	@[ -n '$(FAULTS_ARGS)' ] || python3 -B lab/faults/run.py '$(BUILD)/bin/test/faults_lab' '$(BUILD)/faults.jsonl' --table docs/faults.md

# The documents' site: plain files, which need no server.
docs:
	@tools/packages.sh docs
	@'$(SYSTEM_PYTHON)' -B tools/site/build.py '$(BUILD)/site' --source '$(SOURCE_URL)'

lab-pictures:
	@tools/packages.sh test
	@$(MAKE) --no-print-directory build
	@'$(SYSTEM_PYTHON)' -B tools/lab-pictures.py '$(BUILD)/bin/holdfast'

compat:
	@tools/packages.sh test
	@$(call configure,$(BUILD),)
	@$(call compile,$(BUILD))
	@tools/compat.sh '$(BUILD)' $(STORES)

model:
	@tools/packages.sh test
	@python3 -B model/run.py --large
	@python3 -B model/node.py --large

# The pictures of the documents that are made from a run.
pictures:
	@tools/packages.sh test
	@$(MAKE) --no-print-directory build
	@python3 -B tools/terminal-picture.py '$(BUILD)/bin/holdfast' docs/terminal.svg

install: build
	@cmake --install '$(BUILD)' $(if $(V),,>/dev/null)
	@echo 'installed in $(DESTDIR)$(PREFIX)'
	@[ -n "$(DESTDIR)" ] || [ "$$(id -u)" -ne 0 ] || ldconfig

uninstall:
	@tools/uninstall.sh '$(BUILD)' '$(DESTDIR)'
	@[ -n "$(DESTDIR)" ] || [ "$$(id -u)" -ne 0 ] || ldconfig

# The programs of examples/, in $(BUILD)/bin/examples.
examples:
	@$(call configure,$(BUILD),$(with_prefix))
	@$(call compile,$(BUILD),examples)

# The public interface as it is now, for the test `abi` to compare with.
abi-record:
	@$(call configure,$(BUILD),$(with_prefix))
	@$(call compile,$(BUILD),abi-record)

# Debian packages, in build-deb; and the same, installed, tried and removed in a clean Debian root, which build-deb/root keeps.
deb:
	@tools/packages.sh deb
	@tools/deb.sh build-deb

test-deb:
	@tools/packages.sh test-deb
	@[ -n '$(KEEP)' ] || tools/deb.sh build-deb
	@test/install/deb.sh build-deb

# What a newcomer types first, in new roots, which build-fresh keeps: bookworm trixie noble arm64, or those of FRESH.
test-fresh:
	@tools/packages.sh test-fresh
	@FRESH_LABELS='$(FRESH_LABELS)' nice test/install/fresh.sh build-fresh $(FRESH)

# man/man3 and docs/api, after a change of a public header or of man/api. They are committed.
api:
	@python3 -B tools/api/main.py

clean:
	rm -rf '$(BUILD)' build-deb build-fresh build-asan build-tsan build-fuzz build-clang build-gcc
