#!/usr/bin/env bash
# tok-train and tok-eval: files, exit codes, what they say.
# shellcheck source=tests/cli/lib.sh
. tests/cli/lib.sh
export NANOCHAT_BASE_DIR=$T/base
train=(timeout 20 nanochat tok-train)

for i in $(seq 1 400); do
    printf 'Paragraph %d tells that the mill, the miller and mill number %d stand still.\n\n' "$i" $((i * 7))
done >"$T/text.txt"
gzip -k "$T/text.txt"

# ---- training ----------------------------------------------------------------------------------
check "tok-train trains" "${train[@]}" --data="$T/text.txt" --vocab_size=320 --max_chars=100000 --doc_cap=50
for field in max_chars:\ 100000 doc_cap:\ 50 vocab_size:\ 320 train_time num_special_tokens:\ 9 \
    token_bytes_min:\ 1 token_bytes_max token_bytes_mean token_bytes_std documents:\ 396 \
    empty_documents:\ 0 invalid_bytes:\ 0; do
    match "report has $field" "^$field" "$OUT"
done
match "documents are cropped" '^chars: 19800$' "$OUT"
check "tokenizer.json is in the base directory" test -s "$T/base/tokenizer/tokenizer.json"
check "gzip trains" "${train[@]}" --data "$T/text.txt.gz" --vocab-size 320 --max-chars 100000 --doc-cap 50 --out "$T/gz"
check "gzip gives the same tokenizer" cmp "$T/gz/tokenizer.json" "$T/base/tokenizer/tokenizer.json"
check "max-chars stops" "${train[@]}" --data "$T/text.txt" --vocab-size 300 --max-chars 1000 --out "$T/few"
match "behind the document that passes it" '^documents: 1[0-9]$' "$OUT"

printf 'tell me\n\n' >"$T/small.txt"
check "a small corpus trains" "${train[@]}" --data "$T/small.txt" --out "$T/small"
match "and says that it stopped early" 'no pair of tokens is left after 5 merges: the vocabulary has 270 tokens instead of 65536' "$ERR"
match "with the vocabulary that it has" '^vocab_size: 270$' "$OUT"

printf 'ab \xff\xc0\x80 cd\xed\xa0\x80\n\nab\xe6\x95\n' >"$T/bad.txt"
check "invalid UTF-8 trains" "${train[@]}" --data "$T/bad.txt" --out "$T/bad"
match "and is counted" '^invalid_bytes: 8$' "$OUT"
match "and is told" '8 bytes of the text are not valid UTF-8' "$ERR"

printf '\n<|endoftext|>\n \t\n<|endoftext|>\nthe text\n<|endoftext|>\n\n' >"$T/blanks.txt"
check "empty documents among others are skipped" "${train[@]}" --data "$T/blanks.txt" --out "$T/blanks"
match "and counted" '^empty_documents: 2$' "$OUT"
match "beside the one that is not" '^documents: 1$' "$OUT"

# ---- nothing to train on -----------------------------------------------------------------------
: >"$T/empty.txt"
printf '     ' >"$T/spaces.txt"
printf 'x' >"$T/byte.txt"
printf '<|endoftext|>\n\n<|endoftext|>\n' >"$T/no-docs.txt"
printf '' | gzip >"$T/empty.gz"
for f in empty.txt spaces.txt byte.txt no-docs.txt empty.gz; do
    check_rc 5 "$f has nothing to merge" "${train[@]}" --data "$T/$f" --out "$T/none"
    match "$f says so" 'error: no byte pairs to merge' "$ERR"
done
check_rc 3 "vocabulary 200 is a plan that cannot work" "${train[@]}" --data "$T/text.txt" --vocab-size 200
match "the smallest is told" 'expected at least 266' "$ERR"
check_rc 3 "265 is one too few" "${train[@]}" --data "$T/text.txt" --vocab-size 265
check "266 works" "${train[@]}" --data "$T/text.txt" --vocab-size 266 --out "$T/least"
check_rc 2 "--data is required" "${train[@]}"
check_rc 2 "unknown options" "${train[@]}" --data "$T/text.txt" --vocab 300
check_rc 2 "a vocabulary that is no number" "${train[@]}" --data "$T/text.txt" --vocab-size many
check_rc 5 "absent data" "${train[@]}" --data "$T/absent"

# ---- folders: the last file is validation --------------------------------------------------------
mkdir "$T/one" "$T/none-dir" "$T/tmp-only" "$T/two"
cp "$T/text.txt" "$T/one/a.txt"
cp "$T/text.txt" "$T/tmp-only/shard_00000.txt.tmp"
cp "$T/text.txt" "$T/two/a.txt"
cp "$T/small.txt" "$T/two/b.txt"
check_rc 5 "one shard" timeout 5 nanochat tok-train --data "$T/one"
match "says why" 'train split is empty: 1 shard found, the last is kept for validation' "$ERR"
for d in none-dir tmp-only; do
    check_rc 5 "$d holds no shard" timeout 5 nanochat tok-train --data "$T/$d"
    match "$d says so" 'train split is empty: no shard found in ' "$ERR"
done
check "two shards train on the first" "${train[@]}" --data "$T/two" --vocab-size 300 --out "$T/two-tok"
match "whole" '^documents: 400$' "$OUT"

