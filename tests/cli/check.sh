#!/usr/bin/env bash
# ncbench check and plan: error texts are golden files (tests/fixtures/scenarios/X.yaml, X.expected;
# UPDATE=1 writes them anew, to be read before they are committed, and fails), and the limits of the loader.
# shellcheck source=tests/cli/lib.sh
. tests/cli/lib.sh
FIXTURES=$PWD/tests/fixtures/scenarios
NCBENCH=$(command -v ncbench)
export HOME=$T

head='version: 1\nname: demo\nbaseline: bare\nruntimes:\n  - {name: bare, kind: bare}\n'
work="${head}workload: {exec: [sleep, '1']}\n"
write() { printf '%b' "$2" >"$T/$1.yaml"; }

# ---- golden texts: the whole message, and exit 3 -------------------------------------------------
cd "$FIXTURES" || exit 1
for file in *.yaml; do
    name=${file%.yaml}
    "$NCBENCH" check --portable "$file" >"$OUT" 2>"$ERR"
    rc=$?
    [ -z "${UPDATE:-}" ] || cp "$ERR" "$name.expected"
    if [ "$rc" -ne 3 ]; then
        not_ok "$file: exit 3" "exit $rc"
    elif ! cmp -s "$ERR" "$name.expected"; then
        not_ok "$file: message" "$(diff "$name.expected" "$ERR" | head -n 12)"
    else
        ok "$file"
    fi
done
cd - >/dev/null || exit 1
[ -z "${UPDATE:-}" ] || not_ok "the golden texts were written anew" "git diff tests/fixtures/scenarios; then run without UPDATE"

# ---- what loads ----------------------------------------------------------------------------------
cd "$T" || exit 1
write plain "$work"
printf '\xef\xbb\xbf%b' "$work" >bom.yaml
sed 's/$/\r/' plain.yaml >crlf.yaml
for form in plain bom crlf; do ncbench check --portable --dump $form.yaml >$form.json; done
equal "a byte-order mark changes nothing" "$(cat bom.json)" "$(cat plain.json)"
equal "CRLF changes nothing" "$(cat crlf.json)" "$(cat plain.json)"
match "the dump holds the cells" '"id": "c00"' plain.json
if command -v iconv >/dev/null; then
    iconv -f UTF-8 -t UTF-16 plain.yaml >utf16.yaml
    iconv -f UTF-8 -t UTF-16LE plain.yaml >utf16le.yaml
    for form in utf16 utf16le; do
        check_rc 3 "$form is refused" ncbench check --portable $form.yaml
        match "$form is named" "$form.yaml: error: encoding UTF-16 not supported, save as UTF-8" "$ERR"
    done
else
    skip "UTF-16 is refused" "no iconv"
fi
write tab "${work}description: \"a\\\\tb\\tc\" #\\tnote\n"
check "a tab in quotes or a comment is fine" ncbench check --portable tab.yaml
write emoji "${work}description: hi 🙋\n"
check "an emoji is fine" ncbench check --portable emoji.yaml
write anchors "${head}workload: {exec: [x], args: [&a one, &b two, &c three, *a, *b, *c, *a, *b, *c, *a, *b, *c, *a, *b, *c]}\n"
check "three anchors used five times are fine" ncbench check --portable anchors.yaml
write same-keys "${head}workload: {exec: [x], env: {A: '1'}}\ngates: [{metric: wall_s, min: 1}, {metric: wall_s, min: 2}]\n"
check "one key in two mappings is fine" ncbench check --portable same-keys.yaml
for value in 90s 1m30s 1.5h 100ms '"90s"'; do
    write duration "${work}limits: {trial: $value}\n"
    check "duration $value" ncbench check --portable duration.yaml
