#!/usr/bin/env bash
# Text from tokenizer to bits per byte: base-train on text, samples, base-loss, info.
. "$(dirname "$0")/lib.sh"
export NANOCHAT_BASE_DIR=$T/base OMP_NUM_THREADS=1
# Documents that differ and repeat enough to be learned; a lone invalid byte in each.
awk 'BEGIN { for (i = 0; i < 400; i++) printf "the river number %d runs to the sea, the sea is %d feet deep \377 and blue\n\n", i, i * 7 }' >"$T/text.txt"
TINY=(--data="$T/text.txt" --depth=1 --max-seq-len=32 --device-batch-size=2 --total-batch-size=128 --peak-time=0s)

check_rc 5 "no tokenizer yet" nanochat base-train "${TINY[@]}" --num-iterations=1
match "the way to one is named" "tok-train" "$ERR"
check "a tokenizer" nanochat tok-train --data="$T/text.txt" --vocab-size=300
field() { jq -r "select(.event == \"$1\") | $2" "$3/events.rank00000.jsonl"; }

mkdir -p "$T/one"
check "training on text" env NCBENCH_TRIAL_DIR="$T/one" nanochat base-train "${TINY[@]}" --num-iterations=30 \
    --eval-every=15 --eval-tokens=512 --sample-every=15
cp "$OUT" "$T/one.out"
equal "bits per byte at 0, 15 and the end" "$(grep -cE '^Step 000(00|15|30) \| Validation bpb: [0-9]+\.[0-9]{4}$' "$T/one.out")" 3
equal "seven samples at 15 and the end" "$(grep -cF '<|bos|>' "$T/one.out")" 14
match "the least of them at the end" "^Minimum validation bpb: [0-9]+\.[0-9]{4}$" "$T/one.out"
equal "it is the least" "$(sed -n 's/^Minimum validation bpb: //p' "$T/one.out")" \
    "$(sed -n 's/.*Validation bpb: //p' "$T/one.out" | sort -n | head -n 1)"
equal "and it learned" "$(sed -n 's/.*Validation bpb: //p' "$T/one.out" | awk 'NR == 1 { a = $1 } END { print ($1 < a) ? "less" : "not" }')" less
# At the start every token costs ln(300) nats: bpb = log2(300) x tokens with bytes / bytes.
check "the start value" jq -es 'map(select(.event == "eval"))[0].val_loss - (300 | log) | fabs < 1e-4' "$T/one/events.rank00000.jsonl"
equal "one tokenizer everywhere" "$(field config .tokenizer_sha256 "$T/one")" "$(jq -r .tokenizer_sha256 "$NANOCHAT_BASE_DIR/base_checkpoints/d1/step_000030/meta.json")"

# the same validation on two ranks
mkdir -p "$T/two"
check "two ranks" env NCBENCH_TRIAL_DIR="$T/two" nanochat launch --nproc-per-node=2 -- base-train "${TINY[@]}" \
    --num-iterations=30 --eval-every=15 --eval-tokens=512 --sample-every=-1 --save-every=0
field eval '"\(.step) \(.val_bpb)"' "$T/one" >"$T/a"
field eval '"\(.step) \(.val_bpb)"' "$T/two" >"$T/b"
if paste "$T/a" "$T/b" | awk 'NF != 4 || $1 != $3 { exit 1 } { d = $2 - $4; if (d < 0) d = -d; if (d > 1e-4) exit 1 }'; then
    ok "have the bits per byte of one"
else
    not_ok "have the bits per byte of one" "$(paste "$T/a" "$T/b")"
fi

# a resume in the middle of the text goes on as if nothing had been, printed averages included
mkdir -p "$T/again"
check "saved at 15" nanochat base-train "${TINY[@]}" --num-iterations=30 --save-every=15 --checkpoint-dir="$T/ckpt" \
    --eval-every=15 --eval-tokens=512 --sample-every=-1
check "resumed at 15" env NCBENCH_TRIAL_DIR="$T/again" nanochat base-train "${TINY[@]}" --num-iterations=30 --save-every=0 \
    --checkpoint-dir="$T/ckpt" --resume-from-step=15 --eval-every=15 --eval-tokens=512 --sample-every=-1
equal "the same losses, gradient norms, epochs" "$(field step '"\(.step) \(.loss) \(.grad_norm) \(.epoch)"' "$T/again")" \
    "$(field step '"\(.step) \(.loss) \(.grad_norm) \(.epoch)"' "$T/one" | tail -n 15)"
