# Both programs for aarch64, cross-built on another machine, and their tests under qemu-user.
# tools/install-deps aarch64 gets the compiler, qemu-user, and the libraries in AARCH64_SYSROOT.

AARCH64_SYSROOT ?= $(CURDIR)/build/sysroot-aarch64
AARCH64_LIB := $(AARCH64_SYSROOT)/usr/lib/aarch64-linux-gnu
AARCH64_MAKE = PKG_CONFIG_LIBDIR='$(AARCH64_LIB)/pkgconfig:$(AARCH64_SYSROOT)/usr/share/pkgconfig' \
	PKG_CONFIG_SYSROOT_DIR='$(AARCH64_SYSROOT)' $(MAKE) --no-print-directory CUDA=0 MPI=0 \
	CC='aarch64-linux-gnu-gcc --sysroot=$(AARCH64_SYSROOT)' AR=aarch64-linux-gnu-ar \
	BUILD=build/aarch64 BIN=build/aarch64/bin

# The programs alone.
aarch64:
	@tools/install-deps aarch64
	+@$(AARCH64_MAKE) programs

test-aarch64:
	@tools/install-deps aarch64
	+@$(AARCH64_MAKE) test-programs
	@SYSROOT='$(AARCH64_SYSROOT)' tests/run-aarch64 $(TESTS)

.PHONY: aarch64 test-aarch64

## make aarch64       both programs for aarch64, in build/aarch64/bin (cross-built, Debian only)
## make test-aarch64  the same, and the tests under qemu-user
