#!/usr/bin/env bash
# selftest --full, power in plan: statistics on sessions of the fake runtime, whose truth is known.
. tests/cli/lib.sh
. tests/cli/session_lib.sh
command -v jq >/dev/null || { echo "jq is not installed"; exit 77; }
BLOCKS=all

# fake NAME EFFECT NOISE [line…]: $T/NAME.yaml, two arms of kind fake
fake() {
    local name=$1 effect=$2 noise=$3
    shift 3
    cat >"$T/$name.yaml" <<END
version: 1
name: $name
baseline: bare
workload: {exec: ["true"], events: required}
runtimes:
  - {name: bare, kind: fake, script: {step_time_s: 0.1, steps: 20, noise_sd: $noise}}
  - {name: arm, kind: fake, script: {step_time_s: 0.1, steps: 20, noise_sd: $noise, effect: $effect}}
output: {plots: [], report: []}
limits: {disk_free: 64KiB}
END
    replace "$T/$name.yaml" "$@"
}

# ---- selftest --full
check "selftest --full, shortened" ncbench selftest --full --sessions 150 --json
cp "$OUT" "$T/full.json"
equal "every rule holds" "$(jq -c '[.[] | select(.rule) | .holds] | all' "$OUT")" true
equal "rules for false claims, power and coverage" \
    "$(jq -r '[.[] | select(.rule) | .rule] | unique | join(", ")' "$OUT")" \
    "covers within 1 point, different at most 5.5 %, equivalent at most 5.5 %, slower at least 99 %"
equal "1, 2 and 3 looks" "$(jq -c '[.[] | .looks] | unique' "$OUT")" '[1,2,3]'
equal "+1, +2 and +3 %" "$(jq -c '[.[] | .effect] | unique' "$OUT")" '[0,0.005,0.01,0.02,0.03]'
check "the same with three processes" ncbench selftest --full --sessions 150 --json --jobs 3
equal "gives the same table" "$(cat "$OUT")" "$(cat "$T/full.json")"
check "another seed" ncbench selftest --full --sessions 150 --json --seed 5
differ() { [ "$1" != "$2" ] && echo yes || echo no; }
equal "gives other sessions" "$(differ "$(cat "$OUT")" "$(cat "$T/full.json")")" yes
check "for people" ncbench selftest --full --sessions 20
match "with its seeds" '20 sessions a row; .* seed 20261130' "$OUT"
check_rc 2 "no session is no selftest" ncbench selftest --full --sessions 0

# ---- selftest --pitfalls, which docs/methodology.md quotes
check "selftest --pitfalls, shortened" ncbench selftest --pitfalls --sessions 2000 --json
equal "usual ways claim what is not there, ours hold the level" \
    "$(jq -c '[.[] | .usual_false_claims > 0.08 and .ours_false_claims < 0.08] | all' "$OUT")" true
quoted=$(sed -n '/^### Usual ways/,/^### Error/p' docs/methodology.md)
percent() { sed -n "s/^| $1 | \([0-9]*\) % | .* | \([0-9]*\) % |\$/\1 \2/p" <<<"$quoted"; }
while IFS=$'\t' read -r way usual ours; do
    read -r told_usual told_ours <<<"$(percent "$way")"
    # three standard errors of 2,000 sessions are 3.4 points at most
    equal "the method quotes it: $way" "$(awk -v a="$usual" -v b="${told_usual:--1}" -v c="$ours" -v d="${told_ours:--1}" \
        'BEGIN { print (a - b) ^ 2 < 16 && (c - d) ^ 2 < 9 ? "yes" : "no: " a " " b ", " c " " d }')" yes
done < <(jq -r '.[] | [.usual, .usual_false_claims * 100, .ours_false_claims * 100] | @tsv' "$OUT")

# ---- power
fake power 0 0.005
check "plan without a session" ncbench plan "$T/power.yaml" -D "output.dir=$R"
match "says that there is none" 'no session in .*/power yet' "$OUT"
session 0 "a session" power
check "plan after a session" ncbench plan "$T/power.yaml" -D "output.dir=$R"
match "tells its noise and the blocks that the margin needs" \
    'c00  arm +noise 0\.[3-9]. % \([0-9]+ blocks\); a margin of 1 % needs [0-9]+ blocks for a power of 80 %, [0-9]+ for 90 %; 24 have [0-9]+ %' "$OUT"
