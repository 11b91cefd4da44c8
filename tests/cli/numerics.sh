#!/usr/bin/env bash
# A loss that is not finite ends the run at that step, on all ranks, and leaves no checkpoint of it;
# results do not depend on the locale.
. "$(dirname "$0")/lib.sh"
export NANOCHAT_BASE_DIR=$T/base OMP_NUM_THREADS=1
TINY=("${TINY_TRAINING[@]}")

# planted N DIR: NaN in one weight at step 5 of 20, a checkpoint every step
planted() {
    local n=$1 dir=$2
    mkdir -p "$dir"
    check_rc 6 "$n ranks: NaN at step 5 is exit 6" env NCBENCH_TRIAL_DIR="$dir" \
        nanochat launch --nproc-per-node="$n" -- base-train "${TINY[@]}" --num-iterations=20 \
        --debug-nan-at-step=5 --save-every=1 --checkpoint-dir="$dir/ckpt"
    for ((r = 0; r < n; r++)); do
        local e=$dir/events.rank0000$r.jsonl
        equal "$n ranks: rank $r is done with 6" "$(tail -n 1 "$e" | jq -r '"\(.event) \(.exit_code)"')" "done 6"
        match "$n ranks: rank $r names the step" "not a number at step 5; the last finite loss is [0-9.]+ at step 4" "$e"
        match "$n ranks: rank $r has null for the loss" '"step":5.*"loss":null' "$e"
        no_match "$n ranks: rank $r has no nan number" ':-?(nan|inf)' "$e"
    done
    equal "$n ranks: the last checkpoint is of finite weights" "$(find "$dir/ckpt" -mindepth 1 -maxdepth 1 -printf '%f\n' | sort | tail -n 1)" "step_000005"
    equal "$n ranks: no step after it" "$(jq -r 'select(.event == "step") | .step' "$dir/events.rank00000.jsonl" | tail -n 1)" 5
}
planted 1 "$T/nan1"
planted 2 "$T/nan2"

mkdir -p "$T/huge"
check_rc 6 "a learning rate of 1e10" env NCBENCH_TRIAL_DIR="$T/huge" timeout 60 nanochat base-train "${TINY[@]}" \
    --num-iterations=1000 --matrix-lr=1e10 --save-every=0 --log-every=0
no_match "leaves no nan in the events" ':-?(nan|inf)' "$T/huge/events.rank00000.jsonl"
check_rc 6 "NaN before the first step" nanochat base-train "${TINY[@]}" --num-iterations=2 --debug-nan-at-step=0 --save-every=0
match "has no finite loss to tell" "no step had a finite loss" "$ERR"

# ---- the locale (json-c/json-c#930) ----------------------------------------------------------------
# A German locale is made here if the machine has none: it writes 0,5 for 0.5.
german() {
    if locale -a 2>/dev/null | grep -qiE '^de_DE\.utf-?8$'; then return 0; fi
    command -v localedef >/dev/null && mkdir -p "$T/locale" &&
        localedef -i de_DE -f UTF-8 "$T/locale/de_DE.UTF-8" >/dev/null 2>&1 && export LOCPATH=$T/locale
}
if german; then
    for l in C de_DE.UTF-8; do
        mkdir -p "$T/loc-$l"
        check "a run under $l" env LC_ALL="$l" NCBENCH_TRIAL_DIR="$T/loc-$l" nanochat base-train "${TINY[@]}" \
            --num-iterations=3 --matrix-lr=0.02 --checkpoint-dir="$T/loc-$l/ckpt"
        sed -E 's/dt: .*//' "$OUT" | grep -v -e '^Peak' -e '^Saved' >"$T/loc-$l/lines"
        jq -c 'select(.event == "step") | [.step, .loss, .grad_norm]' "$T/loc-$l/events.rank00000.jsonl" >"$T/loc-$l/steps"
    done
    for f in lines steps ckpt/step_000003/model.safetensors ckpt/step_000003/optim_rank00000.safetensors; do
        check "$f is the same bytes" cmp "$T/loc-C/$f" "$T/loc-de_DE.UTF-8/$f"
    done
    equal "a learning rate is read exactly" "$(jq .user_config.matrix_lr "$T/loc-de_DE.UTF-8/ckpt/step_000003/meta.json")" 0.02
else
    skip "the locale does not matter" "cannot make de_DE.UTF-8"
fi
finish
