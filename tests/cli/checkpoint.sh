#!/usr/bin/env bash
# Checkpoints: resume bit for bit, refusals, kills, a full disk.
. "$(dirname "$0")/lib.sh"
export NANOCHAT_BASE_DIR=$T/base OMP_NUM_THREADS=1
TINY=("${TINY_TRAINING[@]}" --log-every=0 --num-iterations=12)

# ranks N DIR ARGS…: events in DIR
ranks() {
    local n=$1 dir=$2
    shift 2
    mkdir -p "$dir"
    run env NCBENCH_TRIAL_DIR="$dir" nanochat launch --nproc-per-node="$n" -- base-train "${TINY[@]}" "$@"
}
names() { find "$1" -mindepth 1 -maxdepth 1 -printf '%f\n' | LC_ALL=C sort; }
steps() { jq -r 'select(.event == "step") | "\(.step) \(.loss) \(.grad_norm) \(.epoch)"' "$1/events.rank00000.jsonl"; }

# ---- resume --------------------------------------------------------------------------------------
for n in 1 2; do
    C=$T/ckpt$n
    ranks "$n" "$T/whole$n" --save-every=5 --checkpoint-dir="$C"
    equal "$n ranks: saved at 5, 10 and the end" "$(names "$C" | tr '\n' ' ')" "step_000005 step_000010 step_000012 "
    ranks "$n" "$T/resumed$n" --save-every=5 --checkpoint-dir="$C-again" --resume-from-step=5
    equal "$n ranks: a checkpoint that is elsewhere is not found" "$(tail -n 1 "$T/resumed$n/events.rank00000.jsonl" | jq .exit_code)" 7
    rm -rf "$T/resumed$n"
    cp -r "$C" "$C-before"
    ranks "$n" "$T/resumed$n" --checkpoint-dir="$C" --resume-from-step=5
    equal "$n ranks: later losses bit for bit" "$(steps "$T/resumed$n")" "$(steps "$T/whole$n" | tail -n 7)"
    for f in model.safetensors optim_rank00000.safetensors "optim_rank0000$((n - 1)).safetensors"; do
        check "$n ranks: the last $f bit for bit" cmp "$C/step_000012/$f" "$C-before/step_000012/$f"
    done
    equal "$n ranks: the run says what it resumed" \
        "$(jq -c 'select(.event == "config") | [.resumed_from_step, .optimizer_reset]' "$T/resumed$n/events.rank00000.jsonl")" "[5,false]"
done
C=$T/ckpt1
equal "upstream's names of the weights" "$(strings -n 6 "$C/step_000012/model.safetensors" | grep -oE '"(transformer|lm_head)[a-z0-9_.]+"' | sort | tr '\n' ' ')" \
    '"lm_head.weight" "transformer.h.0.attn.c_k.weight" "transformer.h.0.attn.c_proj.weight" "transformer.h.0.attn.c_q.weight" "transformer.h.0.attn.c_v.weight" "transformer.h.0.mlp.c_fc.weight" "transformer.h.0.mlp.c_proj.weight" "transformer.wte.weight" '
check "meta has upstream's keys" jq -e '.step == 12 and .model_config.n_layer == 1 and .user_config.depth == 1' "$C/step_000012/meta.json"
check "the default place" nanochat base-train "${TINY[@]}" --num-iterations=0
check "is base_checkpoints/d<depth>" test -f "$NANOCHAT_BASE_DIR/base_checkpoints/d1/step_000000/manifest.json"
check "a model tag renames it" nanochat base-train "${TINY[@]}" --num-iterations=0 --model_tag=mine
check "below base_checkpoints" test -f "$NANOCHAT_BASE_DIR/base_checkpoints/mine/step_000000/manifest.json"

# ---- refusals: exit 7, before any step, naming what was expected -----------------------------------
# refused WHAT REGEX ARGS…
refused() {
    local what=$1 regex=$2
    shift 2
    rm -rf "$T/refused" && mkdir "$T/refused"
    check_rc 7 "$what: exit 7" env NCBENCH_TRIAL_DIR="$T/refused" nanochat base-train "${TINY[@]}" --save-every=0 --checkpoint-dir="$T/bad" --resume-from-step=5 "$@"
    match "$what: says what" "$regex" "$ERR"
    no_match "$what: before any step" '"event":"step"' "$T/refused/events.rank00000.jsonl"
}
fresh() { rm -rf "$T/bad" && mkdir "$T/bad" && cp -r "$C/step_000005" "$T/bad/"; }
S=$T/bad/step_000005

fresh && refused "another depth" "n_layer 1, expected 2" --depth=2
fresh && refused "another vocabulary" "vocab_size 256, expected 512" --vocab-size=512
fresh && refused "another sequence length" "sequence_len 32, expected 16" --max-seq-len=16
fresh && refused "another step" "no checkpoint of step 6.*there are: 5" --resume-from-step=6
fresh && rm "$S/optim_rank00000.safetensors" && refused "no optimizer state" "optim_rank00000.safetensors.*No such file"
match "the way out is named" "--reset-optimizer" "$ERR"
fresh && rm "$S/manifest.json" && refused "no manifest" "no checkpoint in"
for f in model.safetensors optim_rank00000.safetensors meta.json manifest.json; do
    fresh && truncate -s -3 "$S/$f" && refused "$f cut short" "$f"
    fresh && truncate -s 9 "$S/$f" && refused "$f cut after its first bytes" "$f"
    fresh && printf '\377' | dd of="$S/$f" bs=1 seek=40 conv=notrunc status=none && refused "$f altered" "$f"