# ---- damaged input, outputs that cannot be written ------------------------------------------------
head -c 600 "$T/text.txt.gz" >"$T/cut.gz"
check_rc 5 "a cut gzip file" "${train[@]}" --data "$T/cut.gz"
printf 'PAR1' >"$T/x.parquet"
check_rc 5 "parquet is no text" "${train[@]}" --data "$T/x.parquet"
match "and is told" 'is a parquet file, expected text or gzip' "$ERR"
check_rc 10 "--out below a file" "${train[@]}" --data "$T/text.txt" --vocab-size 300 --out "$T/text.txt/x"
if [ -w /dev/full ]; then
    # shellcheck disable=SC2016
    check_rc 10 "a full standard output" bash -c 'nanochat tok-train --data "$1" --out "$2" >/dev/full' - "$T/small.txt" "$T/small"
    # shellcheck disable=SC2016
    check_rc 10 "a full standard output in tok-eval" bash -c 'nanochat tok-eval --tokenizer "$1" >/dev/full' - "$T/small"
fi

# ---- evaluation ------------------------------------------------------------------------------------
check "tok-eval" nanochat tok-eval
for text in news korean code mathematics science; do
    match "measures $text" "^$text +[0-9]+ +[0-9]+ +[0-9.]+ +[0-9.]+$" "$OUT"
done
no_match "no data unless given" '^train' "$OUT"
check "tok-eval with data" nanochat tok-eval --tokenizer="$T/base/tokenizer/tokenizer.json" --data="$T/text.txt"
match "train documents" '^train +31[0-9]{3} ' "$OUT"
match "validation documents" '^validation +[0-9]{3} ' "$OUT"
check_rc 5 "no validation document" nanochat tok-eval --data "$T/small.txt"
check_rc 5 "an absent tokenizer" nanochat tok-eval --tokenizer "$T/absent"
match "hints at tok-train" 'hint: train a tokenizer' "$ERR"

# ---- token files ---------------------------------------------------------------------------------
tokenizer=$T/base/tokenizer
check "tok-pack" nanochat tok-pack --data "$T/text.txt" --out "$T/packed/" --file-tokens=5000
match "tells what it wrote" '^validation: [0-9]+ documents, [0-9]+ tokens$' "$OUT"
files=$(find "$T/packed" -name 'train_*.tokens' | wc -l)
equal "as many training files as are needed" "$files" \
    "$(awk '/^train:/ { print int(($4 + 4999) / 5000) }' "$OUT")"
equal "the validation file is the last by name" "$(find "$T/packed" -type f -printf '%f\n' | sort | tail -n 1)" validation.tokens
losses() { # of a run on such data, and its validation loss
    nanochat base-train --depth=1 --max-seq-len=32 --vocab-size="$1" --device-batch-size=2 --total-batch-size=64 \
        --num-iterations=12 --eval-every=12 --eval-tokens=640 --sample-every=-1 --save-every=0 --peak-time=0s "${@:2}" 2>"$ERR" |
        grep -oE 'loss: [0-9.]+|[Vv]alidation.*: [0-9.]+'
}
vocab=$(nanochat tok-eval | sed -n 's/^vocab_size: //p')
losses "$vocab" --data-source=text --data="$T/text.txt" --tokenizer="$tokenizer" >"$T/by-text"
losses "$vocab" --data-source=packed --data="$T/packed" --tokenizer="$tokenizer" >"$T/by-tokens"
equal "twelve steps, evaluations before, after and in sum" "$(wc -l <"$T/by-text")" 15
check "training on them is training on the text" cmp "$T/by-text" "$T/by-tokens"
check_rc 10 "what exists is not overwritten" nanochat tok-pack --data "$T/text.txt" --out "$T/packed"
match "is named" "packed exists already" "$ERR"
check_rc 5 "a text without validation documents" nanochat tok-pack --data "$T/small.txt" --out "$T/no-val"
equal "leaves nothing" "$(find "$T" -maxdepth 1 -name 'no-val*')" ""
check_rc 2 "no output named" nanochat tok-pack --data "$T/text.txt"
check_rc 5 "no such text" nanochat tok-pack --data "$T/absent.txt" --out "$T/no-val"

# ---- files that do not fit -----------------------------------------------------------------------
edit() { sed "$1" "$T/gz/tokenizer.json" >"$T/edited.json"; }
edit 's/gpt4-digits2/gpt4-digits3/'
check_rc 7 "another pattern's id" nanochat tok-eval --tokenizer "$T/edited.json"
match "is named with the one expected" 'pattern.id is gpt4-digits3, expected gpt4-digits2' "$ERR"
edit 's/"sha256":"..../"sha256":"0000/'
check_rc 7 "another pattern's hash" nanochat tok-eval --tokenizer "$T/edited.json"
match "is named" 'pattern.sha256 is 0000' "$ERR"
edit 's/\[\[\([0-9]*\),/[[1\1,/'
check_rc 7 "a changed merge" nanochat tok-eval --tokenizer "$T/edited.json"
head -c 700 "$T/gz/tokenizer.json" >"$T/edited.json"
check_rc 7 "a cut file" nanochat tok-eval --tokenizer "$T/edited.json"
finish
