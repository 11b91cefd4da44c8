#!/usr/bin/env bash
# Stored plans of products on one GPU: tests/gpu/plans.sh [NANOCHAT]. TAP; builds nothing; about a minute.
# Lines "# first step …" measure what they are for. Events stay in $OUT where that is set.
# shellcheck source=tests/gpu/lib.sh
. "$(dirname "$0")/lib.sh"
export NANOCHAT_BASE_DIR=$T/base
train() { # NAME OPTIONS...
    local name=$1
    shift
    rm -rf "${T:?}/$name" && mkdir -p "$T/$name"
    NCBENCH_TRIAL_DIR=$T/$name timeout 120 "$NANOCHAT" base-train --device-type=cuda --data-source=synthetic \
        --vocab-size=4096 --depth=4 --max-seq-len=256 --device-batch-size=8 --total-batch-size=4096 --eval-every=-1 \
        --sample-every=-1 --save-every=0 --peak-time=0s --num-iterations=4 "$@" >"$T/$name/log" 2>&1 </dev/null
    judge "$name: runs" $? -eq 0
    grep -h '"event":"step","step":0,' "$T/$name/events.rank00000.jsonl" |
        sed -E "s/.*\"t_start_s\":([0-9.]+),\"t_end_s\":([0-9.]+),.*/\1 \2/" |
        awk -v n="$name" '{ printf "# first step of %s: %.3f s\n", n, $2 - $1 }'
}
# NAME FIELD: of the summary's gemm_plans
plans() {
    grep -h '"event":"summary"' "$T/$1/events.rank00000.jsonl" |
        sed -nE "s/.*\"gemm_plans\":\{([^}]*)\}.*/\1/p" | tr , '\n' | sed -nE "s/^\"$2\":\"?([^\"]*)\"?$/\1/p"
}
losses() { grep -h '"event":"step"' "$T/$1/events.rank00000.jsonl" | sed 's/.*"loss":\([^,]*\),.*/\1/'; }
files() { find "$NANOCHAT_BASE_DIR/gemm-plans" -name '*.txt' 2>/dev/null; }

rm -rf "$NANOCHAT_BASE_DIR"
train fresh
judge "the first run times" "$(plans fresh timed)" -gt 0 -a "$(plans fresh stored)" -eq 0
judge "it leaves one file" "$(files | wc -l)" -eq 1
file=$(files)
echo "# $file"
train second
judge "the second run takes what is stored" "$(plans second timed)" -eq 0 -a "$(plans second stored)" -eq "$(plans fresh timed)"
judge "both computed by the same plans" "$(plans second sha256)" = "$(plans fresh sha256)"
kept=$(sha256sum <"$file")
train timing --gemm-plans=time
judge "time: all timed" "$(plans timing timed)" -eq "$(plans fresh timed)" -a "$(plans timing stored)" -eq 0
train first --gemm-plans=first
judge "first: nothing timed, nothing stored" "$(plans first timed)" -eq 0 -a "$(plans first stored)" -eq 0
train plain --deterministic
judge "--deterministic alone: nothing stored" "$(plans plain mode)" = first
train repeat1 --deterministic --gemm-plans=stored
train repeat2 --deterministic --gemm-plans=stored
judge "--deterministic with stored plans takes them" "$(plans repeat1 stored)" -eq "$(plans fresh timed)"
judge "and gives the same bits" "$(losses repeat1 | grep -c '^[0-9]')" -eq 4 -a "$(losses repeat1)" = "$(losses repeat2)"
judge "none of these touched the file" "$(sha256sum <"$file")" = "$kept"

sed -i '3s/=../=zz/' "$file"
train changed
judge "a changed file: timed again" "$(plans changed stored)" -eq 0 -a "$(plans changed timed)" -eq "$(plans fresh timed)"
train mended
judge "and replaced" "$(plans mended timed)" -eq 0

# A file that holds, but an algorithm that the library does not know.
body=$(sed '$d' "$file" | awk '/^gemm / && !done { sub(/=.*/, "="); while (n++ < 64) $0 = $0 "ff"; done = 1 } { print }')
{ echo "$body" && echo "sha256 $(echo "$body" | sha256sum | cut -d' ' -f1)"; } >"$file.new" && mv "$file.new" "$file"
train refused
judge "an algorithm that cublasLt refuses: that one is timed" "$(plans refused timed)" -eq 1 -a \
    "$(plans refused stored)" -eq $(($(plans fresh timed) - 1))
train replaced
judge "and replaced in the file" "$(plans replaced timed)" -eq 0
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