done
write size "${work}limits: {disk_free: 10MB}\n"
ncbench check --portable --dump size.yaml >size.json
match "10MB is 10^7" '"disk_free_bytes": 10000000' size.json
write size "${work}limits: {disk_free: 10MiB}\n"
ncbench check --portable --dump size.yaml >size.json
match "10MiB is 10 x 2^20" '"disk_free_bytes": 10485760' size.json

# ---- locales: numbers are the same everywhere -----------------------------------------------------
write numbers "${head}workload:\n  command: base-train\n  train: {matrix_lr: 0.02, weight_decay: 1e-3, embedding_lr: 0.1}\n  data: {source: synthetic}\ncompare: {margin: {step_time_s: 0.7%}}\n"
ncbench check --portable --dump numbers.yaml >c.json
match "a learning rate is passed on exactly" '"--matrix-lr=0.02"' c.json
match "one in scientific notation too" '"--weight-decay=0.001"' c.json
if localedef -i de_DE -f UTF-8 "$T/de_DE.UTF-8" >/dev/null 2>&1; then
    LOCPATH=$T LC_ALL=de_DE.UTF-8 ncbench check --portable --dump numbers.yaml >de.json
    equal "a comma locale changes nothing" "$(cat de.json)" "$(cat c.json)"
else
    skip "a comma locale changes nothing" "localedef cannot make de_DE.UTF-8 (package locales)"
fi

# ---- hostile files: refused (or read) in a second, with a small stack and little memory ----------
bounded() {
    local want=$1 what=$2 seconds=${TEST_EMULATOR:+60}
    shift 2
    (
        ulimit -s 128
        # address space, which sanitizers need for their shadow and an emulator for itself
        [ "${CONFIG:-release}${TEST_EMULATOR:-}" != release ] || ulimit -v 262144
        timeout "${seconds:-5}" ncbench check --portable "$@" >"$OUT" 2>"$ERR"
    )
    local rc=$?
    if [ "$rc" -eq "$want" ]; then ok "$what"; else
        not_ok "$what" "exit $rc, expected $want" "$(tail -n 3 "$ERR")"
    fi
}
rows() { awk -v n="$1" -v fmt="$2" 'BEGIN { for (i = 0; i < n; i++) printf fmt, i, i }'; }
{
    echo 'a: &a [x,x,x,x,x,x,x,x,x]'
    before=a
    for key in b c d e f g h i; do
        echo "$key: &$key [*$before,*$before,*$before,*$before,*$before,*$before,*$before,*$before,*$before]"
        before=$key
    done
} >bomb.yaml
bounded 3 "nine levels of aliases" bomb.yaml
match "the limit and the position are named" 'bomb.yaml:6:[0-9]+: error: more than 100000 nodes after alias expansion' "$ERR"
head -c 1000000 /dev/zero | tr '\0' '[' >brackets.yaml
bounded 3 "a megabyte of [" brackets.yaml
match "depth is named" 'nested deeper than 64 levels' "$ERR"
rows 200000 '- ' >dashes.yaml
bounded 3 "200,000 times -" dashes.yaml
head -c 1048577 /dev/zero | tr '\0' '#' >large.yaml
bounded 3 "a file above 1 MiB" large.yaml
match "the size is named" 'larger than 1048576 bytes' "$ERR"
bounded 3 "an endless file" /dev/zero
{ printf '%b' "${head}workload:\n  exec: [x]\n  env:\n" && rows 49900 '    K%d: "%d"\n'; } >keys.yaml
bounded 0 "49,900 unique keys" keys.yaml
{ printf '%b' "${head}workload:\n  exec: [x]\n  env:\n" && rows 51000 '    K%d: "%d"\n'; } >toomany.yaml
bounded 3 "51,000 unique keys" toomany.yaml
{ printf '%b' "${work}vars:\n" && rows 49900 '  K: 1\n'; } >twins.yaml
bounded 3 "49,900 equal keys" twins.yaml
match "what is left out is counted" 'and [0-9]+ more errors' "$ERR"
{ printf '%b' "${work}vars:\n  v0: 1\n" && awk 'BEGIN { for (i = 1; i < 30000; i++) printf "  v%d: \"${v%d}\"\n", i, i - 1 }'; } >chain.yaml
bounded 0 "a chain of 30,000 variables" chain.yaml
write cells "${work}matrix: {a: [$(seq -s, 1 100)], b: [$(seq -s, 1 100)]}\n"
bounded 0 "10,000 cells" cells.yaml
write cells "${work}matrix: {a: [$(seq -s, 1 101)], b: [$(seq -s, 1 100)]}\n"
bounded 3 "10,100 cells" cells.yaml
match "the limit is named" 'matrix.b: the matrix has more than 10000 cells' "$ERR"

