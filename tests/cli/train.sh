#!/usr/bin/env bash
# base-train: options, plans that cannot work, the printed lines, the event file, ranks, signals.
. "$(dirname "$0")/lib.sh"
export NANOCHAT_BASE_DIR=$T/base OMP_NUM_THREADS=1
TINY=("${TINY_TRAINING[@]}" --save-every=0)

# train DIR ARGS…: one rank, events in DIR
train() {
    local dir=$1
    shift
    mkdir -p "$dir"
    run env NCBENCH_TRIAL_DIR="$dir" nanochat base-train "${TINY[@]}" "$@"
    equal "exit 0 with $*" "$?" 0
}
# ranks N DIR ARGS…
ranks() {
    local n=$1 dir=$2
    shift 2
    mkdir -p "$dir"
    run env NCBENCH_TRIAL_DIR="$dir" nanochat launch --nproc-per-node="$n" --master-port="$PORT" -- base-train "${TINY[@]}" "$@"
}
PORT=$(free_port)
steps() { jq -r 'select(.event == "step") | "\(.step) \(.loss)"' "$1/events.rank0000${2:-0}.jsonl"; }
field() { jq -r "select(.event == \"$1\") | $2" "$3/events.rank00000.jsonl"; }
# close_to WHAT FILE FILE: the same steps, losses within 1e-5
close_to() {
    if [ -s "$2" ] && paste "$2" "$3" | awk 'NF != 4 || $1 != $3 { exit 1 }
        { d = $2 - $4; if (d < 0) d = -d; if (d > 1e-5 * $2) exit 1 }'; then ok "$1"; else
        not_ok "$1" "$(paste "$2" "$3" | head -n 8)"
    fi
}

# ---- the options are upstream's ------------------------------------------------------------------
check "help" nanochat base-train --help
for option in run device-type depth max-seq-len num-iterations target-flops target-param-data-ratio \
    device-batch-size total-batch-size embedding-lr unembedding-lr weight-decay matrix-lr grad-clip \
    warmup-ratio warmdown-ratio final-lr-frac eval-every eval-tokens sample-every model-tag; do
    grep -qE -- "--$option( |$)" "$OUT" || not_ok "option --$option is there"
done
tr -s ' \n' ' ' <"$OUT" >"$T/help"
for default in "total-batch-size N .*default 524288" "max-seq-len T .*default 2048" "eval-tokens N .*default 10485760" \
    "unembedding-lr X .*default 0.004" "warmdown-ratio X .*default 0.2"; do
    match "default of ${default%% *}" "--$default" "$T/help"
done
check_rc 2 "an unknown option is a usage error" nanochat base-train --dept=3
match "and the nearest is named" "did you mean --depth" "$ERR"
check_rc 2 "a comma is no decimal point" nanochat base-train --matrix-lr=0,02
check_rc 2 "only what works is a dtype" nanochat base-train --dtype=bfloat16
check_rc 2 "fp8 is none on a CPU" nanochat base-train --device-type=cpu --dtype=fp8
match "what the CPU takes" "expected float32" "$ERR"
check_rc 2 "timing is not deterministic" nanochat base-train "${TINY[@]}" --deterministic --gemm-plans=time
match "and why" "next run" "$ERR"
check_rc 2 "only what is a way to choose" nanochat base-train --gemm-plans=best
check_rc 2 "a reset needs a resume" nanochat base-train "${TINY[@]}" --num-iterations=1 --reset-optimizer

# ---- plans that cannot work (karpathy/nanochat#532) ------------------------------------------------
check_rc 3 "a total batch that does not divide" nanochat base-train --data-source=synthetic \
    --total-batch-size=524288 --device-batch-size=6 --max-seq-len=512 --depth=1
match "the product" "= 3072 tokens" "$ERR"
match "the remainder" "remainder 2048" "$ERR"
match "the nearest valid totals" "522240 and 525312" "$ERR"
check_rc 3 "the same over ranks" nanochat launch --nproc-per-node=2 -- base-train "${TINY[@]}" \
    --total-batch-size=96 --num-iterations=1
check_rc 3 "a batch of nothing" nanochat base-train "${TINY[@]}" --device-batch-size=0 --num-iterations=1
check_rc 3 "no horizon" nanochat base-train "${TINY[@]}" --target-param-data-ratio=-1
check_rc 3 "fewer tokens to evaluate than a batch" nanochat base-train "${TINY[@]}" --num-iterations=1 \
    --eval-every=1 --eval-tokens=31
check_rc 3 "heads that do not divide the width" nanochat base-train "${TINY[@]}" --num-iterations=1 --n-head=3
check_rc 3 "a depth whose width no number of heads divides" nanochat base-train "${TINY[@]}" --num-iterations=1 --depth=5
check_rc 5 "no data" nanochat base-train --data-source=packed --data="$T/none" --depth=1 --max-seq-len=32 \
    --device-batch-size=1 --total-batch-size=128 --num-iterations=1