match "and by which session" "by the noise of session ${S##*/}" "$OUT"
needs=$(sed -n 's/.* needs \([0-9]*\) blocks.*/\1/p' "$OUT")
check "a narrower margin" ncbench plan "$T/power.yaml" -D "output.dir=$R" -D 'compare.margin.step_time_s=0.3%'
more=$(sed -n 's/.* needs \([0-9]*\) blocks.*/\1/p' "$OUT")
equal "needs more blocks" "$([ "$more" -gt "$needs" ] && echo yes)" yes
fake other 0 0.005
check "the noise of another session" ncbench plan "$T/other.yaml" --session "$S"
match "is used where the cell is the same" 'c00  arm +noise' "$OUT"
fake cells 0 0.005 'matrix: {n: [1, 2]}'
check "a session of other cells" ncbench plan "$T/cells.yaml" --session "$S"
match "tells nothing" 'it has no cell of this plan' "$OUT"
check_rc 8 "a session that is not there" ncbench plan "$T/other.yaml" --session "$T/nowhere"

# ---- merge
fake days 0.002 0.004 'sampling: {looks: [6], seed: 1}'
M=()
for seed in 1 2 3; do
    session 0 "session $seed" days -D "sampling.seed=$seed"
    M+=("$S")
done
check "merge" ncbench merge "${M[@]}" -o "$T/merged"
equal "prints its folder" "$(cat "$OUT")" "$T/merged"
match "and the verdict, of three sessions" 'arm .*paired, 18 blocks of 3 sessions\)' "$ERR"
check "compare reads it" ncbench compare "$T/merged" --json
equal "all blocks, in strata" "$(jq -c '.comparisons[0] | [.n_blocks, .strata]' "$OUT")" '[18,3]'
equal "the ratio is that of all blocks" "$(jq '.comparisons[0].ratio * 1e7 | round' "$OUT")" \
    "$(for s in "${M[@]}"; do ncbench compare "$s" --json | jq '.comparisons[0].ratio'; done |
        jq -s 'map(log) | add / length | exp | . * 1e7 | round')"
half() { jq '.comparisons[0].ci | (.[1] - .[0])' "$1"; }
ncbench compare "${M[0]}" --json >"$T/one.json"
equal "a narrower interval than one session's" "$(awk -v a="$(half "$OUT")" -v b="$(half "$T/one.json")" 'BEGIN { print (a < b) }')" 1
check "report reads it" ncbench report "$T/merged" --md -o "$T/merged.md"
match "and names the sessions" '18 blocks of 3 sessions' "$T/merged.md"
equal "three complete ones are complete" "$(jq -c '[.state, .exit_code]' "$T/merged/session.json")" '["complete",0]'
cp -r "${M[1]}" "$T/part"
jq '.state = "incomplete" | .exit_code = 5' "${M[1]}/session.json" >"$T/part/session.json"
check "with one that is not" ncbench merge "${M[0]}" "$T/part" -o "$T/partly"
equal "the whole is not complete" "$(jq -c '[.state, .exit_code]' "$T/partly/session.json")" '["incomplete",5]'
check "merge beside the sessions" ncbench merge "${M[0]}" "${M[1]}"
equal "not where the newest session is looked for" "$(dirname "$(cat "$OUT")")" "$(realpath "$R")/days/merged"
check_rc 8 "not over a session that is there" ncbench merge "${M[@]}" -o "$T/merged"
check_rc 2 "one session is no merge" ncbench merge "${M[0]}"
check_rc 2 "the same twice" ncbench merge "${M[0]}" "${M[0]}/"
match "is named" 'is named twice' "$ERR"
cp -r "${M[1]}" "$T/copied"
check_rc 2 "a copy of one of them" ncbench merge "${M[@]}" "$T/copied" --allow-different -o "$T/doubled"
match "holds the same trials" "$(basename "${M[1]}") and copied hold the same trial, c00\.b[0-9]+\.[a-z]+ of session $(basename "${M[1]}")\$" "$ERR"
check_rc 2 "a merged session and a part of it" ncbench merge "$T/merged" "${M[2]}" -o "$T/doubled"
match "too" "merged and $(basename "${M[2]}") hold the same trial" "$ERR"
mkdir "$T/empty"
check_rc 8 "what is no session" ncbench merge "${M[0]}" "$T/empty"
session 0 "another question" days -D 'compare.margin.step_time_s=2%'
check_rc 7 "is refused" ncbench merge "${M[0]}" "$S"
match "with what differs" 'ask different questions: "compare" differs' "$ERR"
cp -r "${M[1]}" "$T/other-program"
sed -i 's/"binary_sha256":"[0-9a-f]*"/"binary_sha256":"00000000000000"/' "$T/other-program/trials.jsonl"
check_rc 7 "another program is refused" ncbench merge "${M[0]}" "$T/other-program"
match "with what differs" 'different programs in bare: sha256' "$ERR"
check "unless it is asked for" ncbench merge "${M[0]}" "$T/other-program" --allow-different -o "$T/mixed"
session 0 "other cells" cells
check_rc 3 "are refused always" ncbench merge "${M[0]}" "$S" --allow-different
fake shifted 0.03 0.004 'name: days' 'sampling: {looks: [6], seed: 4}'
session 0 "a session with an effect of its own" shifted
check "sessions that differ among themselves" ncbench merge "${M[@]}" "$S" --allow-different -o "$T/differ"
match "are told, and their means are the sample" 'of 4 sessions\); the sessions may differ among themselves \(p = [0-9.e-]+\)' "$ERR"

