# Flags. V=1 shows the commands; DEVELOPER=1 turns warnings into errors; NATIVE=1 tunes the kernels
# for this very machine. No -Ofast and no -ffast-math: code here tests for NaN.

V ?= 0
Q := $(if $(filter 1,$(V)),,@)
say = $(if $(filter 1,$(V)),@:,@printf '  %-4s %s\n' $(1) $(2))

WARNINGS := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wformat=2 \
	-Wpointer-arith -Wundef -Wno-format-nonliteral
ifeq ($(DEVELOPER),1)
WARNINGS += -Werror
endif

OPT_release := -O2 -D_FORTIFY_SOURCE=2
OPT_asan := -O1 -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
OPT_tsan := -O1 -fsanitize=thread
OPT_fuzz := -O1 -fsanitize=fuzzer-no-link,address,undefined -fno-omit-frame-pointer
OPT_debug := -O0
OPT_coverage := -O0 --coverage
SANITIZE := $(filter -fsanitize=% --coverage,$(OPT_$(CONFIG)))

OPENMP_CFLAGS := -fopenmp
# Errno and floating-point traps are not used by kernels; their NaN rules are kept.
KERNEL_CFLAGS := $(if $(filter release,$(CONFIG)),-O3) -fno-math-errno -fno-trapping-math $(if $(filter 1,$(NATIVE)),-march=native)

OPTIONAL_PACKAGES := $(if $(HWLOC_FOUND),hwloc) $(if $(PAPI_FOUND),papi)
BANNED := -include common/banned.h
CPPFLAGS := -I. -D_GNU_SOURCE -DNCBENCH_VERSION='"$(VERSION)"' -DBUILD_CONFIG='"$(CONFIG)"' \
	-DBLAS_NAME='"$(BLAS_FOUND)"' -DHAVE_HWLOC=$(HWLOC_HAVE) -DHAVE_PAPI=$(PAPI_HAVE) \
	$(call pc_cflags,yaml-0.1 jansson nettle libpcre2-8 zlib $(OPTIONAL_PACKAGES))
CFLAGS := -std=gnu11 -g $(OPT_$(CONFIG)) $(WARNINGS) -fno-common -fstack-protector-strong \
	-fvisibility=hidden -ffile-prefix-map=$(CURDIR)=.
LDFLAGS := $(SANITIZE) -Wl,-z,relro,-z,now -Wl,--as-needed

COMMON_LDLIBS := $(call pc_libs,jansson nettle $(OPTIONAL_PACKAGES)) -lm -pthread
WORKLOAD_LDLIBS := $(BLAS_LIBS) $(call pc_libs,libpcre2-8 zlib) $(OPENMP_CFLAGS) $(COMMON_LDLIBS) -ldl -lrt
HARNESS_LDLIBS := $(call pc_libs,yaml-0.1) $(COMMON_LDLIBS)
