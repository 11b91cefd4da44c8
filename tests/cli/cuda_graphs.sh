#!/usr/bin/env bash
# What is given to cuDNN, planned for a GPU that is only described: every graph of attention and of the fused products.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"
graphs=$BUILD/gpu/graphs
[ -x "$graphs" ] || { echo "built without cuDNN"; exit 77; }
# The driver's library must be there to be opened; where no driver is, the toolkit's stub.
if ! ldconfig -p | grep -q 'libcuda\.so\.1'; then
    nvcc=$(readlink -f "$(command -v nvcc || echo "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc")")
    stub=$(find "${nvcc%/bin/nvcc}/" -name libcuda.so -path '*stubs*' 2>/dev/null | head -n 1)
    [ -n "$stub" ] || { echo "neither a driver nor the toolkit's stub of it"; exit 77; }
    mkdir "$T/stub"
    ln -s "$stub" "$T/stub/libcuda.so.1"
    export LD_LIBRARY_PATH=$T/stub${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
fi
run "$graphs"
equal "all graphs are planned" "$?" 0
grep -E '^(ok|not ok) ' "$OUT" # a line a graph: the same words as a test's
finish