# ---- the cap of what is repeated: of the analysed blocks, rounded down, but one at least
fake often 0 0.003 'sampling: {looks: [6], stop: never}' 'limits: {disk_free: 64KiB, max_failures: 1000}'
sed -i 's/effect: 0}/effect: 0, fail_every: 1, outcome: disturbed}/' "$T/often.yaml"
# capped WHAT EXPECTED OPTION…: so many blocks are repeated in a session whose every block is disturbed
capped() {
    local what=$1 expected=$2
    shift 2
    ncbench run --progress none --out "$T/capped" "$T/often.yaml" "$@" >"$OUT" 2>"$ERR"
    equal "$what" "$(jq -s '[.[] | select(.attempt > 1) | .block] | unique | length' "$(tail -n 1 "$OUT")/trials.jsonl")" "$expected"
}
capped "a quarter of six analysed blocks" 1
capped "of 24" 6 -D sampling.looks=[24]
capped "one of two" 1 -D sampling.looks=[2]
capped "none where none is wanted" 0 -D disturbance.max_repeated=0%

# ---- the handicap control: a known slowdown must be found
fake slowed 0 0.003 'sampling: {looks: [6], handicap: 3%, control: true}'
session 0 "a session with both controls" slowed
equal "the arms" "$(jq -r .runtime "$S/trials.jsonl" | sort -u | paste -sd' ')" "arm bare bare-control bare-handicap"
check "compare" ncbench compare "$S" --json
equal "the slowed arm is a control" "$(jq -r '.comparisons[] | select(.metric == "step_time_s" and .b == "bare-handicap") | [.control, .verdict] | join(" ")' "$OUT")" "true slower"
equal "found by its size" "$(jq '.comparisons[] | select(.metric == "step_time_s" and .b == "bare-handicap") | .ratio > 1.025 and .ratio < 1.035' "$OUT")" true
equal "the controls passed" "$(jq -c .control.ok "$OUT")" true
check "for people" ncbench compare "$S"
match "controls are told apart from verdicts" 'A/A and handicap controls: passed' "$OUT"
fake blind 0 0.05 'sampling: {looks: [6], handicap: 3%}' 'gates: [{metric: step_time_s, verdict: not_slower}]'
session 0 "a session too noisy to see 3 %" blind
check_rc 7 "is untrustworthy" ncbench compare "$S"
match "for that reason" 'untrustworthy: the handicap control, bare with steps 3 % longer, was not shown to be slower; it came out "inconclusive"' "$OUT"
check_rc 7 "and its gate" ncbench gate "$S"
fake blinder 0 0.05 'sampling: {looks: [6], handicap: 3%}' ''
session 0 "a session like it without gates" blinder
check_rc 7 "no gates pass no session that cannot be trusted" ncbench gate "$S"
match "and it is said" 'has no gates: only whether the session can be trusted' "$OUT"
cat >"$T/foreign.yaml" <<'END'
version: 1
name: foreign
baseline: bare
workload: {exec: ["true"], events: none}
runtimes: [{name: bare, kind: bare}]
sampling: {handicap: 3%}
END
check_rc 3 "a foreign command does not slow itself down" ncbench check "$T/foreign.yaml"
match "the key is named" 'sampling.handicap: needs workload.command: base-train' "$ERR"
mkdir "$T/h"
NCBENCH_TRIAL_DIR=$T/h NANOCHAT_HANDICAP=1 check "nanochat, every step twice as long" nanochat base-train --depth=1 --max-seq-len=32 \
    --vocab-size=256 --device-batch-size=1 --total-batch-size=32 --num-iterations=4 --data-source=synthetic --eval-every=-1 \
    --sample-every=-1 --save-every=0
