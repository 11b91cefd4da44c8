#!/usr/bin/env bash
# compare, gate, report, plot, export and selftest on sessions with known truth.
. tests/cli/lib.sh
S=$T/session-small
cp -r tests/fixtures/session-small "$S"
has_gnuplot=$(command -v gnuplot || true)

# ---- the fixture is what its generator makes
tests/fixtures/make-session-small "$T/again"
check "the fixture is what its generator makes" diff -r tests/fixtures/session-small "$T/again"

# ---- compare
check "compare: podman is comparable and equivalent" ncbench compare "$S"
cp "$OUT" "$T/compare.txt"
match "compare says it in words" \
    '^ranks 1: podman is equivalent to bare: within ±5 % \(ratio 1\.005, 90 % CI 1\.001–1\.010, paired, 6 blocks\)' "$OUT"
match "compare tells the control" 'A/A control: passed' "$OUT"
match "compare tells what could not be checked" 'memory binding .*cannot be checked' "$OUT"
equal "nothing on standard error" "$(cat "$ERR")" ""
check "compare --json" ncbench compare "$S" --json
equal "json: verdicts" "$(jq -r '[.comparisons[] | select(.metric == "step_time_s") | .b + " " + .verdict] | join(",")' "$OUT")" \
    "podman equivalent,bare-control equivalent,podman equivalent,bare-control equivalent"
equal "json: the ratio is the geometric mean of the blocks" \
    "$(jq -r '.comparisons[0].ratio * 1e6 | round' "$OUT")" \
    "$(jq -s '[.[] | select(.cell.id == "c00" and .block > 0 and .outcome == "ok" and
               (.block != 3 or .attempt == 2))] |
        [group_by(.block)[] | (map(select(.runtime == "podman"))[0].train.step_time_s.median /
                               map(select(.runtime == "bare"))[0].train.step_time_s.median) | log] |
        (add / length | exp) * 1e6 | round' "$S/trials.jsonl")"
equal "json: blocks left out and why" "$(jq -c '.comparisons[0].excluded' "$OUT")" \
    '[{"block":3,"attempt":1,"reason":"podman: disturbed"}]'
equal "json: a missing value is null with a reason" \
    "$(jq -c '[.comparisons[] | select(.metric == "tokens_per_s")][0] | [.p_holm, .p_holm_why]' "$OUT")" \
    '[null,"not in the family of the primary metric"]'
check "compare --csv" ncbench compare "$S" --csv
equal "csv: every row has all columns" "$(awk -F, '{print NF}' "$OUT" | sort -u | tr '\n' ' ')" "20 "
check "compare --md" ncbench compare "$S" --md
match "md: a table" '^\| ranks 1 \| podman \| 6 \|' "$OUT"
check "compare --explain" ncbench compare "$S" --explain
match "explain: the p values" 'p \(TOST\)' "$OUT"
match "explain: the runtime's own namespaces" 'pid namespace +the baseline.s +its own' "$OUT"
match "explain: what the runtime changes" 'seccomp +off +filter' "$OUT"
check "compare --metric --margin" ncbench compare "$S" --metric start_s --margin 10%
match "another metric, another margin" 'podman is slower than bare by .* beyond the margin of ±10 %' "$OUT"
check_rc 2 "one format at a time" ncbench compare "$S" --json --csv
check_rc 2 "a margin needs its unit" ncbench compare "$S" --margin 0.1
check_rc 2 "a margin is above 0" ncbench compare "$S" --margin 0%
check_rc 2 "and not below" ncbench compare "$S" --margin=-5%
check_rc 2 "a metric that is none" ncbench compare "$S" --metric step_tim
match "is named" '"step_tim" is no metric' "$ERR"
check_rc 2 "a session must be named" ncbench compare
check_rc 8 "no session there" ncbench compare "$T/nowhere"

# ---- what is not comparable, slower, incomplete, not finite
tests/fixtures/make-session-small "$T/omp" 2
check_rc 7 "other threads inside: not comparable" ncbench compare "$T/omp"
match "it names the variable and both values" \
    'podman is not comparable with bare: OMP_NUM_THREADS differs: 2 in podman, 1 in bare' "$OUT"