# ---- one rank ----------------------------------------------------------------------------------
train "$T/one" --num-iterations=14 --eval-every=7 --eval-tokens=256 --run=demo
cp "$OUT" "$T/one.out"
equal "a line a step" "$(grep -cE '^step 000[01][0-9]/00014 \([0-9.]+%\) \| loss: [0-9]+\.[0-9]{6} \| lrm: [01]\.[0-9]{2} \| dt: [0-9.]+ms \| tok/sec: [0-9,]+ \| mfu: n/a \| total time: [0-9.]+m$' "$T/one.out")" 14
equal "evaluated at 0, 7 and the end" "$(grep -cE '^Step 000(00|07|14) \| Validation loss: [0-9.]+$' "$T/one.out")" 3
match "the loss starts at ln(256)" "^step 00000/00014 .* loss: 5\.5451[0-9]{2} " "$T/one.out"
match "peak memory" "^Peak memory usage: [0-9]+\.[0-9]{2}MiB$" "$T/one.out"
match "training time" "^Total training time: [0-9.]+m$" "$T/one.out"
E=$T/one/events.rank00000.jsonl
check "every event is strict JSON" jq -e . "$E"
no_match "nothing is nan or inf" '[^a-z]-?(nan|inf|Infinity|NaN)[^a-z]' "$E"
equal "hello comes first" "$(head -n 1 "$E" | jq -r .event)" hello
equal "done comes last, with 0" "$(tail -n 1 "$E" | jq -r '"\(.event) \(.exit_code)"')" "done 0"
equal "14 steps" "$(steps "$T/one" | wc -l)" 14
equal "phases in their order" "$(jq -r 'select(.event == "phase" and .edge == "begin") | .name' "$E" | uniq | tr '\n' ' ')" \
    "exec device_init comm_init evidence data_init model_init eval first_step eval teardown "
equal "every phase ends" "$(jq -r 'select(.event == "phase" and .edge == "end") | .name' "$E" | sort)" \
    "$(jq -r 'select(.event == "phase" and .edge == "begin") | .name' "$E" | sort)"
equal "config tells the shape" "$(field config '"\(.tokens_per_step) \(.accumulation) \(.num_iterations) \(.seed) \(.run) \(.world)"' "$T/one")" \
    "128 4 14 42 demo 1"
# 2VC + 12LC²; 6(N - VC) + 12LCT, with V 256, C 64, L 1, T 32
equal "parameters and FLOPs" "$(field config '"\(.parameters) \(.flops_per_token)"' "$T/one")" "81920 417792"
match "no peak, and why" '"peak_flops_per_rank":null,"peak_flops_per_rank_why":"not measured' "$E"
equal "a step's tokens are the whole batch's" "$(field step .tokens "$T/one" | sort -u)" 128
check "the parts of a step fit into it" jq -es 'map(select(.event == "step")) | all(
    .t_end_s > .t_start_s and .fwd_s > 0 and .bwd_s > 0 and .opt_s > 0 and .comm_s >= 0 and .data_wait_s >= 0
    and .fwd_s + .bwd_s + .opt_s + .comm_s + .data_wait_s <= (.t_end_s - .t_start_s) * 1.001 + 1e-6
    and .grad_norm >= 0)' "$E"
match "evaluations" '"event":"eval".*"val_loss":5\.[0-9]+,"val_bpb":null,"val_bpb_why"' "$E"
match "a summary" '"event":"summary".*"min_val_bpb":null' "$E"

# tok/sec is that of the whole batch, not of one micro-batch
equal "throughput under accumulation" "$(awk -F'[|:]' '/^step 00005/ { gsub(/[ms ]/, "", $7); gsub(/[, ]/, "", $9);
    r = 128 / ($7 / 1000) / $9; print (r > 0.98 && r < 1.02) ? "ok" : "wrong " r }' "$T/one.out")" ok

# ---- '-' and '_', Python's booleans --------------------------------------------------------------
train "$T/underscore" --num_iterations=2 --total_batch_size 128 --warmup_ratio=0.5
equal "underscores" "$(steps "$T/underscore" | wc -l)" 2

# ---- nothing measured (redis/memtier_benchmark#271) ------------------------------------------------
train "$T/zero" --num-iterations=0 --eval-every=1 --eval-tokens=128
E=$T/zero/events.rank00000.jsonl
check "the events of 0 steps are strict JSON" jq -e . "$E"
no_match "no nan" '[^a-z]-?(nan|inf)[^a-z]' "$E"
no_match "no nan for people" '[^a-z]-?(nan|inf)([^a-z]|$)' "$OUT"
equal "it evaluated once and made no step" "$(jq -r .event "$E" | grep -cE '^(eval|step)$')" 1
equal "done 0" "$(tail -n 1 "$E" | jq -r .exit_code)" 0