# ---- -D -------------------------------------------------------------------------------------------
quick=$OLDPWD/configs/quickstart.yaml
check "-D of a variable" ncbench check --portable "$quick" -D steps=7 -D tokenizer=/tok --dump
match "it is used" '"--num-iterations=7"' "$OUT"
match "so is the other" '"--tokenizer=/tok"' "$OUT"
check "what decides about a GPU's sums" ncbench check --portable "$quick" -D workload.train.gemm_plans=stored \
    -D workload.train.cuda_graphs=on --dump
match "stored plans" '"--gemm-plans=stored"' "$OUT"
match "graphs" '"--cuda-graphs=on"' "$OUT"
check "-D of a dotted key" ncbench check --portable "$quick" -D sampling.seed=7 -D 'runtimes[1].image=other' -D 'matrix.ranks=[4]' --dump
match "seed" '"seed": 7,' "$OUT"
match "image" '"image": "other"' "$OUT"
match "matrix" '"ranks": 4' "$OUT"
no_match "the old values are gone" '"ranks": 2' "$OUT"
for define in 'sampling.sed=7|did you mean "seed"' 'stps=7|did you mean "steps"' 'ranks=7|-D matrix.ranks' \
    'runtimes[9].image=x|the list has 2' 'sampling.seed=x|expected an integer' 'nonsense|expected key=value' \
    'sampling.looks=[1|did not find expected'; do
    check_rc 2 "-D ${define%%|*} is a usage error" ncbench check --portable "$quick" -D "${define%%|*}"
    match "with its reason" "${define#*|}" "$ERR"
done

# ---- this machine ---------------------------------------------------------------------------------
write here "${head}workload: {exec: [x], paths: [/no/such/path]}\n"
check_rc 4 "an absent path is of this machine" ncbench check here.yaml
match "it is named" 'workload path /no/such/path does not exist' "$ERR"
check "--portable judges the file alone" ncbench check --portable here.yaml
write mount "version: 1\nname: demo\nbaseline: bare\nworkload: {exec: [x]}\nruntimes:\n  - {name: bare, kind: bare, mounts: [{source: /dev/ss0, target: /dev/ss0}]}\n"
check_rc 4 "an absent mount source" ncbench check mount.yaml
match "it is named as well" 'mount source /dev/ss0 does not exist' "$ERR"
sed -i 's|target: /dev/ss0|target: /dev/ss0, optional: true|' mount.yaml
check "an optional one is left out" ncbench check mount.yaml
match "with a warning" 'warning: .*mount source /dev/ss0 does not exist, left out' "$ERR"
write missing-image "version: 1\nname: demo\nbaseline: p\nworkload: {exec: [x]}\nruntimes:\n  - {name: p, kind: podman, image: localhost/no/such/image}\n"
check_rc 4 "a missing image, or no podman at all" ncbench check missing-image.yaml
check "and in general it is fine" ncbench check --portable missing-image.yaml
pu=$(awk '/^Cpus_allowed_list/ { split($2, a, "[,-]"); print a[1] }' /proc/self/status)
if command -v taskset >/dev/null; then
    write threads "${work}launch: {threads_per_rank: 4}\n"
    check_rc 4 "more pinned threads than PUs" taskset -c "$pu" "$NCBENCH" check threads.yaml
    match "both are named" "4 threads, 1 usable PU \\($pu\\)" "$ERR"
    check "with bind: none" taskset -c "$pu" "$NCBENCH" check threads.yaml -D launch.bind=none
    match "it is a warning" "warning: .*4 threads, 1 usable PU \\($pu\\)" "$ERR"
    check_rc 3 "with --strict it is an error" taskset -c "$pu" "$NCBENCH" check --strict threads.yaml -D launch.bind=none