check_rc 7 "the report says so too" ncbench report "$T/omp" --html -o "$T/omp.html"
check_rc 7 "and the gate" ncbench gate "$T/omp"
jq '.cells[].runtimes[1].differs = ["OMP_NUM_THREADS", "omp_max_threads"]' "$T/omp/resolved.json" >"$T/r.json"
mv "$T/r.json" "$T/omp/resolved.json"
check "declared in differs: comparable" ncbench compare "$T/omp"
match "and told" 'OMP_NUM_THREADS .*declared in differs' "$OUT"

check "gate: passed" ncbench gate "$S"
match "gate line" '^passed +step_time_s of podman, ranks 2: not slower than bare' "$OUT"
tests/fixtures/make-session-small "$T/slow" 1 1.12
check "slower: compare still exits 0" ncbench compare "$T/slow"
check_rc 1 "slower: the gate fails" ncbench gate "$T/slow"
check_rc 1 "gate --json" ncbench gate "$T/slow" --json
equal "gate --json says failed" "$(jq -r '.[0].result' "$OUT")" failed
tests/fixtures/make-session-small "$T/edge" 1 1.05
check_rc 6 "at the margin: inconclusive" ncbench gate "$T/edge"
mkdir "$T/short"
cp "$S"/*.json "$T/short/"
head -n 20 "$S/trials.jsonl" >"$T/short/trials.jsonl"
check_rc 5 "too few blocks: incomplete" ncbench gate "$T/short"
check "compare says how far it came" ncbench compare "$T/short"
head -n 3 "$S/trials.jsonl" >"$T/short/trials.jsonl"
check "only the warm-up block" ncbench compare "$T/short" --json
equal "n = 0: null, not NaN" "$(jq -c '.comparisons[0] | [.ratio, .ratio_why, .ci]' "$OUT")" \
    '[null,"no block counts",null]'
: >"$T/short/trials.jsonl"
for verb in compare gate "report -o -" "export" "plot"; do
    # shellcheck disable=SC2086
    set -- $verb
    run ncbench "$@" "$T/short"
    rc=$?
    if [ "$1" = gate ]; then want=5; else want=0; fi
    equal "no trial at all: $1" "$rc" "$want"
done

# ---- export
check "export csv" ncbench export "$S" -o "$T/x.csv"
equal "one row per trial and metric" "$(tail -n +2 "$T/x.csv" | wc -l)" "$((48 * 24))"
match "a value" ',c00\.b01\.bare,.*,ok,step_time_s,0\.0[0-9]+$' "$T/x.csv"
match "an empty cell where there is none" 'c01\.b04\.podman,.*,timeout,step_time_s,$' "$T/x.csv"
check "export json" ncbench export "$S" --format json
equal "json: null with a reason" \
    "$(jq -c '[.[] | select(.outcome == "timeout")][0] | [.value, .value_why]' "$OUT")" \
    '[null,"only ok trials have numbers"]'
check_rc 2 "an unknown format" ncbench export "$S" --format xml
for what in "export $S" "compare $S" "report $S -o -" "gate $S"; do
    # shellcheck disable=SC2086
    ncbench $what >/dev/full 2>"$ERR"
    equal "full disk: ${what%% *}" "$?" 8
done
check_rc 8 "full disk: a file" ncbench export "$S" -o /dev/full

# ---- plots
check "plot" ncbench plot "$S"
P=$S/plots
equal "ratio.dat: six blocks of each row" "$(awk '/^# row percent low/ {exit} /^[0-9]/ {n[$1]++} END {print n[1], n[2], n[3], n[4]}' "$P/ratio.dat")" "6 6 6 6"
equal "ratio.dat: the mean is that of compare" \
    "$(awk '/^# row percent low/ {on = 1; next} on && /^1 / {printf "%.4f %.4f %.4f %.4f %.4f", $2, $3, $4, $5, $6}' "$P/ratio.dat")" \
    "$(ncbench compare "$S" --json | jq -r '.comparisons[0] | [.ratio, .ci[0], .ci[1], 1 / 1.05, 1.05] | .[] | (. - 1) * 100' |
        awk '{printf "%s%.4f", (NR > 1 ? " " : ""), $1}')"
equal "steps.dat: 25 steady steps of each trial" \
    "$(awk '/^# c00 bare: block x step/ {on = 1; next} /^#/ {on = 0} on && /^1 / {n++} END {print n}' "$P/steps.dat")" 25
equal "steps.dat: the median of a trial" \
    "$(awk '/^# c00 bare: block x median/ {on = 1; next} /^#/ {on = 0} on && /^1 / {printf "%.3f", $3}' "$P/steps.dat")" \
    "$(jq -r 'select(.trial == "c00.b01.bare") | .train.step_time_s.median * 1000' "$S/trials.jsonl" | awk '{printf "%.3f", $1}')"
equal "phases.dat: start-up of podman is its median" \
    "$(awk '/^# start \(edges\)/ {on = 1; next} /^#/ {on = 0} on && /^2 / {printf "%.4f", $3 - $2}' "$P/phases.dat")" \
    "$(ncbench compare "$S" --json --metric start_s | jq -r '.comparisons[0].median_b' | awk '{printf "%.4f", $1}')"
equal "phases.dat: stacked without gaps" \
    "$(awk '/^# ends/ {exit} /edges/ {on = 1} /^# start:/ {exit} on && /^1 / {gap += ($2 > end + 1e-9); end = $3} END {print gap + 0}' "$P/phases.dat")" 0
equal "scaling.dat: efficiency of bare" \
    "$(awk '/^# podman/ {exit} /^2 / {printf "%.2f", $5}' "$P/scaling.dat")" \
    "$(ncbench compare "$S" --json | jq -r '[.comparisons[] | select(.metric == "step_time_s" and .b == "podman") | .median_a] | 100 * .[0] / .[1]' | awk '{printf "%.2f", $1}')"
equal "ecdf.dat: from 0 to 100 in steps" \
    "$(awk '/^# c00 bare:/ {on = 1; next} /^#/ {on = 0} on && NF {printf "%.0f ", $2}' "$P/ecdf.dat")" "0 17 33 50 67 83 100 "
no_match "no nan or inf in any data" '(^|[^a-z])-?(nan|inf)([^a-z]|$)' <(cat "$P"/*.dat)

png_size() { od -An -tu1 -j16 -N8 "$1" | awk '{print $3 * 256 + $4, $7 * 256 + $8}'; }
if [ -n "$has_gnuplot" ]; then
    for kind in ratio steps phases scaling ecdf; do
        check "$kind.svg is XML" xmllint --noout --nonet "$P/$kind.svg"
        check "$kind.svg holds marks" test "$(grep -cE '<(use|path|polygon|circle)' "$P/$kind.svg")" -gt 8
        read -r w h <<<"$(png_size "$P/$kind.png")"
        check "$kind.png has a size ($w x $h)" test "${w:-0}" -gt 300 -a "${h:-0}" -gt 150
        check "$kind.png is no blank" test "$(stat -c %s "$P/$kind.png")" -gt 8000
    done
    equal "steps.svg: a mark for each step inside the frame" \
        "$(test "$(grep -o '<use ' "$P/steps.svg" | wc -l)" -gt 900 && echo yes)" yes
    (cd / && ncbench plot "$S" --kind ecdf --format svg -o "$T/elsewhere" >"$OUT" 2>"$ERR")
    equal "from anywhere, one kind, one format" "$(find "$T/elsewhere" -type f -printf '%f\n' | sort | tr '\n' ' ')" "ecdf.dat ecdf.gp ecdf.svg "
    (cd "$T/elsewhere" && rm ecdf.svg && gnuplot ecdf.gp)
    check "the .gp runs by hand" test -s "$T/elsewhere/ecdf.svg"
else
    skip "pictures" "gnuplot is not installed"
fi
mkdir "$T/bin"
ln -s "$(command -v ncbench)" "$T/bin/ncbench"
PATH=$T/bin run ncbench plot "$S" -o "$T/bare"
equal "without gnuplot: exit 0" "$?" 0
equal "without gnuplot: data and scripts" "$(find "$T/bare" -type f | wc -l)" 10
match "without gnuplot: a note" 'gnuplot is not installed' "$ERR"
check_rc 2 "an unknown kind" ncbench plot "$S" --kind pie
sed -i 's/"podman"/"pod<b>\x27man%"/g' "$T/slow/resolved.json" "$T/slow/trials.jsonl"
check "hostile names in plots" ncbench plot "$T/slow"
no_match "hostile names break no picture" 'failed' "$ERR"

# ---- report
before=$(find "$T/slow/plots" -type f | wc -l)
rm -r "$T/slow/plots"
check "report -o leaves the session alone" ncbench report "$T/slow" --html -o "$T/away.html"
check "and has its pictures" test "$(grep -c '<svg' "$T/away.html")" = "$(test "$before" -gt 10 && echo 5 || echo 0)"
check "no plots folder came" test ! -e "$T/slow/plots"
check "report writes both" ncbench report "$S"
check "report.html is there" test -s "$S/report.html"
check "report.md is there" test -s "$S/report.md"
H=$S/report.html
no_match "self-contained: no script, nothing fetched" '<script|<link|src=|url\([^#]|@import|https?://[^"w]' "$H"
match "the headline" '<div class="verdict good"><b>equivalent</b><i>ranks 1</i>' "$H"
for section in "Are they comparable" "What the runtimes change" "Start-up and phases" "Scaling" \
    "Failures and blocks left out" "Method" "Environment and provenance" "How to reproduce"; do
    match "section: $section" "<h2>$section" "$H"
    match "section in Markdown: $section" "^## $section" "$S/report.md"
done
match "the reason of the margin" 'margin 5&nbsp;% because two shared cores are noisy' "$H"
match "the disturbed block" 'podman: disturbed' "$H"
match "the failed trial" 'c01\.b04\.podman: timeout: no output for 120 s' "$H"
match "image digest" 'sha256:abc' "$H"
no_match "no nan, no inf" '(^|[^a-zA-Z])-?(nan|inf)([^a-zA-Z]|$)' <(sed 's/<svg.*//' "$H")
if [ -n "$has_gnuplot" ]; then
    equal "pictures inside" "$(grep -c '<svg' "$H")" 5
    mkdir "$T/counting"
    printf '#!/bin/sh\necho >>"%s/calls"\nexec "%s" "$@"\n' "$T" "$has_gnuplot" >"$T/counting/gnuplot"
    chmod +x "$T/counting/gnuplot"
    PATH=$T/counting:$PATH ncbench report "$S" --html -o "$T/one.html" >/dev/null 2>&1
    one=$(wc -l <"$T/calls")
    PATH=$T/counting:$PATH ncbench report "$S" >/dev/null 2>&1
    equal "two formats draw no more than one" "$(wc -l <"$T/calls")" "$((2 * one))"
    PATH=$T/counting:$PATH ncbench report "$S" --md -o "$T/one.md" >/dev/null 2>&1
    equal "and Markdown by itself nothing" "$(wc -l <"$T/calls")" "$((2 * one))"
