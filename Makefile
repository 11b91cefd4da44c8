# ncbench and nanochat. `make help` lists the targets; README.md has the two commands to start with.
#
# Every .c file in a component's folder belongs to it: adding a file needs no change here.
#   common <- kernels <- workload      (bin/nanochat)
#   common <- runtimes <- harness      (bin/ncbench)

MAKEFLAGS += --no-builtin-rules
.SUFFIXES:
.DELETE_ON_ERROR:

VERSION := 0.1.0
CONFIG ?= release
BUILD ?= build/$(CONFIG)
# Where the two programs go: bin/ for the release build, inside the build folder for the others.
BIN ?= $(if $(filter release,$(CONFIG)),bin,$(BUILD)/bin)
PREFIX ?= /usr/local

all: programs

include mk/features.mk
include mk/flags.mk

# ---- components --------------------------------------------------------------------------------
common_SRC := $(wildcard common/*.c)
kernels_SRC := $(wildcard kernels/*.c kernels/cpu/*.c)
workload_SRC := $(filter-out workload/main.c,$(wildcard workload/*.c))
runtimes_SRC := $(wildcard runtimes/*.c)
harness_SRC := $(filter-out harness/main.c,$(wildcard harness/*.c harness/*/*.c))
COMPONENTS := common kernels workload runtimes harness

object = $(patsubst %.c,$(BUILD)/%.o,$(1))
define component
$(BUILD)/lib$(1).a: $(call object,$($(1)_SRC))
	$$(call say,AR,$$@)
	@rm -f $$@
	$$(Q)$$(AR) rcsD $$@ $$^
endef
$(foreach c,$(COMPONENTS),$(eval $(call component,$(c))))

WORKLOAD_LIBS := $(foreach c,workload kernels common,$(BUILD)/lib$(c).a)
HARNESS_LIBS := $(foreach c,harness runtimes common,$(BUILD)/lib$(c).a)

programs: $(BIN)/nanochat $(BIN)/ncbench
	@$(feature_report)
	@$(cuda_report)

$(BIN)/nanochat: $(BUILD)/workload/main.o $(WORKLOAD_LIBS)
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(WORKLOAD_LDLIBS)

$(BIN)/ncbench: $(BUILD)/harness/main.o $(HARNESS_LIBS)
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(HARNESS_LDLIBS)

# A change of flags rebuilds: what the compiler is told is written down, and every object depends on
# it. One variable of its own, since CFLAGS differs from goal to goal.
STAMP := $(CC) | $(CFLAGS) | $(CPPFLAGS) | $(OPENMP_CFLAGS) | $(KERNEL_CFLAGS)
# write_stamp TEXT: only where it is another one than before.
write_stamp = @mkdir -p $(@D) && printf '%s\n' $(call quote,$(1)) | cmp -s - $@ || printf '%s\n' $(call quote,$(1)) > $@
quote = '$(subst ','\'',$(1))'
$(BUILD)/flags.stamp: FORCE
	$(call write_stamp,$(STAMP))

$(BUILD)/kernels/%.o $(BUILD)/workload/%.o: CFLAGS += $(OPENMP_CFLAGS)
$(BUILD)/kernels/%.o: CFLAGS += $(KERNEL_CFLAGS)

$(BUILD)/%.o: %.c $(BUILD)/flags.stamp
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(CPPFLAGS) $(BANNED) -MMD -MP -c -o $@ $<

# The plot templates lie inside the program.
$(BUILD)/harness/plot_templates.o: $(wildcard plots/*.gp)

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)

include mk/cuda.mk
include mk/mpi.mk
include mk/nccl_profiler.mk
include mk/test.mk
include mk/lint.mk
include mk/fuzz.mk
include mk/aarch64.mk
include mk/quickstart.mk

docs: programs
	$(BIN)/ncbench check --reference > docs/configuration.md

install: programs
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/share/man/man1
	install -m 755 $(BIN)/nanochat $(BIN)/ncbench $(DESTDIR)$(PREFIX)/bin/
	$(call cuda_install,$(DESTDIR)$(PREFIX)/lib)
	$(call mpi_install,$(DESTDIR)$(PREFIX)/lib)
	$(call nccl_profiler_install,$(DESTDIR)$(PREFIX)/lib)
	$(BIN)/nanochat man > $(DESTDIR)$(PREFIX)/share/man/man1/nanochat.1
	$(BIN)/ncbench man > $(DESTDIR)$(PREFIX)/share/man/man1/ncbench.1

uninstall:
	rm -f $(DESTDIR)$(PREFIX)/bin/nanochat $(DESTDIR)$(PREFIX)/bin/ncbench
	rm -f $(DESTDIR)$(PREFIX)/lib/nanochat-cuda.so $(DESTDIR)$(PREFIX)/lib/nanochat-mpi.so $(DESTDIR)$(PREFIX)/lib/nanochat-nccl-profiler.so
	rm -f $(DESTDIR)$(PREFIX)/share/man/man1/nanochat.1 $(DESTDIR)$(PREFIX)/share/man/man1/ncbench.1

clean:
	rm -rf build bin lib

help:
	@sed -n 's/^## //p' $(MAKEFILE_LIST)

FORCE:
.PHONY: all programs docs install uninstall clean help FORCE

## make               both programs, optimised, with what this machine has (bin/)
## make install       into PREFIX (default /usr/local), DESTDIR honoured
## make docs          docs/configuration.md, from the schema of scenarios
## make clean         remove build/, bin/ and lib/