else
    skip "more pinned threads than PUs" "no taskset"
fi
mkdir tok && echo '{"vocab_size": 512}' >tok/tokenizer.json && echo text >text.txt
write vocabulary "${head}workload:\n  command: base-train\n  model: {depth: 1, max_seq_len: 32, vocab_size: 4096}\n  train: {device_batch_size: 1, total_batch_size: 32}\n  data: {source: text, path: text.txt, tokenizer: tok}\n"
check_rc 4 "a tokenizer of another vocabulary" ncbench check vocabulary.yaml
match "both sizes are named" 'has a vocabulary of 512, workload.model.vocab_size is 4096' "$ERR"

# ---- plan -----------------------------------------------------------------------------------------
write plan "${work}matrix: {ranks: [1, 2]}\n"
sed -i 's/  - {name: bare, kind: bare}/&\n  - {name: other, kind: bare}\n  - {name: third, kind: bare}/' plan.yaml
check "plan --json" ncbench plan --json plan.yaml --blocks 3
equal "blocks x cells x runtimes, and the first block" "$(wc -l <"$OUT")" 24
cp "$OUT" first.jsonl
check "again" ncbench plan --json plan.yaml --blocks 3
equal "the same scenario gives the same plan" "$(cat "$OUT")" "$(cat first.jsonl)"
check "with another seed" ncbench plan --json plan.yaml --blocks 3 --seed 99
if cmp -s "$OUT" first.jsonl; then not_ok "another seed gives another order"; else ok "another seed gives another order"; fi
check "plan for people" ncbench plan plan.yaml --blocks 3
match "it counts" 'at most 24 trials' "$OUT"
check_rc 2 "plan of nothing" ncbench plan
check_rc 2 "no blocks" ncbench plan plan.yaml --blocks 0
write spaces "version: 1\nname: demo\nbaseline: p\nworkload: {exec: [x]}\nruntimes:\n  - name: p\n    kind: podman\n    image: localhost/x\n    mounts: [{source: /data/my run, target: /in put}, {source: '/tmp/foo,bar', target: /x}, '/tmp/some\\\\:file:/y:ro']\n    env: {TEXT: \"a\\\\nb\"}\n"
check "plan shows mounts and environment" ncbench plan spaces.yaml
match "a path with blanks is one argument" "'--mount=type=bind,source=/data/my run,target=/in put" "$OUT"
match "a comma is quoted as CSV" '"source=/tmp/foo,bar"' "$OUT"
match "a colon belongs to its path" 'source=/tmp/some:file,target=/y,readonly' "$OUT"
check_rc 8 "a full disk is told" bash -c 'ncbench plan plan.yaml >/dev/full'

# ---- configs and the reference --------------------------------------------------------------------
cd "$OLDPWD" || exit 1
for file in configs/*.yaml; do
    check "$file" ncbench check --portable --strict "$file"
done
ncbench check --reference >"$T/reference.md"
if cmp -s "$T/reference.md" docs/configuration.md; then ok "docs/configuration.md is fresh"; else
    not_ok "docs/configuration.md is fresh" "run: make docs"
fi
check_rc 3 "an absent file" ncbench check "$T/absent.yaml"
match "is named" 'cannot read .*absent.yaml: No such file' "$ERR"
check_rc 2 "no file at all" ncbench check
finish