fi
check "well-formed" xmllint --html --noout --nonet "$H"
no_match "no error but tags newer than the checker" 'error' <(grep 'error' "$ERR" | grep -v 'Tag [a-zA-Z]* invalid')
check "hostile names in the report" ncbench report "$T/slow" --html -o "$T/h.html"
match "are escaped" 'pod&lt;b&gt;&#39;man%' "$T/h.html"
no_match "nowhere raw" 'pod<b>' "$T/h.html"
check "hostile names in Markdown" ncbench report "$T/slow" --md -o -
no_match "are escaped in Markdown" 'pod<b>' "$OUT"
check_rc 2 "two formats, one file" ncbench report "$S" --html --md -o x

# ---- outliers are flagged and kept
mkdir "$T/far"
cp "$S"/*.json "$T/far/"
jq -c 'if .trial == "c00.b02.podman" then .train.step_time_s.median = 0.2 else . end' "$S/trials.jsonl" >"$T/far/trials.jsonl"
check "an outlier" ncbench compare "$T/far" --explain
match "is flagged" 'c00\.b02\.podman is far from the others and was kept: 200\.0 ms' "$OUT"
match "and counts" 'paired, 6 blocks' "$OUT"

# ---- the end of a run
cat >"$T/fake.yaml" <<'YAML'
version: 1
name: fakes
description: fake arms with a known truth
baseline: bare
workload: {exec: [/bin/true], events: required}
runtimes:
  - {name: bare, kind: fake, script: {step_time_s: 100ms, steps: 20, noise_sd: 0.3%, start_s: 0.05}}
  - {name: slow, kind: fake, script: {step_time_s: 100ms, effect: 3%, steps: 20, noise_sd: 0.3%, start_s: 0.2}}
launch: {ranks_per_node: 1}
sampling: {looks: [6, 12]}
compare: {primary: step_time_s, margin: {step_time_s: 1%}}
gates: [{metric: step_time_s, runtime: "*", vs: baseline, verdict: not_slower}]
YAML
if [ -n "${TEST_NO_SESSION:-}" ]; then
    skip "a session of the fake runtime" "$TEST_NO_SESSION"
else
    check "run exits 0, whatever the verdict" ncbench run "$T/fake.yaml" --out "$T/results"
    F=$(cat "$OUT")
    match "and tells it" 'slow is slower than bare by .* beyond the margin of ±1 %' "$ERR"
    check "and leaves report and plots" test -s "$F/report.html" -a -s "$F/report.md" -a -s "$F/plots/ratio.dat"
    check "compare reads the session" ncbench compare "$F" --json
    equal "the verdict is in the numbers" "$(jq -r '.comparisons[0].verdict' "$OUT")" slower
    equal "a look with two in all: 94.12 %" "$(jq -r '.comparisons[0].confidence * 1e4 | round' "$OUT")" 9412
    check_rc 1 "run --gate exits as the gate" ncbench run "$T/fake.yaml" --gate --out "$T/results"
    check "no report asked for" ncbench run "$T/fake.yaml" --out "$T/results" -D output.report=[] -D output.plots=[]
    check "none written" test ! -e "$(cat "$OUT")/report.html"
fi

# ---- one arm alone
mkdir "$T/alone"
cp "$S/session.json" "$T/alone/"
jq 'del(.cells[].runtimes[1, 2]) | .sampling.control = false' "$S/resolved.json" >"$T/alone/resolved.json"
jq -c 'select(.runtime == "bare")' "$S/trials.jsonl" >"$T/alone/trials.jsonl"
check "one arm alone" ncbench compare "$T/alone"
match "has numbers" '^ +ranks 1 +6 +79\.[0-9]+ ms' "$OUT"
match "and no comparison" 'nothing is compared' "$OUT"
check "and a report" ncbench report "$T/alone"
check "and passes its gates, for there is nothing to fail" ncbench gate "$T/alone"

# ---- locale: results are the same bytes
if localedef -i de_DE -f UTF-8 "$T/de_DE.UTF-8" >/dev/null 2>&1 || [ -d "$T/de_DE.UTF-8" ]; then
    export LOCPATH=$T
    equal "the locale writes commas" "$(LC_ALL=de_DE.UTF-8 awk 'BEGIN {exit}' && LC_ALL=de_DE.UTF-8 locale decimal_point)" ","
    LC_ALL=de_DE.UTF-8 run ncbench compare "$S"
    check "the same text under a comma locale" cmp "$T/compare.txt" <(LC_ALL=de_DE.UTF-8 ncbench compare "$S")
    LC_ALL=de_DE.UTF-8 run ncbench plot "$S" -o "$T/de"
    for f in ratio steps phases scaling ecdf; do
        check "the same $f.dat under a comma locale" cmp "$P/$f.dat" "$T/de/$f.dat"
        [ -z "$has_gnuplot" ] || check "the same $f.svg" cmp "$P/$f.svg" "$T/de/$f.svg"
    done
    unset LOCPATH
else
    skip "comma locale" "no locale de_DE.UTF-8 and no localedef to make it"
fi

# ---- selftest
check "selftest" ncbench selftest
match "A/A comes out equivalent" 'A/A, drift.* ok$' "$OUT"
match "+3 % is found" '^ +3 % slower .* ok$' "$OUT"
check "selftest --json" ncbench selftest --json
equal "all cases pass" "$(jq -c '[.[].passed] | all' "$OUT")" true
finish
