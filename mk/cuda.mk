# The CUDA back end: lib/nanochat-cuda.so beside bin/, opened at run time for --device-type=cuda; the programs
# themselves never link CUDA. Needs nvcc, cudart and cuBLASLt; cuDNN and NCCL where they are found.
# Neither a GPU nor a driver is needed to build, and none is asked for.
#
#   CUDA=auto|1|0   CUDA_ARCHS="80 90"   CUDA_HOME=/usr/local/cuda

CUDA_ARCHS ?= 80 90
ifneq ($(NVCC_PATH),)
CUDA_HOME ?= $(patsubst %/bin/,%,$(dir $(shell readlink -f "$(NVCC_PATH)")))
# Libraries also come as Python packages (site-packages/nvidia/*/{include,lib}).
CUDA_PIP := $(wildcard $(addsuffix /nvidia/*,$(shell python3 -c 'import site; print(" ".join(site.getsitepackages()))' 2>/dev/null)))
CUDA_INCLUDES := $(wildcard $(CUDA_HOME)/include $(addsuffix /include,$(CUDA_PIP)))
CUDA_LIBDIRS := $(wildcard $(CUDA_HOME)/lib64 $(CUDA_HOME)/lib $(addsuffix /lib,$(CUDA_PIP)))
cuda_header = $(firstword $(wildcard $(addsuffix /$(1),$(CUDA_INCLUDES))))
# The plain name where there is one, else the versioned file itself (Python packages have no links).
cuda_library = $(firstword $(wildcard $(addsuffix /lib$(1).so,$(CUDA_LIBDIRS))) $(wildcard $(addsuffix /lib$(1).so.*,$(CUDA_LIBDIRS))))

CUDA_CUDNN := $(if $(call cuda_header,cudnn_backend.h),$(call cuda_library,cudnn))
# Only NCCL's header is needed: the library is opened when there are several GPUs.
CUDA_NCCL := $(call cuda_header,nccl.h)
CUDA_CUBLASLT := $(if $(call cuda_header,cublasLt.h),$(call cuda_library,cublasLt))
CUDA_CUDART := $(call cuda_library,cudart)
ifneq ($(word 2,$(NVCC_PATH)),)
CUDA_WHY := the path of nvcc has a space in it; give a link without one
CUDA_CUBLASLT :=
else ifeq ($(and $(CUDA_CUBLASLT),$(CUDA_CUDART)),)
CUDA_WHY := cublasLt or cudart not found below $(CUDA_HOME)
endif
ifeq ($(and $(CUDA_CUBLASLT),$(CUDA_CUDART)),)
ifeq ($(CUDA),1)
$(error CUDA=1 but $(CUDA_WHY))
endif
NVCC_PATH :=
endif
endif

# What program and library must agree on; each is compiled with the checksum of it.
CUDA_INTERFACE := $(shell cat common/error.h kernels/kernels.h kernels/plan_store.h kernels/collectives.h kernels/cuda/backend.h | cksum | tr -d ' ')
$(BUILD)/kernels/device_cuda.o: CPPFLAGS += -DCUDA_INTERFACE='"$(CUDA_INTERFACE)"'

# Where the program looks: lib/ beside the folder of the programs, whatever CONFIG and BIN are.
CUDA_LIB := $(patsubst ./%,%,$(dir $(patsubst %/,%,$(BIN)))lib/nanochat-cuda.so)
CUDA_BUILD := $(BUILD)/cuda

ifneq ($(NVCC_PATH),)
CUDA_CU := $(wildcard kernels/cuda/*.cu)
CUDA_C := $(wildcard kernels/cuda/*.c)
# A shared object cannot take the program's hidden symbols: it has its own copies of these.
CUDA_COMMON := common/error.c common/mem.c common/log.c kernels/peaks.c kernels/plan_store.c
CUDA_OBJ := $(CUDA_CU:%.cu=$(CUDA_BUILD)/%.o) $(CUDA_C:%.c=$(CUDA_BUILD)/%.o) $(CUDA_COMMON:%.c=$(CUDA_BUILD)/%.o)
CUDA_DEFINES := -I. -D_GNU_SOURCE -DCUDA_INTERFACE='"$(CUDA_INTERFACE)"' $(addprefix -isystem ,$(CUDA_INCLUDES)) $(if $(CUDA_CUDNN),-DHAVE_CUDNN) \
	$(if $(CUDA_NCCL),-DHAVE_NCCL)
CUDA_GENCODE := $(foreach a,$(CUDA_ARCHS),-gencode arch=compute_$(a),code=sm_$(a)) \
	-gencode arch=compute_$(lastword $(CUDA_ARCHS)),code=compute_$(lastword $(CUDA_ARCHS))

# The library has flags of its own: a build without it must not undo its objects.
CUDA_STAMP := $(STAMP) | $(NVCC_PATH) | $(CUDA_GENCODE) | $(CUDA_DEFINES) | $(CUDA_CUBLASLT) $(CUDA_CUDNN) $(CUDA_CUDART)
$(CUDA_BUILD)/flags.stamp: FORCE
	$(call write_stamp,$(CUDA_STAMP))

programs: $(CUDA_LIB)
$(CUDA_LIB): $(CUDA_OBJ)
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) -shared -o $@ $^ -Wl,--exclude-libs,ALL -Wl,-z,defs $(CUDA_CUBLASLT) $(CUDA_CUDNN) $(CUDA_CUDART) \
		$(foreach d,$(sort $(dir $(CUDA_CUBLASLT) $(CUDA_CUDNN) $(CUDA_CUDART) $(call cuda_library,nccl))),-Wl,-rpath,$(d)) -lstdc++ -lm -ldl -lpthread

$(CUDA_BUILD)/%.o: %.cu $(CUDA_BUILD)/flags.stamp
	$(call say,NVCC,$<)
	@mkdir -p $(@D)
	$(Q)"$(NVCC_PATH)" -std=c++17 -O3 $(CUDA_GENCODE) $(CUDA_DEFINES) -Xcompiler -fPIC,-fvisibility=hidden,-Wall -MMD -MP -c -o $@ $<
$(CUDA_BUILD)/%.o: %.c $(CUDA_BUILD)/flags.stamp
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) -fPIC $(CUDA_DEFINES) -MMD -MP -c -o $@ $<
else
# That of an earlier build is another one's to remove: no nvcc on a PATH (sudo's) is no wish to be without it. It is told.
CUDA_KEPT = $(if $(wildcard $(CUDA_LIB)),; $(CUDA_LIB) of an earlier build stays)
endif

# What lies in lib/, whoever built it: CUDA=0 alone installs none, and takes an installed one away.
cuda_install = $(if $(filter 0,$(CUDA)),rm -f $(1)/nanochat-cuda.so,\
	if [ -e $(CUDA_LIB) ]; then install -d $(1) && install -m 755 $(CUDA_LIB) $(1)/; fi)

cuda_report = printf '%-8s %-4s %s\n' CUDA $(if $(NVCC_PATH),yes '($(CUDA_ARCHS); cuDNN $(if $(CUDA_CUDNN),yes,no), NCCL $(if $(CUDA_NCCL),yes,no))',no '($(CUDA_WHY)$(CUDA_KEPT))')

# ---- GPU tests: built anywhere, run on a machine with a GPU by tests/gpu/run ----------------------
GPU_TESTS := $(patsubst tests/gpu/%.c,$(BUILD)/gpu/%,$(filter-out tests/gpu/graphs.c,$(wildcard tests/gpu/*.c)))
$(GPU_TESTS): $(BUILD)/gpu/%: $(BUILD)/tests/gpu/%.o $(WORKLOAD_LIBS)
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(WORKLOAD_LDLIBS)

# cuDNN's graphs, against a described GPU: a test for any machine that has cuDNN.
ifneq ($(and $(NVCC_PATH),$(CUDA_CUDNN)),)
$(BUILD)/gpu/graphs: tests/gpu/graphs.c $(addprefix $(CUDA_BUILD)/,kernels/cuda/cudnn_graph.o kernels/cuda/gemm_relu2.o \
		kernels/cuda/sdpa.o $(CUDA_COMMON:%.c=%.o))
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(CUDA_DEFINES) -o $@ $^ $(CUDA_CUDNN) $(CUDA_CUDART) -Wl,-rpath,$(dir $(CUDA_CUDNN)),-rpath,$(dir $(CUDA_CUDART)) \
		-lm -lpthread
test-programs: $(BUILD)/gpu/graphs
endif

gpu-tests: programs $(GPU_TESTS) $(BUILD)/unit/test_golden
.PHONY: gpu-tests

## make gpu-tests     build the tests that need a GPU; tests/gpu/run runs them
gpu-tests: $(BUILD)/bench/gpu_ops
