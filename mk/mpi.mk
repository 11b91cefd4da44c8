# The MPI back end: lib/nanochat-mpi.so beside bin/, opened at run time for --comm=mpi; the programs
# themselves never link MPI.
#
#   MPI=auto|1|0   MPICC=mpicc

# Where the program looks: lib/ beside the folder of the programs, whatever CONFIG and BIN are.
MPI_LIB := $(patsubst ./%,%,$(dir $(patsubst %/,%,$(BIN)))lib/nanochat-mpi.so)

ifeq ($(MPI_FOUND),yes)
MPI_BUILD := $(BUILD)/mpi
MPI_OBJ := $(patsubst workload/mpi/%.c,$(MPI_BUILD)/%.o,$(wildcard workload/mpi/*.c))
# Of its own: no sanitizer, whose functions -z defs would miss; MPI's header is not ours to mend.
MPI_CFLAGS = $(filter-out -fsanitize% -fno-sanitize% --coverage -Wundef -Wstrict-prototypes,$(CFLAGS)) -fPIC -I. -D_GNU_SOURCE
$(MPI_BUILD)/flags.stamp: FORCE
	$(call write_stamp,$(MPICC_PATH) | $(MPI_CFLAGS))

programs: $(MPI_LIB)
$(MPI_LIB): $(MPI_OBJ)
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)"$(MPICC_PATH)" -shared -o $@ $^ -Wl,-z,defs

$(MPI_BUILD)/%.o: workload/mpi/%.c $(MPI_BUILD)/flags.stamp
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)"$(MPICC_PATH)" $(MPI_CFLAGS) -MMD -MP -c -o $@ $<
else
# That of an earlier build stays, as the CUDA library does.
MPI_KEPT = $(if $(wildcard $(MPI_LIB)),; $(MPI_LIB) of an earlier build stays)
endif

# As for CUDA: MPI=0 alone installs none, and takes an installed one away.
mpi_install = $(if $(filter 0,$(MPI)),rm -f $(1)/nanochat-mpi.so,\
	if [ -e $(MPI_LIB) ]; then install -d $(1) && install -m 755 $(MPI_LIB) $(1)/; fi)
