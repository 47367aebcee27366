# SPDX-License-Identifier: MIT
# One Makefile for all; every output stands under build/ (build-address-undefined/ with SANITIZE).
PREFIX   ?= /usr/local
SANITIZE ?=
VERSION  := 0.1.0
comma := ,
BUILD := build$(if $(SANITIZE),-$(subst $(comma),-,$(SANITIZE)))
SAN   := $(if $(SANITIZE),-fsanitize=$(SANITIZE) -fno-sanitize-recover=all -fno-omit-frame-pointer)

PACKAGES := libunwind-ptrace libunwind-generic libdw libelf zlib jansson
PKG_CONFIG ?= pkg-config
# What can be done without: .gnu_debugdata is not read then.
HAVE_LIBLZMA := $(shell $(PKG_CONFIG) --exists liblzma 2>/dev/null && echo yes)
# ... and compressed debug information takes twice as long to read.
HAVE_LIBDEFLATE := $(shell $(PKG_CONFIG) --exists libdeflate 2>/dev/null && echo yes)
# ... and core files packed by zstd are not read.
HAVE_ZSTD := $(shell $(PKG_CONFIG) --exists libzstd 2>/dev/null && echo yes)
# ... and pprof's profiles are neither written nor read.
HAVE_PROTOBUF_C := $(if $(shell command -v protoc-c 2>/dev/null),$(shell $(PKG_CONFIG) --exists libprotobuf-c 2>/dev/null && echo yes))
# ... and --open shows no .firefox.json. Its header alone: the library is loaded at use.
HAVE_LIBMICROHTTPD := $(shell $(PKG_CONFIG) --exists 'libmicrohttpd >= 0.9.72' 2>/dev/null && echo yes)
ifneq ($(filter-out clean help check-sizes format-check dist fuzz,$(or $(MAKECMDGOALS),all)),)
ifneq ($(shell uname -m),x86_64)
$(error this profiler is for x86-64 Linux only, this machine is $(shell uname -m))
endif
ifneq ($(shell $(PKG_CONFIG) --exists $(PACKAGES) && echo yes),yes)
$(error libraries are missing: apt-get install pkg-config libunwind-dev libdw-dev libelf-dev libiberty-dev zlib1g-dev libjansson-dev libzydis-dev (or run ./bootstrap demo))
endif
endif
override PACKAGES += $(if $(HAVE_LIBLZMA),liblzma) $(if $(HAVE_LIBDEFLATE),libdeflate) \
	$(if $(HAVE_PROTOBUF_C),libprotobuf-c) $(if $(HAVE_ZSTD),libzstd)
PKG_CFLAGS := $(shell $(PKG_CONFIG) --cflags $(PACKAGES) 2>/dev/null) \
	$(if $(HAVE_LIBLZMA),-DHAVE_LIBLZMA) $(if $(HAVE_LIBDEFLATE),-DHAVE_LIBDEFLATE) \
	$(if $(HAVE_PROTOBUF_C),-DHAVE_PROTOBUF_C) $(if $(HAVE_ZSTD),-DHAVE_ZSTD) \
	$(if $(HAVE_LIBMICROHTTPD),-DHAVE_LIBMICROHTTPD $(shell $(PKG_CONFIG) --cflags libmicrohttpd))
LIBIBERTY ?= -liberty
LIBZYDIS ?= -lZydis
LIBS = $(shell $(PKG_CONFIG) --libs $(PACKAGES)) -lunwind-x86_64 $(LIBIBERTY) $(LIBZYDIS) -lm -pthread

WARN := -Wall -Wextra -Wstrict-prototypes -Wmissing-prototypes -Wwrite-strings -Wvla -Wshadow \
	$(if $(filter 1,$(WERROR)),-Werror)
ALL_CFLAGS = -std=gnu11 -D_GNU_SOURCE -DVERSION='"$(VERSION)"' -iquote . -iquote $(BUILD) -O2 -g -pthread \
	$(WARN) $(PKG_CFLAGS) $(SAN) $(CPPFLAGS) $(CFLAGS)
say = $(if $(filter 1,$(V)),,@printf '  %-5s %s\n' $(1) $(2);)

FOLDERS  := base files x86 elf names stripped profile target modules cfi unwind python symbolize cython frames copy capture \
	merge record dump replay read view pictures viewers output