equal "the same printed losses" "$(grep '^step ' "$OUT" | cut -d'|' -f1-3)" "$(grep '^step ' "$T/one.out" | cut -d'|' -f1-3 | tail -n 15)"
equal "the same least bits per byte" "$(grep ^Minimum "$OUT")" "$(grep ^Minimum "$T/one.out")"

# ---- base-loss -----------------------------------------------------------------------------------
check "base-loss" nanochat base-loss --split-tokens=512 --device-batch-size=2
equal "its validation is training's last one" "$(sed -n 's/^val bpb: //p' "$OUT")" "$(sed -n 's/^Step 00030 .*bpb: //p' "$T/one.out")"
match "and there is the training split" "^train bpb: [0-9]+\.[0-9]{4}$" "$OUT"
equal "seven samples" "$(grep -cF '<|bos|>' "$OUT")" 7
equal "the same as at the end of training" "$(grep -F '<|bos|>' "$OUT")" "$(grep -F '<|bos|>' "$T/one.out" | tail -n 7)"
check "on two ranks" nanochat launch --nproc-per-node=2 -- base-loss --split_tokens=512 --device_batch_size=2 --model_tag=d1 --model_step=30
check_rc 7 "no such step" nanochat base-loss --split-tokens=512 --model-step=31
match "and which there are" "there are: 30" "$ERR"
check_rc 7 "no such model" nanochat base-loss --split-tokens=512 --model-tag=d9
check_rc 3 "less than a batch" nanochat base-loss --split-tokens=63 --device-batch-size=2

# ---- what does not fit together --------------------------------------------------------------------
awk 'BEGIN { for (i = 0; i < 400; i++) printf "quite another tale, told at dusk by %d grey owls to whom nobody listens\n\n", i }' >"$T/other.txt"
check "another tokenizer" nanochat tok-train --data="$T/other.txt" --vocab-size=300 --out="$T/other"
check_rc 7 "base-loss with it: exit 7" nanochat base-loss --split-tokens=512 --tokenizer="$T/other"
match "both are named" "was trained with tokenizer [0-9a-f]{16}, .* is [0-9a-f]{16}" "$ERR"
check_rc 7 "a resume with it: exit 7" nanochat base-train "${TINY[@]}" --num-iterations=40 --resume-from-step=30 \
    --tokenizer="$T/other" --eval-every=-1 --sample-every=-1
match "found and expected" "it has tokenizer [0-9a-f]{16}, expected [0-9a-f]{16}" "$ERR"
check_rc 7 "another vocabulary than the tokenizer's" nanochat base-train "${TINY[@]}" --num-iterations=1 --vocab-size=299
match "both are told" "the tokenizer has 300 tokens, --vocab-size says 299" "$ERR"
check "the tokenizer's own may be said" nanochat base-train "${TINY[@]}" --num-iterations=0 --vocab-size=300 \
    --eval-every=-1 --sample-every=-1 --save-every=0
printf 'one document alone\n' >"$T/short.txt"
check_rc 5 "no document for validation" nanochat base-train "${TINY[@]}" --data="$T/short.txt" --num-iterations=1 \
    --eval-every=1 --eval-tokens=512

# ---- info ----------------------------------------------------------------------------------------
check "info" nanochat info --peak-time=20ms
match "names the BLAS" "^BLAS +[a-z]+" "$OUT"
match "the CPUs" "^usable PUs [0-9]+ \([0-9,]+\)$" "$OUT"
match "the memory" "^memory +[0-9.]+ [KMGT]iB available of [0-9.]+ [KMGT]iB" "$OUT"
match "and labels the peak" "FLOP/s \(measured FMA peak" "$OUT"
check "info --json" nanochat info --json --peak-time=20ms
cp "$OUT" "$T/info.json"
check "is JSON with a peak" jq -e '.device.peak_flops > 1e6 and .build.blas != null and (.usable_pus | length) >= 1' "$T/info.json"
check "one CPU under taskset" taskset -c 0 nanochat info --json --peak-time=0s
equal "is one usable PU" "$(jq -c .usable_pus "$OUT")" "[0]"
equal "and no peak was measured" "$(jq -c '[.device.peak_flops, .device.peak_flops_why]' "$OUT")" '[null,"not asked for"]'
check_rc 2 "a device that this build does not know" nanochat info --device-type=tpu
match "names those it knows" 'tpu.*cpu' "$ERR"
nanochat info --peak-time=0s >/dev/full 2>"$ERR"
equal "a full disk is exit 10" "$?" 10
finish
