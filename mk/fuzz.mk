# Fuzzing with libFuzzer (clang). A target is one file tests/fuzz/<name>.c with
# LLVMFuzzerTestOneInput; its seeds are tests/fuzz/corpus/<name>/ and its dictionary, if any,
# tests/fuzz/<name>.dict. Every crasher stays in the corpus for ever.

FUZZ_SRC := $(wildcard tests/fuzz/*.c)
FUZZ_NAMES := $(patsubst tests/fuzz/%.c,%,$(FUZZ_SRC))
FUZZ_SECONDS ?= 10

ifeq ($(CONFIG),fuzz)
FUZZ_BIN := $(FUZZ_NAMES:%=$(BUILD)/fuzz/%)
$(FUZZ_BIN): $(BUILD)/fuzz/%: $(BUILD)/tests/fuzz/%.o \
		$(foreach c,harness runtimes workload kernels common,$(BUILD)/lib$(c).a)
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) -fsanitize=fuzzer,address,undefined -o $@ $^ $(WORKLOAD_LDLIBS) $(HARNESS_LDLIBS)
fuzz-programs: $(FUZZ_BIN)
else
fuzz-programs:
	@$(MAKE) --no-print-directory CONFIG=fuzz CC=clang CUDA=0 fuzz-programs
endif

# A short run of every target; `make fuzz FUZZ_SECONDS=3600` for a long one.
fuzz: fuzz-programs
	@FUZZ_SECONDS=$(FUZZ_SECONDS) BUILD=build/fuzz tests/fuzz/run $(FUZZ_NAMES)

.PHONY: fuzz fuzz-programs

## make fuzz          every fuzz target for FUZZ_SECONDS (default 10) each
