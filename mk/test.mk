# Tests. A unit suite is one file tests/unit/test_<module>.c and becomes one program; a CLI test is
# one script tests/cli/<name>.sh; tests/run runs them all, each with a time limit, and counts.

UNIT_SRC := $(wildcard tests/unit/test_*.c)
UNIT_BIN := $(patsubst tests/unit/%.c,$(BUILD)/unit/%,$(UNIT_SRC))
UNIT_SUPPORT := $(patsubst %.c,$(BUILD)/%.o,$(filter-out $(UNIT_SRC),$(wildcard tests/unit/*.c)))
PAYLOAD := $(BUILD)/payload
FAKE_NVML := $(BUILD)/libnvml-fake.so

$(BUILD)/tests/%.o: CFLAGS += $(OPENMP_CFLAGS)

$(UNIT_BIN): $(BUILD)/unit/%: $(BUILD)/tests/unit/%.o $(UNIT_SUPPORT) \
		$(foreach c,harness runtimes workload kernels common,$(BUILD)/lib$(c).a)
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(WORKLOAD_LDLIBS) $(HARNESS_LDLIBS) -lcunit

# The program that tests run inside containers: static, no library needed.
$(PAYLOAD): $(wildcard tests/payload/*.c)
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 -O1 -g -Wall -Wextra -static -o $@ $^

# Stands for NVIDIA's management library where there is no GPU.
$(FAKE_NVML): tests/nvml/fake_nvml.c
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 -O1 -g -Wall -Wextra -shared -fPIC -o $@ $^

test-programs: programs $(UNIT_BIN) $(if $(wildcard tests/payload/*.c),$(PAYLOAD)) $(FAKE_NVML)

test:
	@tools/install-deps test
	@$(MAKE) --no-print-directory check

# What `make test` does after installing; BUILD and BIN are told to the tests by environment.
check: test-programs
	@BUILD='$(BUILD)' BIN='$(BIN)' CONFIG='$(CONFIG)' tests/run $(TESTS)

# Measurements, not tests: they print, and fail only when they cannot run.
BENCH_BIN := $(patsubst tests/bench/%.c,$(BUILD)/bench/%,$(wildcard tests/bench/*.c))
$(BENCH_BIN): $(BUILD)/bench/%: $(BUILD)/tests/bench/%.o \
		$(foreach c,harness runtimes workload kernels common,$(BUILD)/lib$(c).a)
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(WORKLOAD_LDLIBS) $(HARNESS_LDLIBS)

bench: $(BENCH_BIN)
	$(BUILD)/bench/step
	$(BUILD)/bench/collectors

# Without the CUDA library: it needs a device to run, and a shared library cannot be linked with -z defs under ASan.
asan:
	@$(MAKE) --no-print-directory CONFIG=asan CUDA=0 check

# Real Slurm, started for the test on this machine; needs root.
test-slurm:
	@tools/install-deps slurm
	@$(MAKE) --no-print-directory check TESTS="unit/hostlist unit/slurm cli/slurm"

.PHONY: test check bench asan test-programs test-slurm

## make test          install what is missing, build, run every test: N passed, N failed, N skipped
## make check         the same without installing; TESTS="unit/num cli/launch" runs only those
## make test-slurm    install Slurm, run trials on several virtual nodes of a private one (root)
## make asan          the tests under AddressSanitizer and UBSan
## make bench         a training step against the SGEMM rate of the linked BLAS; what the collectors cost
