# What this machine has. Each optional feature is auto | 1 | 0: auto takes it where it is found,
# 1 makes it an error to lack it, 0 never looks. One line a feature is printed after the build.

CC ?= cc
ifeq ($(origin CC),default)
CC := cc
endif
AR ?= ar
PKG_CONFIG ?= pkg-config

# Goals that build nothing here, or install first and then call make again, need nothing yet.
ifneq ($(filter-out clean help test test-slurm quickstart aarch64 test-aarch64,$(or $(MAKECMDGOALS),all)),)

# need NAME: a required library, by its pkg-config name.
need = $(if $(shell $(PKG_CONFIG) --exists $(1) && echo yes),,$(error $(1) is missing; run tools/install-deps run))

ifeq ($(shell command -v $(PKG_CONFIG)),)
$(error pkg-config is missing; run tools/install-deps run)
endif
$(foreach p,yaml-0.1 jansson nettle libpcre2-8 zlib,$(call need,$(p)))

pc_cflags = $(shell $(PKG_CONFIG) --cflags $(1) 2>/dev/null)
pc_libs = $(shell $(PKG_CONFIG) --libs $(1) 2>/dev/null)

# ---- BLAS: any library with the CBLAS interface (32-bit integers) -------------------------------
# BLAS=auto | openblas | blis | NAME (linked with -lNAME); BLAS_LIBS gives the linker's words whole,
# as in BLAS=mkl BLAS_LIBS="-lmkl_rt". We use one thread of it a call, so that a serial, a pthread
# and an OpenMP build are alike. The order of auto was measured: docs/performance/notes.md.
BLAS ?= auto
blas_links = $(shell echo 'int cblas_sgemm(void); int main(void) { return cblas_sgemm(); }' | \
	$(CC) -x c -w - -o /dev/null $(1) 2>/dev/null && echo yes)
ifdef BLAS_LIBS
BLAS_FOUND := $(BLAS)
else
BLAS_FOUND := $(firstword $(foreach l,$(if $(filter auto,$(BLAS)),openblas blis cblas,$(BLAS)),$(if $(call blas_links,-l$(l)),$(l))))
BLAS_LIBS := $(addprefix -l,$(BLAS_FOUND))
endif
ifeq ($(BLAS_FOUND),)
$(error no CBLAS can be linked (BLAS=$(BLAS)); run tools/install-deps run, or give BLAS_LIBS="-L… -l…")
endif

# ---- hwloc, PAPI: found by pkg-config ----------------------------------------------------------
# optional VARIABLE,package,what to do: sets VARIABLE_FOUND to yes or nothing, and VARIABLE_WHY.
define optional
$(1) ?= auto
ifeq ($$($(1)),0)
$(1)_FOUND :=
$(1)_WHY := $(1)=0
else
$(1)_FOUND := $$(shell $$(PKG_CONFIG) --exists $(2) && echo yes)
$(1)_WHY := $$(if $$($(1)_FOUND),$$(shell $$(PKG_CONFIG) --modversion $(2)),$(2) not found)
ifeq ($$($(1))$$($(1)_FOUND),1)
$$(error $(1)=1 but $(2) was not found; run tools/install-deps run)
endif
endif
$(1)_HAVE := $$(if $$($(1)_FOUND),1,0)
endef
$(eval $(call optional,HWLOC,hwloc))
$(eval $(call optional,PAPI,papi))

# ---- MPI: a compiler wrapper, and a header for it ------------------------------------------------
# The wrapper of an environment module comes first on PATH, so it is asked and not pkg-config.
MPI ?= auto
MPICC ?= mpicc
ifeq ($(MPI),0)
MPI_FOUND :=
MPI_WHY := MPI=0
else
MPICC_PATH := $(shell command -v "$(MPICC)" 2>/dev/null)
MPI_FOUND := $(if $(MPICC_PATH),$(shell echo | "$(MPICC_PATH)" -include mpi.h -x c -fsyntax-only - 2>/dev/null && echo yes))
MPI_WHY := $(if $(MPI_FOUND),$(MPICC_PATH),$(if $(MPICC_PATH),$(MPICC_PATH) finds no mpi.h,mpicc not found))
ifeq ($(MPI)$(MPI_FOUND),1)
$(error MPI=1 but $(MPI_WHY); run tools/install-deps mpi, or give MPICC=/path/to/mpicc)
endif
endif

# ---- CUDA --------------------------------------------------------------------------------------
CUDA ?= auto
NVCC ?= nvcc
ifeq ($(CUDA),0)
NVCC_PATH :=
CUDA_WHY := CUDA=0
else
# sudo's PATH has no toolkit in it: where one lies is looked at as well.
NVCC_PATH := $(shell command -v "$(NVCC)" 2>/dev/null || command -v "$(or $(CUDA_HOME),/usr/local/cuda)/bin/$(NVCC)" 2>/dev/null)
CUDA_WHY := nvcc not found
ifeq ($(CUDA)$(NVCC_PATH),1)
$(error CUDA=1 but nvcc was not found; put it on PATH, give NVCC=/path/to/nvcc or CUDA_HOME)
endif
endif
endif

feature_report = \
	printf '%-8s %-4s %s\n' BLAS yes '($(BLAS_FOUND))' \
	HWLOC $(if $(HWLOC_FOUND),yes,no) '($(HWLOC_WHY)$(if $(HWLOC_FOUND),,: topology by affinity only))' \
	PAPI $(if $(PAPI_FOUND),yes,no) '($(PAPI_WHY)$(if $(PAPI_FOUND),,: no hardware counters but cycles and instructions))' \
	MPI $(if $(MPI_FOUND),yes,no) '($(MPI_WHY)$(MPI_KEPT))'