equal "half of each step is waiting" "$(jq -s '[.[] | select(.event == "step") | (.t_end_s - .t_start_s) >= 2 * (.fwd_s + .bwd_s + .opt_s)] | all and length == 4' "$T"/h/events.rank*.jsonl)" true
cat >"$T/verb.yaml" <<'END'
version: 1
name: verb
baseline: bare
workload:
  command: base-train
  model: {depth: 1, max_seq_len: 32, vocab_size: 256}
  train: {device_batch_size: 1, total_batch_size: 32, num_iterations: 8, eval_every: -1, sample_every: -1, save_every: 0}
  data: {source: synthetic}
  check: {loss: {rel_tol: 1%}}
runtimes: [{name: bare, kind: bare}, {name: arm, kind: bare}]
sampling: {looks: [2], handicap: 400%, discard_first_block: false, warmup: {steps: 1, detect: false}}
output: {plots: [], report: []}
limits: {disk_free: 64KiB}
END
session 0 "a real session with a handicap" verb
equal "the slowed arm was told so, and only that one" \
    "$(jq -r '[.runtime, .env[0].environment.NANOCHAT_HANDICAP // "-"] | join(" ")' "$S/trials.jsonl" | sort -u | paste -sd,)" \
    "arm -,bare -,bare-handicap 4"
equal "its steps are longer, its losses are the same" \
    "$(jq -s '[.[] | select(.runtime == "bare-handicap")] | map(.train.loss_last) == ([.[0].train.loss_last, .[0].train.loss_last])' "$S/trials.jsonl")" true
ncbench compare "$S" --json >"$OUT" 2>"$ERR"
equal "about five times" "$(jq '[.comparisons[] | select(.metric == "step_time_s" and .b == "bare-handicap")][0].ratio > 2' "$OUT")" true
equal "comparable all the same" "$(jq -r '[.comparisons[] | select(.metric == "step_time_s" and .b == "bare-handicap")][0].verdict != "not_comparable"' "$OUT")" true
NANOCHAT_HANDICAP=3% check_rc 2 "a ratio, not a text" nanochat base-train --depth=1 --max-seq-len=32 --vocab-size=256 \
    --device-batch-size=1 --total-batch-size=32 --num-iterations=1 --data-source=synthetic
match "is named" 'NANOCHAT_HANDICAP="3%": expected a ratio' "$ERR"

