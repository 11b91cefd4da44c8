#!/usr/bin/env bash
# Training by CUDA graphs and without, on one GPU: tests/gpu/graphs.sh [NANOCHAT]. TAP; builds nothing; about
# two minutes. Events stay in $OUT where that is set. "graphs.sh NANOCHAT measure [DEPTH …]" times instead: milliseconds of a
# step without graphs and with them, and what auto decides.
# shellcheck source=tests/gpu/lib.sh
. "$(dirname "$0")/lib.sh"
export NANOCHAT_BASE_DIR=$T/base # plans of its own
run() { # NAME OPTIONS...
    local name=$1
    shift
    rm -rf "${T:?}/$name" && mkdir -p "$T/$name"
    NCBENCH_TRIAL_DIR=$T/$name timeout 200 "$NANOCHAT" base-train --device-type=cuda --data-source=synthetic \
        --eval-every=-1 --sample-every=-1 --peak-time=0s --checkpoint-dir="$T/$name/checkpoint" "$@" \
        >"$T/$name/log" 2>&1 </dev/null
    local rc=$?
    [ $rc -eq 0 ] || tail -n 5 "$T/$name/log" | sed 's/^/# /'
    return $rc
}
events() { grep -h "\"event\":\"$2\"" "$T/$1/events.rank00000.jsonl"; }
# NAME FIELD: of the summary's cuda_graphs
graphs() {
    events "$1" summary | sed -nE 's/.*"cuda_graphs":\{([^}]*)\}.*/\1/p' | tr , '\n' | sed -nE "s/^\"$2\":\"?([^\"]*)\"?$/\1/p"
}
# Loss and norm of every step, to the last digit.
numbers() { events "$1" step | sed -E 's/.*"loss":([^,]*),"grad_norm":([^,]*),.*/\1 \2/'; }
weights() { (cd "$T/$1/checkpoint" && find . -name '*.safetensors' -exec sha256sum {} + | sort); }
median_ms() { # of the steps from the tenth on
    events "$1" step | sed -E 's/.*"step":([0-9]+),.*"t_start_s":([0-9.]+),"t_end_s":([0-9.]+),.*/\1 \2 \3/' |
        awk '$1 >= 10 { printf "%.4f\n", ($3 - $2) * 1e3 }' | sort -n | awk '{ x[NR] = $1 } END { print x[int((NR + 1) / 2)] }'
}

if [ "${2:-}" = measure ]; then
    shift 2
    [ $# -gt 0 ] || set -- 4 12
    for depth in "$@"; do
        size="--depth=4 --max-seq-len=256 --device-batch-size=4 --total-batch-size=4096 --vocab-size=4096"
        [ "$depth" = 4 ] || size="--depth=$depth --max-seq-len=2048 --device-batch-size=8 --total-batch-size=65536 --vocab-size=65536"
        for graphs in off on off on auto; do
            # shellcheck disable=SC2086
            run measured $size --num-iterations=60 --save-every=0 --cuda-graphs=$graphs || exit 1
            echo "d$depth --cuda-graphs=$graphs: $(median_ms measured) ms a step; used: $(graphs measured used)," \
                "$(graphs measured because), queue share $(graphs measured queue_share)"
        done
    done
    exit
fi

for dtype in bfloat16 float32; do
    for graphs in off on; do
        run "$dtype-$graphs" --depth=4 --max-seq-len=256 --device-batch-size=4 --total-batch-size=4096 \
            --vocab-size=4096 --num-iterations=10 --dtype=$dtype --deterministic --cuda-graphs=$graphs
        judge "$dtype, graphs $graphs: runs" $? -eq 0
    done
    judge "$dtype: off launches none" "$(graphs $dtype-off micro_step_launches)" -eq 0
    # eight steps of four micro-batches, each of two graphs
    judge "$dtype: forward and backward of all steps from the third on" "$(graphs $dtype-on micro_step_launches)" -eq 64
    judge "$dtype: and their updates" "$(graphs $dtype-on update_launches)" -eq 8
    judge "$dtype: the same losses and norms" "$(numbers $dtype-on | grep -cE '^[0-9.e+-]+ [0-9.e+-]+$')" -eq 10 -a \
        "$(numbers $dtype-on)" = "$(numbers $dtype-off)"
    judge "$dtype: the same weights and optimizer state" -n "$(weights $dtype-on)" -a \
        "$(weights $dtype-on)" = "$(weights $dtype-off)"
done
# Evaluation lies between steps, works on other shapes and may move the scratch.
for graphs in off on; do
    run "eval-$graphs" --depth=4 --max-seq-len=256 --device-batch-size=4 --total-batch-size=2048 --vocab-size=4096 \
        --num-iterations=10 --deterministic --cuda-graphs=$graphs --eval-every=4 --eval-tokens=4096
    judge "with evaluation, graphs $graphs: runs" $? -eq 0
done
judge "with evaluation: graphs are launched all the same" "$(graphs eval-on micro_step_launches)" -gt 0 -a \
    "$(graphs eval-off micro_step_launches)" -eq 0 -a "$(numbers eval-on | wc -l)" -gt 0
judge "with evaluation: the same losses and weights" "$(numbers eval-on)$(weights eval-on)" = "$(numbers eval-off)$(weights eval-off)"
run auto --depth=4 --max-seq-len=256 --device-batch-size=4 --total-batch-size=4096 --vocab-size=4096 \
    --num-iterations=10 --save-every=0
judge "auto: runs" $? -eq 0
judge "auto: has decided by what it measured" "$(graphs auto queue_share | grep -cE '^[0-9]')" -eq 1
echo "# auto: $(events auto summary | grep -o '"cuda_graphs":{[^}]*}')"
run fp8 --depth=4 --max-seq-len=256 --device-batch-size=4 --total-batch-size=4096 --vocab-size=4096 \
    --num-iterations=4 --save-every=0 --dtype=fp8 --cuda-graphs=on
judge "fp8 with graphs wanted: runs without" $? -eq 0
judge "and says so" "$(graphs fp8 used)" = false -a "$(grep -c 'without graphs all the same' "$T/fp8/log")" -eq 1
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