# ---- ranks -------------------------------------------------------------------------------------
steps "$T/one" | head -n 8 >"$T/reference"
for n in 1 2 4; do
    ranks "$n" "$T/ranks$n" --num-iterations=14
    steps "$T/ranks$n" | head -n 8 >"$T/curve"
    # the last steps of "one" follow the same schedule: the first 8 are enough here
    close_to "$n ranks: the loss curve of one" "$T/reference" "$T/curve"
    for ((r = 1; r < n; r++)); do
        equal "rank $r of $n has rank 0's losses" "$(steps "$T/ranks$n" "$r")" "$(steps "$T/ranks$n")"
    done
done
equal "only rank 0 prints" "$(wc -c <"$T/ranks2/rank00001.out")" 0
equal "accumulation shrinks with ranks" "$(field config .accumulation "$T/ranks4")" 1
check "no shared memory is left" test ! -e "$(shm_name "$PORT")"

# grouped heads train too
train "$T/gqa" --num-iterations=2 --depth=2 --n-head=4 --n-kv-head=2
equal "grouped heads" "$(field config '"\(.model.n_head) \(.model.n_kv_head)"' "$T/gqa")" "4 2"

# ---- MFU against a measured peak ------------------------------------------------------------------
train "$T/peak" --num-iterations=1 --peak-time=50ms
match "the peak is labelled" "measured FMA peak of all ranks" "$OUT"
match "mfu is a number" "mfu: [0-9]+\.[0-9]{2} " "$OUT"
check "the peak is in the events" jq -es 'map(select(.event == "config"))[0].peak_flops_per_rank > 1e6' "$T/peak/events.rank00000.jsonl"

# ---- memory that does not suffice is foreseen ---------------------------------------------------------
mkdir -p "$T/fsroot/proc"
printf 'MemTotal:         400000 kB\nMemFree:  1 kB\nMemAvailable:      20000 kB\n' >"$T/fsroot/proc/meminfo"
check_rc 9 "a model that does not fit" env NCBENCH_FSROOT="$T/fsroot" nanochat base-train "${TINY[@]}" --depth=8 --num-iterations=1
match "what it needs and what is left" "1 rank on this node need [0-9.]+ MiB .*, [0-9.]+ MiB are left \(MemAvailable\)" "$ERR"
check_rc 9 "a batch that does not fit" env NCBENCH_FSROOT="$T/fsroot" nanochat base-train "${TINY[@]}" --num-iterations=1 \
    --device-batch-size=2048 --total-batch-size=65536
match "and the batch that would" "a device batch size of [0-9]+ would fit" "$ERR"

# ---- signals -------------------------------------------------------------------------------------
signalled() {
    local signal=$1 n=$2 dir=$T/signal$1$2 pid rc i
    mkdir -p "$dir"
    NCBENCH_TRIAL_DIR=$dir nanochat launch --nproc-per-node="$n" --master-port="$PORT" -- base-train "${TINY[@]}" \
        --num-iterations=1000000 --log-every=0 >"$OUT" 2>"$ERR" </dev/null &
    pid=$!
    wait_until "$signal with $n ranks: a step" 20 grep -qs '"event":"step"' "$dir/events.rank00000.jsonl"
    kill -s "$signal" "$pid"
    wait "$pid"
    rc=$?
    equal "$signal with $n ranks: exit 8" "$rc" 8
    for ((i = 0; i < n; i++)); do
        equal "$signal with $n ranks: rank $i wrote done" \
            "$(tail -n 1 "$dir/events.rank0000$i.jsonl" | jq -r '"\(.event) \(.exit_code)"')" "done 8"
        match "$signal with $n ranks: rank $i names it" "ended by SIG$signal after step [0-9]+" "$dir/events.rank0000$i.jsonl"
    done
    equal "$signal with $n ranks: all ended at one step" \
        "$(for ((i = 0; i < n; i++)); do steps "$dir" "$i" | tail -n 1; done | sort -u | wc -l)" 1
}
signalled TERM 1
signalled INT 2

# also in the middle of an evaluation, which here would take hours
mkdir -p "$T/eval"
NCBENCH_TRIAL_DIR=$T/eval nanochat launch --nproc-per-node=2 -- base-train "${TINY[@]}" --num-iterations=1 \
    --eval-every=1 --eval-tokens=1000000000000 >"$OUT" 2>"$ERR" </dev/null &
pid=$!
wait_until "the evaluation begins" 20 grep -qs '"name":"eval"' "$T/eval/events.rank00000.jsonl"
kill "$pid"
wait "$pid"
equal "TERM in an evaluation: exit 8" "$?" 8
match "and the reason" "ended by SIGTERM after part of an evaluation" "$T/eval/events.rank00001.jsonl"

# ---- outputs that cannot be written ----------------------------------------------------------------
nanochat base-train "${TINY[@]}" --num-iterations=1 >/dev/full 2>"$ERR"
equal "standard output is full: exit 10" "$?" 10
match "and says so" "cannot write standard output" "$ERR"
check_rc 10 "events cannot be written" env NCBENCH_TRIAL_DIR="$T/absent" nanochat base-train "${TINY[@]}" --num-iterations=1

finish