# ---- scaling: made of records, sizes 1 to N, step times and batches as given
# scaled NAME MODE BATCH-AT-N… : session $T/NAME; speed by USL (alpha .02, beta .0005), the arm 0.3 % slower at each doubling
scaled() {
    python3 - "$@" "$T" <<'END'
import json, math, os, random, sys
name, mode, batches, top = sys.argv[1], sys.argv[2], [int(b) for b in sys.argv[3:-1]], sys.argv[-1]
d = f"{top}/{name}"
os.makedirs(d)
arms = [{"name": "bare", "kind": "bare"}, {"name": "arm", "kind": "bare"}]
cells = [{"id": f"c{i:02d}", "values": {"ranks": 2**i}, "nodes": 1, "ranks_per_node": 2**i, "runtimes": arms} for i in range(len(batches))]
json.dump({"name": name, "baseline": "bare", "runtimes": arms, "cells": cells, "scaling": {"mode": mode, "over": "ranks"},
           "sampling": {"looks": [6], "stop": "never"}, "compare": {"primary": "step_time_s"}}, open(d + "/resolved.json", "w"))
json.dump({"schema": "session/1.0", "session": name, "state": "complete", "exit_code": 0}, open(d + "/session.json", "w"))
rng = random.Random(7)
out = open(d + "/trials.jsonl", "w")
for i, b in enumerate(batches):
    n = 2**i
    c = n / (1 + .02 * (n - 1) + .0005 * n * (n - 1))
    for block in range(1, 7):
        for arm in range(2):
            t = (n if mode == "weak" else 1) / c * (1 + .003 * arm * i) * math.exp(rng.gauss(0, .0005))
            json.dump({"schema": "trial/1.0", "trial": f"c{i:02d}.b{block}.{arm}", "seq": 1, "cell": {"id": f"c{i:02d}"}, "block": block, "ranks": n,
                       "runtime": arms[arm]["name"], "baseline": arm == 0, "outcome": "ok", "env": [],
                       "config": {"device_batch_size": b, "accumulation": max(1, 64 // n) if mode == "strong" else 1},
                       "train": {"step_time_s": {"median": t}}}, out)
            out.write("\n")
END
}
if command -v python3 >/dev/null; then
    scaled weak weak 4 4 4 4 4 4 4
    check "report of a scaling series" ncbench report "$T/weak" --md -o "$T/weak.md"
    match "the slope of the ratio, with its interval" 'arm: the ratio to bare changes by \+0\.(29|30|28) % at each doubling \(95 % CI \+0\.[0-9]+ to \+0\.[0-9]+ %\): what it costs grows' "$T/weak.md"
    match "contention and coherency, as planted" 'bare: Gustafson.* USL contention 0\.0(19|20)[0-9]*, coherency 0\.000(49|5)' "$T/weak.md"
    match "the largest useful size, with its interval" 'largest useful size about 4[0-9] \(95 % CI 4[0-9]–4[0-9]\)' "$T/weak.md"
    match "the batch at each point" '4 × 1' "$T/weak.md"
    check "compare has it too" ncbench compare "$T/weak" --json
    equal "as JSON" "$(jq -c '.scaling[1] | [.arm, (.points | length), .log_ratio_per_doubling[1] > 0]' "$OUT")" '["arm",7,true]'
    scaled few strong 4 4 4 4
    check "four sizes" ncbench report "$T/few" --md -o "$T/few.md"
    match "a serial fraction" 'Amdahl.s serial fraction' "$T/few.md"
    equal "no largest size from four points" "$(grep -c 'largest useful' "$T/few.md")" 0
    equal "accumulation falls in strong scaling: no break" "$(grep -c 'the batch of a rank changes' "$T/few.md")" 0
    scaled two weak 4 4
    check "two sizes" ncbench report "$T/two" --md -o "$T/two.md"
    equal "efficiency alone" "$(grep -cE 'USL|Gustafson' "$T/two.md")" 0
    scaled broken weak 4 4 2 2 2
    check "another batch from 4 ranks on" ncbench report "$T/broken" --md -o "$T/broken.md"
    match "is a break" 'bare: from 2 to 4 the batch of a rank changes \(4 × 1 to 2 × 1' "$T/broken.md"
    equal "and no model is fitted across it" "$(grep -cE 'USL|Gustafson' "$T/broken.md")" 0
    check "its plot" ncbench plot "$T/broken" --kind scaling -o "$T/broken-plots"
    equal "has a gap there" "$(awk '/^# arm/ {exit} {print ($0 == "") ? "-" : $1}' "$T/broken-plots/scaling.dat" | paste -sd' ' | grep -c '2 - 4 8 16')" 1
fi

# ---- disturbance: a second load on the machine while one arm runs, from outside of the session
P=$PWD/$BUILD/payload
cat >"$T/load.yaml" <<END
version: 1
name: load
baseline: bare
workload: {exec: ["$P", hello, steps, "4", "0.02", sleep, "0.5", done, "0", exit, "0"], events: required}
runtimes:
  - {name: bare, kind: bare}
  - {name: arm, kind: command, prefix: [sh, -c, "touch $T/go; \"\$\$@\"; rc=\$\$?; rm -f $T/go; exit \$\$rc", sh, "{argv}"]}
sampling: {looks: [4], discard_first_block: false, warmup: {steps: 1, detect: false}}
output: {plots: [], report: []}
limits: {disk_free: 64KiB, max_failures: 1}
END
# Burns a CPU while $T/go is there; ends by itself.
(
    end=$((SECONDS + 60))
    until [ -e "$T/stop" ] || [ $SECONDS -ge $end ]; do
        if [ -e "$T/go" ]; then "$P" spin 0.05; else "$P" sleep 0.02; fi
    done
) &
burner=$!
unset NCBENCH_WATCH
check "a session with a load beside one arm" timeout 120 ncbench run "$T/load.yaml" --out "$R" --progress none
S=$(tail -n 1 "$OUT")
touch "$T/stop"
wait $burner
arm=$(jq -s '[.[] | select(.runtime == "arm")]' "$S/trials.jsonl")
equal "every trial of that arm is disturbed" "$(jq -c 'map(.outcome) | unique' <<<"$arm")" '["disturbed"]'
equal "and says by what" "$(jq 'map(.reasons[] | select(test("other processes used .* of the ranks. 1 PU; 5 % are allowed"))) | length == 5' <<<"$arm")" true
equal "a disturbed trial keeps its numbers" "$(jq 'map(.train.step_time_s.median > 0) | all' <<<"$arm")" true
equal "one block of four is repeated: a quarter" "$(jq -s '[.[] | select(.attempt > 1) | .block] | unique | length' "$S/trials.jsonl")" 1
equal "disturbed trials are no failures: the session is complete" "$(jq -r .state "$S/session.json")" complete
check_rc 7 "the verdict" ncbench compare "$S" --json
equal "is untrustworthy" "$(jq -r '.comparisons[0].verdict' "$OUT")" untrustworthy
match "for that reason" 'blocks were disturbed by others' "$OUT"
equal "the analysis of all blocks stands beside" "$(jq '.comparisons[0].sensitivity.all_blocks[0] > 0' "$OUT")" true
equal "pressure is recorded" "$(jq -s 'map(.host[0] | has("psi_cpu_some_s") and has("psi_io_some_s")) | all' "$S/trials.jsonl")" true
busy() { awk '/^cpu / { print $2 + $3 + $4 + $7 + $8 + $9 }' /proc/stat; }
is_quiet() {
    local before
    before=$(busy)
    sleep 1
    [ $(($(busy) - before)) -le 2 ]
}
# Others may come in the middle of it: three tries, of which one must have more quiet trials than disturbed ones.
sed 's/^name: load/name: quiet/' "$T/load.yaml" >"$T/quiet.yaml"
counts=
for _ in 1 2 3; do
    is_quiet || continue
    check "the same on a quiet machine" timeout 120 ncbench run "$T/quiet.yaml" --out "$R" --progress none
    counts=$(jq -r .outcome "$(tail -n 1 "$OUT")/trials.jsonl" | sort | uniq -c | tr -s ' ' | tr '\n' ' ')
    read -r quiet disturbed < <(awk '{ for (i = 1; i < NF; i += 2) n[$(i + 1)] += $i; print n["ok"] + 0, n["disturbed"] + 0 }' <<<"$counts")
    [ "$quiet" -le "$disturbed" ] || break
done
if [ -z "$counts" ]; then skip "a quiet machine" "others use the CPUs here"; else
    equal "most of it is not disturbed:$counts" "$((quiet > disturbed))" 1
fi
export NCBENCH_WATCH=off
check "not watched" timeout 120 ncbench run "$T/load.yaml" --out "$R" --progress none
S=$(tail -n 1 "$OUT")
equal "nothing is disturbed" "$(jq -r .outcome "$S/trials.jsonl" | sort -u)" ok
equal "and the record says why" "$(jq -r .disturbance_why "$S/trials.jsonl" | sort -u)" "NCBENCH_WATCH=off: not judged"
finish
