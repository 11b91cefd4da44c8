#!/usr/bin/env bash
# What docs/performance/h200/ holds: the CUDA back end on one GPU, against PyTorch's nanochat where a
# checkout of it is given, in one run on one machine.
#
#   docs/performance/h200.sh OUT compile|throughput|loss
#
# compile: PyTorch compiles its programs for the runs to come, untimed; to save time, not needed.
# Environment: NANOCHAT (bin/nanochat), REF (checkout of karpathy/nanochat at a9de4b1), REF_FP8 (one at
# 92d63d4, whose fp8 it is) and BENCH_TORCH (a program that times their steps and prints a line of JSON:
# CHECKOUT oct|new DEPTH BATCH ACCUM STEPS, FP8=1 in the environment for fp8), DATA and TOKENIZER (for loss).
set -u
OUT=${1:?usage: h200.sh OUT compile|throughput|loss}
NANOCHAT=${NANOCHAT:-bin/nanochat}
export NANOCHAT_BASE_DIR=${NANOCHAT_BASE_DIR:-$(mktemp -d)}
mkdir -p "$OUT"

train() { # LOG OPTIONS…
    local log=$1
    shift
    timeout 280 "$NANOCHAT" base-train --eval-every=0 --sample-every=0 --save-every=0 "$@" >"$OUT/$log" 2>&1 ||
        echo "failed: $log: $(tail -n 1 "$OUT/$log")"
    printf '%-24s ' "${log%.log}"
    # The median of the steps from the fourth on, as of PyTorch's.
    grep '^step' "$OUT/$log" | sed -E 's/.*dt: ([0-9.]+)ms.*tok\/sec: ([0-9,]+).*mfu: ([0-9.]+).*/\1 ms a step, \2 tok\/s, mfu \3/' |
        tail -n +4 | sort -n | awk '{ line[NR] = $0 } END { print line[int((NR + 1) / 2)] }'
}
synthetic() { # LOG DEPTH OPTIONS…
    train "$1" --device-type=cuda --data-source=synthetic --depth="$2" --num-iterations="${STEPS:-9}" "${@:3}"
}
pytorch() { # NAME CHECKOUT oct|new DEPTH STEPS
    [ -n "$2" ] || return 0
    timeout 280 python3 "$BENCH_TORCH" "$2" "$3" "$4" 32 8 "$5" 2>"$OUT/$1.err" | tail -n 1 >"$OUT/$1.json"
    printf '%-24s ' "$1"
    sed -E 's/.*"step_ms": ([0-9.]+).*"tok_per_s": ([0-9]+).*"peak_gib": ([0-9.]+).*/\1 ms a step, \2 tok\/s, peak \3 GiB/' "$OUT/$1.json"
}

compile() {
    local depth
    for depth in ${DEPTHS:-20 12}; do pytorch "d$depth-compile" "${REF:-}" oct "$depth" 4; done
    FP8=1 pytorch fp8-compile "${REF_FP8:-}" new 20 4
}

throughput() {
    local depth
    nvidia-smi --query-gpu=name,driver_version,clocks.sm,power.limit --format=csv >"$OUT/gpu.txt"
    for depth in ${DEPTHS:-20 12}; do
        synthetic "d$depth-bf16-1.log" "$depth"
        pytorch "d$depth-pytorch" "${REF:-}" oct "$depth" "${STEPS:-9}"
        synthetic "d$depth-bf16-2.log" "$depth"
    done
    synthetic d20-fp8-1.log 20 --dtype=fp8
    synthetic d20-fp8-wgrad-1.log 20 --dtype=fp8-wgrad
    FP8=1 pytorch d20-fp8-pytorch "${REF_FP8:-}" new 20 "${STEPS:-9}"
    synthetic d20-fp8-2.log 20 --dtype=fp8
    synthetic d20-fp8-wgrad-2.log 20 --dtype=fp8-wgrad
}

loss() {
    local seed dtype
    local small=(--data-source=text --data="$DATA" --tokenizer="$TOKENIZER" --depth=4 --max-seq-len=256
        --device-batch-size=8 --total-batch-size=2048 --num-iterations=50)
    train d4-cpu.log "${small[@]}"
    OMP_NUM_THREADS=3 train d4-cpu-3threads.log "${small[@]}"
    train d4-float32.log "${small[@]}" --device-type=cuda --dtype=float32
    local d6=(--device-type=cuda --data-source=text --data="$DATA" --tokenizer="$TOKENIZER" --depth=6
        --max-seq-len=512 --device-batch-size=64 --total-batch-size=32768 --num-iterations=300)
    for seed in 1 2 3; do
        # At once: no time counts here, and no algorithm is chosen by it.
        for dtype in ${DTYPES:-bfloat16 fp8 fp8-wgrad float32}; do
            train "d6-$dtype-seed$seed.log" "${d6[@]}" --dtype="$dtype" --seed="$seed" --gemm-plans=first >"$OUT/line-$dtype" &
        done
        wait
        cat "$OUT"/line-*
        rm "$OUT"/line-*
    done
}

"$2"