SOURCES  := $(sort $(foreach d,$(FOLDERS) src,$(wildcard $(d)/*.c)))
HEADERS  := $(sort $(foreach d,$(FOLDERS) src,$(wildcard $(d)/*.h)))
COMMANDS := pdump precord preport cyfilt
MAINS    := $(COMMANDS:%=src/%.c)
PARTS    := $(filter-out $(MAINS),$(SOURCES))
PART_OBJECTS := $(PARTS:%.c=$(BUILD)/%.o) $(if $(HAVE_PROTOBUF_C),$(BUILD)/profile/pprof.pb-c.o)
LIBRARY_OBJECTS := $(filter-out $(BUILD)/src/%,$(PART_OBJECTS))
FUZZ_NAMES := $(patsubst tests/fuzz/%.c,%,$(wildcard tests/fuzz/*_fuzz.c))
UNIT_TESTS := $(patsubst tests/unit/%.c,$(BUILD)/tests/unit/%,$(wildcard tests/unit/*_test.c)) \
	$(FUZZ_NAMES:%=$(BUILD)/tests/unit/%_test)
TEST_TOOLS := $(patsubst tests/tools/%.c,$(BUILD)/tests/tools/%,$(wildcard tests/tools/*.c))
OBJECTS  := $(SOURCES:%.c=$(BUILD)/%.o)

all: $(COMMANDS:%=$(BUILD)/%)

$(COMMANDS:%=$(BUILD)/%): $(BUILD)/%: $(BUILD)/src/%.o $(PART_OBJECTS)
	$(call say,LD,$@)$(CC) $(ALL_CFLAGS) -o $@ $^ $(LDFLAGS) $(LIBS)

$(BUILD)/%.o: %.c $(BUILD)/.flags
	@mkdir -p $(@D)
	$(call say,CC,$<)$(CC) $(ALL_CFLAGS) -include base/banned.h -MMD -MP -c -o $@ $<

# Changes only when the flags do, so that other flags mean a rebuild.
$(BUILD)/.flags: FORCE
	@mkdir -p $(@D); echo '$(CC) $(ALL_CFLAGS)' | cmp -s - $@ || echo '$(CC) $(ALL_CFLAGS)' > $@

# The SVG's script, as a C array: pictures/svg.js stays a file that an editor understands.
$(BUILD)/pictures/svg.o: $(BUILD)/pictures/svg_script.h
$(BUILD)/pictures/svg_script.h: pictures/svg.js
	@mkdir -p $(@D)
	$(call say,GEN,$@)od -An -v -tx1 $< | sed 's/\([0-9a-f][0-9a-f]\)/0x\1,/g' | \
	(echo 'static const char svg_script[] = {'; cat; echo '0};') > $@

# pprof's profiles, as C: to be there before what includes it is compiled for the first time.
$(BUILD)/profile/pprof.pb-c.c: profile/pprof.proto
	@mkdir -p $(@D)
	$(call say,GEN,$@)protoc-c --c_out=$(BUILD) $<
$(BUILD)/profile/pprof.pb-c.o: $(BUILD)/profile/pprof.pb-c.c $(BUILD)/.flags
	$(call say,CC,$<)$(CC) $(ALL_CFLAGS) -w -c -o $@ $<
$(BUILD)/viewers/pprof.o $(BUILD)/read/read_pprof.o: $(if $(HAVE_PROTOBUF_C),$(BUILD)/profile/pprof.pb-c.c)

# The report's page, likewise: pictures/page/ and the libraries that it has inside.
$(BUILD)/pictures/html.o: $(BUILD)/pictures/page_files.h
$(BUILD)/pictures/page_files.h: $(wildcard pictures/page/* pictures/page/vendor/*)
	@mkdir -p $(@D)
	$(call say,GEN,$@)pictures/page/embed $(abspath $(@D)) > $@

$(BUILD)/tests/%: tests/%.c $(LIBRARY_OBJECTS) $(BUILD)/.flags
	@mkdir -p $(@D)
	$(call say,TEST,$@)$(CC) $(ALL_CFLAGS) -MMD -MP -o $@ $< $(LIBRARY_OBJECTS) $(LDFLAGS) -lcmocka $(LIBS)

# Its faults stand between the reader of captures and the decoder.
$(BUILD)/tests/tools/replay_faults: LDFLAGS += -Wl,--wrap=merge_decode,--wrap=decoder_new,--wrap=decoder_open_python

# A fuzz target as a unit test: its corpus, once.
$(BUILD)/tests/unit/%_fuzz_test: tests/fuzz/%_fuzz.c $(LIBRARY_OBJECTS) $(BUILD)/.flags
	@mkdir -p $(@D)
	$(call say,TEST,$@)$(CC) $(ALL_CFLAGS) -DFUZZ_REPLAY='"$*_fuzz"' -MMD -MP -o $@ $< $(LIBRARY_OBJECTS) \
		$(LDFLAGS) -lcmocka $(LIBS)

# ... and as libFuzzer wants it; only with SANITIZE=...,fuzzer-no-link, as tests/fuzz/run says.
$(BUILD)/tests/fuzz/%: tests/fuzz/%.c $(LIBRARY_OBJECTS) $(BUILD)/.flags
	@mkdir -p $(@D)
	$(call say,FUZZ,$@)$(CC) $(ALL_CFLAGS) -fsanitize=fuzzer -MMD -MP -o $@ $< $(LIBRARY_OBJECTS) \
		$(LDFLAGS) $(LIBS)

fuzz-targets: $(FUZZ_NAMES:%=$(BUILD)/tests/fuzz/%)

# FUZZ_SECONDS for each target (20) or FUZZ_RUNS inputs, FUZZ="NAME..." for some of them.
fuzz:
	@tests/fuzz/run $(FUZZ)

tests: $(UNIT_TESTS) $(TEST_TOOLS)

CHECKS := format-check check-layers check-headers check-sizes

check: all tests $(CHECKS)
	@BUILD=$(BUILD) tests/run

# On every interpreter that can be got, every test on each: takes hours.
check-matrix: all tests $(CHECKS)
	-@tests/interpreters --fetch
	@ALL=1 TEST_TIMEOUT=$${TEST_TIMEOUT:-7200} BUILD=$(BUILD) tests/run

check-unit: $(UNIT_TESTS)
	@BUILD=$(BUILD) tests/run unit

# Includes, which show structs and inline functions, and calls, as the object files have them.
check-layers: $(OBJECTS)
	@awk -f tests/layers.awk tests/layers.txt $(SOURCES) $(HEADERS)
	@nm -A $(OBJECTS) | awk -f tests/calls.awk tests/layers.txt -

# Every header compiles alone.
check-headers: $(HEADERS:%.h=$(BUILD)/%.h.ok)
$(BUILD)/%.h.ok: %.h $(BUILD)/.flags
	@mkdir -p $(@D)
	$(call say,HDR,$<)$(CC) $(ALL_CFLAGS) -fsyntax-only -x c $< && touch $@

# Folders, headers, structs and functions that can be read at once; tests/sizes -l lists the largest.
check-sizes:
	@tests/sizes

format-check:
	@if command -v clang-format > /dev/null; then clang-format --dry-run --Werror $(SOURCES) $(HEADERS); \
	else echo "skip  format-check: there is no clang-format"; fi

bench: all $(BUILD)/tests/tools/symbolize_many $(BUILD)/tests/tools/count_stacks
	@BUILD=$(BUILD) bench/run

install: all
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/share/man/man1 \
		$(DESTDIR)$(PREFIX)/share/bash-completion/completions \
		$(DESTDIR)$(PREFIX)/share/zsh/site-functions \
		$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d
	install -m 755 $(COMMANDS:%=$(BUILD)/%) $(DESTDIR)$(PREFIX)/bin
	install -m 644 $(COMMANDS:%=docs/%.1) $(DESTDIR)$(PREFIX)/share/man/man1
	for c in $(COMMANDS); do \
		install -m 644 completions/$$c.bash $(DESTDIR)$(PREFIX)/share/bash-completion/completions/$$c; \
		install -m 644 completions/$$c.zsh $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_$$c; \
		install -m 644 completions/$$c.fish $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/$$c.fish; \
	done

uninstall:
	for c in $(COMMANDS); do \
		rm -f $(DESTDIR)$(PREFIX)/bin/$$c $(DESTDIR)$(PREFIX)/share/man/man1/$$c.1 \
		$(DESTDIR)$(PREFIX)/share/bash-completion/completions/$$c \
		$(DESTDIR)$(PREFIX)/share/zsh/site-functions/_$$c \
		$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/$$c.fish; \
	done

dist:
	git archive --prefix=pdump-$(VERSION)/ -o pdump-$(VERSION).tar.gz HEAD

clean:
	rm -rf build build-*

-include $(OBJECTS:.o=.d) $(UNIT_TESTS:%=%.d) $(TEST_TOOLS:%=%.d) $(FUZZ_NAMES:%=$(BUILD)/tests/fuzz/%.d)
.DELETE_ON_ERROR:
.PHONY: all tests check check-matrix check-unit check-layers check-headers check-sizes format-check fuzz fuzz-targets bench install uninstall \
	dist clean FORCE
FORCE:
