# lib/nanochat-nccl-profiler.so: NCCL opens it where NCCL_PROFILER_PLUGIN names it. It needs no
# header of NCCL or CUDA, so it is always built.
NCCL_PROFILER_LIB := $(patsubst ./%,%,$(dir $(patsubst %/,%,$(BIN)))lib/nanochat-nccl-profiler.so)
NCCL_PROFILER_CFLAGS = $(CFLAGS) -fPIC -fvisibility=hidden -I. -D_GNU_SOURCE

programs: $(NCCL_PROFILER_LIB)
$(NCCL_PROFILER_LIB): workload/nccl_profiler/plugin.c workload/nccl_profiler/figures.h $(BUILD)/flags.stamp
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(NCCL_PROFILER_CFLAGS) -shared -o $@ $< -lpthread

nccl_profiler_install = if [ -e $(NCCL_PROFILER_LIB) ]; then install -d $(1) && install -m 755 $(NCCL_PROFILER_LIB) $(1)/; fi
