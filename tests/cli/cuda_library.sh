#!/usr/bin/env bash
# The CUDA back end as an object that is opened: absent, of something else, of another build; and where what the driver
# compiles is kept. No GPU is needed: the objects are stand-ins.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"
export OMP_NUM_THREADS=1 NANOCHAT_BASE_DIR=$T/base NANOCHAT_CUDA_LIB=$T/nanochat-cuda.so
unset CUDA_CACHE_PATH
train() { nanochat base-train "${TINY_TRAINING[@]}" --save-every=0 --num-iterations=1 --device-type=cuda; }
object() { cc -shared -fPIC -x c -o "$NANOCHAT_CUDA_LIB" -; }

check_rc 4 "without the library" train
match "it is named" 'the CUDA back end cannot be opened: .*nanochat-cuda\.so' "$ERR"
match "and how to get it" 'hint: build it with `make CUDA=1`' "$ERR"

object <<<'int nothing;'
check_rc 4 "a library of something else" train
match "it is refused" 'nanochat-cuda\.so is no CUDA back end of this program' "$ERR"

backend='_Bool nanochat_cuda_backend(const char *dtype, void *device, void *kernels) { __builtin_trap(); }'
object <<<"$backend"
check_rc 4 "one that does not tell its build" train
match "it is refused before it is called" 'nanochat-cuda\.so is the CUDA back end of another build' "$ERR"
object <<<"$backend const char nanochat_cuda_interface[] = \"1234\";"
check_rc 4 "one of another build" train
match "it is refused too" 'nanochat-cuda\.so is the CUDA back end of another build' "$ERR"
match "with the way out" 'hint: make builds both' "$ERR"

object <<'END'
#include <stdio.h>
#include <stdlib.h>
__attribute__((constructor)) static void tell(void) { fprintf(stderr, "cache: %s\n", getenv("CUDA_CACHE_PATH")); }
END
check_rc 4 "what the driver compiles" train
match "is kept with nanochat's files" "^cache: $T/base/cuda-cache\$" "$ERR"
CUDA_CACHE_PATH=/elsewhere check_rc 4 "a cache that the user has chosen" train
match "stays" '^cache: /elsewhere$' "$ERR"

finish
