# A short run of every fuzz target over its corpus: parsers of outside input must not crash.
# shellcheck source=tests/cli/lib.sh
. tests/cli/lib.sh
if ! command -v clang >/dev/null; then
    echo "clang not found"
    exit 77
fi
# Does clang find what it needs? Asked of a program that is none of ours.
printf '#include <omp.h>\n#include <stddef.h>\nint LLVMFuzzerTestOneInput(const unsigned char *p, size_t n) { return p && n && omp_get_max_threads() < 0; }\n' >"$T/empty.c"
if ! clang -fopenmp -fsanitize=fuzzer,address "$T/empty.c" -o "$T/empty" >"$OUT" 2>&1; then
    echo "clang's fuzzing runtime or OpenMP not found: $(grep -m1 error "$OUT")"
    exit 77
fi
# BUILD and BIN of the tests are in the environment and must not become the fuzz build's.
if ! make -s -j2 CONFIG=fuzz CC=clang CUDA=0 DEVELOPER=0 BUILD=build/fuzz BIN=build/fuzz/bin fuzz-programs >"$OUT" 2>&1; then
    not_ok "the fuzz targets build" "$(grep -m5 error "$OUT")"
    finish
fi
for target in tests/fuzz/*.c; do
    name=$(basename "$target" .c)
    FUZZ_SECONDS=${FUZZ_SECONDS:-5} BUILD=build/fuzz tests/fuzz/run "$name" || tap_failed=1
done
finish
