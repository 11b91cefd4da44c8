#!/usr/bin/env bash
# What docs/performance/h200/ holds: the CUDA back end on one GPU, against PyTorch's nanochat where a
# checkout of it is given, in one run on one machine.
#
#   docs/performance/h200.sh OUT throughput|loss
#
# Environment: NANOCHAT (bin/nanochat), REF (checkout of karpathy/nanochat at a9de4b1) and BENCH_TORCH
# (a program that times its steps: REF "oct" DEPTH BATCH ACCUM STEPS), DATA and TOKENIZER (for loss).
set -u
OUT=${1:?usage: h200.sh OUT throughput|loss}
NANOCHAT=${NANOCHAT:-bin/nanochat}
export NANOCHAT_BASE_DIR=${NANOCHAT_BASE_DIR:-$(mktemp -d)}
mkdir -p "$OUT"

train() { # LOG OPTIONS…
    local log=$1
    shift
    timeout 280 "$NANOCHAT" base-train --eval-every=0 --sample-every=0 --save-every=0 "$@" >"$OUT/$log" 2>&1 ||
        echo "failed: $log: $(tail -n 1 "$OUT/$log")"
    printf '%-34s ' "${log%.log}"
    grep '^step' "$OUT/$log" | tail -n 1 | sed 's/ | lrm.*dt/ | dt/'
}

throughput() {
    local depth
    nvidia-smi --query-gpu=name,driver_version,clocks.sm,power.limit --format=csv >"$OUT/gpu.txt"
    for depth in ${DEPTHS:-20 12}; do
        train "d$depth-bf16-1.log" --device-type=cuda --data-source=synthetic --depth="$depth" --num-iterations=9
        if [ -n "${REF:-}" ]; then
            timeout 280 python3 "$BENCH_TORCH" "$REF" oct "$depth" 32 8 9 2>"$OUT/d$depth-pytorch.err" | tail -n 1 | tee "$OUT/d$depth-pytorch.json"
        fi
        train "d$depth-bf16-2.log" --device-type=cuda --data-source=synthetic --depth="$depth" --num-iterations=9
    done
    train d20-fp8.log --device-type=cuda --data-source=synthetic --depth=20 --num-iterations=9 --dtype=fp8
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