done
rm -rf "$T/bad" && cp -r "$T/ckpt2" "$T/bad"
refused "a world of 2 resumed with 1" "world \(number of ranks\) 2, expected 1"
rm -rf "$T/bad" && mkdir "$T/bad" && cp -r "$C/step_000005" "$T/bad/"
check_rc 7 "a world of 1 resumed with 2" nanochat launch --nproc-per-node=2 -- base-train "${TINY[@]}" \
    --save-every=0 --checkpoint-dir="$T/bad" --resume-from-step=5
fresh && check_rc 3 "a step behind the end" nanochat base-train "${TINY[@]}" --num-iterations=4 --save-every=0 \
    --checkpoint-dir="$T/bad" --resume-from-step=5

# What only one rank can see, all ranks learn.
rm -rf "$T/bad" && cp -r "$T/ckpt2" "$T/bad" && mkdir -p "$T/one-sees"
printf '\377' | dd of="$S/optim_rank00001.safetensors" bs=1 seek=40 conv=notrunc status=none
check_rc 7 "rank 1's file altered: exit 7" env NCBENCH_TRIAL_DIR="$T/one-sees" nanochat launch --nproc-per-node=2 -- \
    base-train "${TINY[@]}" --save-every=0 --checkpoint-dir="$T/bad" --resume-from-step=5
match "rank 1 says what" "optim_rank00001.safetensors has sha256" "$T/one-sees/events.rank00001.jsonl"
match "rank 0 says who" "rank 1 failed while making the model .exit 7." "$T/one-sees/events.rank00000.jsonl"

# a reset must be asked for, and is recorded
fresh && rm "$S/optim_rank00000.safetensors" && mkdir -p "$T/reset"
check "a reset without the state works" env NCBENCH_TRIAL_DIR="$T/reset" nanochat base-train "${TINY[@]}" \
    --checkpoint-dir="$T/bad" --resume-from-step=5 --reset-optimizer
equal "and is recorded in the events" "$(jq -c 'select(.event == "config") | .optimizer_reset' "$T/reset/events.rank00000.jsonl")" true
equal "and in the next checkpoint" "$(jq -c .loop_state.optimizer_reset "$T/bad/step_000012/meta.json")" true

# ---- killed in the middle of a save -----------------------------------------------------------------
K=$T/killed
check "a first checkpoint" nanochat base-train "${TINY[@]}" --depth=2 --vocab-size=4096 --num-iterations=0 --checkpoint-dir="$K"
broken=0 hits=0
for ((i = 0; i < 4; i++)); do
    nanochat base-train "${TINY[@]}" --depth=2 --vocab-size=4096 --num-iterations=50 --save-every=1 --checkpoint-dir="$K" >/dev/null 2>&1 &
    pid=$!
    until=$((SECONDS + 20))
    until compgen -G "$K/.step_*.partial" >/dev/null || [ "$SECONDS" -ge "$until" ]; do :; done
    kill -9 "$pid"
    wait "$pid" 2>/dev/null
    ! compgen -G "$K/.step_*.partial" >/dev/null || hits=$((hits + 1)) # it was still being written
    last=$(names "$K" | grep -v partial | tail -n 1)
    nanochat base-train "${TINY[@]}" --depth=2 --vocab-size=4096 --num-iterations=50 --save-every=0 --checkpoint-dir="$K" \
        --resume-from-step="$((10#${last#step_}))" --num-iterations="$((10#${last#step_}))" >"$OUT" 2>"$ERR" || broken=$((broken + 1))
done
equal "kill -9 in the middle of a save: the last checkpoint is whole" "$broken" 0
check "and the saves were hit" test "$hits" -ge 1

# ---- a full disk ------------------------------------------------------------------------------------
if unshare -m true 2>/dev/null; then
    mkdir -p "$T/small"
    cat >"$T/full.sh" <<'SCRIPT'
mount -t tmpfs -o size=1200k none "$T/small" || exit 77
nanochat base-train "$@" --num-iterations=0 --checkpoint-dir="$T/small" || exit 1
nanochat base-train "$@" --num-iterations=1 --checkpoint-dir="$T/small"
rc=$?
ls -A "$T/small" >"$T/left"
nanochat base-train "$@" --num-iterations=0 --save-every=0 --checkpoint-dir="$T/small" --resume-from-step=0 || exit 1
exit $rc
SCRIPT
    check_rc 10 "a full disk is exit 10" unshare -m bash "$T/full.sh" "${TINY[@]}"
    match "names file and reason" "cannot write $T/small/.*No space left on device" "$ERR"
    equal "leaves the old checkpoint and nothing half-written" "$(cat "$T/left")" "step_000000"
else
    skip "a full disk" "no right to mount"
fi
finish
