# ncbench run: what it makes, prints, and takes as options; status and show.
. tests/cli/lib.sh
. tests/cli/session_lib.sh
command -v jq >/dev/null || { echo "jq is not installed"; exit 77; }

# ---- a session and its directory -------------------------------------------------------------------
scenario plain "$PAYLOAD, print, hello there, warn, beware, exit, '0'" \
    'runtimes: [{name: bare, kind: bare}, {name: other, kind: command, prefix: [env, "{argv}"]}]'
session 0 'a session' plain
equal 'standard output is its directory alone' "$(wc -l <"$OUT")" 1
for f in scenario.yaml resolved.json plan.jsonl trials.jsonl session.json trials/c00.b00.bare/launch.json \
    trials/c00.b00.other/rank00000.out; do
    check "it has $f" test -s "$S/$f"
done
check 'the scenario is a byte copy' cmp "$T/plain.yaml" "$S/scenario.yaml"
equal 'plan and records name the same trials' "$(jq -r .trial "$S/plan.jsonl" | sort)" \
    "$(jq -r .trial "$S/trials.jsonl" | sort)"
equal 'its id is a time and four hexadecimal digits' \
    "$(basename "$S" | grep -cE '^[0-9]{8}T[0-9]{6}Z-[0-9a-f]{4}$')" 1
equal 'the records know it' "$(jq -r .session "$S/trials.jsonl" | sort -u)" "$(basename "$S")"
check "the host's topology was kept" grep -q '<topology' "$S"/topo/*.xml
equal 'session.json tells the end' "$(jq -r '[.state, .exit_code, .trials_ok] | join(" ")' "$S/session.json")" \
    'complete 0 2'
equal 'a program without events is timed from outside' \
    "$(jq -s '[.[] | (.wall_s > 0) and .phases_s.start == null and (.phases_s.start_why | length > 0)
        and .train == null] | all' "$S/trials.jsonl")" true

equal 'a foreign command does not tell its device' "$(jq -r '[.gpus_per_node_why, .gpu_telemetry_why] | join("; ")' "$S/trials.jsonl" | sort -u)" \
    'a foreign command that does not tell its device; neither measure.gpu nor a workload on GPUs asks for it'

# ---- the environment: the same in every arm, and nothing else --------------------------------------
scenario env "$PAYLOAD, print-env0, exit, '0'" \
    'runtimes: [{name: bare, kind: bare}, {name: own, kind: bare, env: {C: runtime, D: ""}}]' \
    "workload: {exec: [$PAYLOAD, print-env0, exit, '0'], events: none, env: {A: 'one two', B: \"x\\ny\", C: workload}}" \
    'launch: {threads_per_rank: 1}'
OMP_NUM_THREADS=77 LD_LIBRARY_PATH=/nowhere SECRET=1 TZ=UTC session 0 'a session that looks at its environment' env
seen() { tr '\0' '\n' <"$S/trials/c00.b00.$1/rank00000.out"; }
seen bare >"$T/bare"
seen own >"$T/own"
for want in 'PATH=.' 'HOME=.' 'TZ=UTC' 'OMP_NUM_THREADS=1$' 'OPENBLAS_NUM_THREADS=1$' 'BLIS_NUM_THREADS=1$' \
    'MKL_NUM_THREADS=1$' 'A=one two$' 'B=x$' 'y$' 'C=workload$' "NCBENCH_TRIAL_ID=$(basename "$S").c00.b00.bare$" \
    'NCBENCH_TRIAL_DIR=/.*/trials/c00.b00.bare$' 'RANK=0$' 'LOCAL_RANK=0$' 'WORLD_SIZE=1$' 'MASTER_ADDR=127.0.0.1$' \
    'MASTER_PORT=[1-9]'; do
    match "it has $want" "^$want" "$T/bare"
done
no_match 'nothing else leaks in' '^(SECRET|LD_LIBRARY_PATH|TERM|PWD|OLDPWD|SHLVL|BUILD)=' "$T/bare"
match 'a runtime wins over the workload' '^C=runtime$' "$T/own"
match 'and may set a variable to nothing' '^D=$' "$T/own"
equal 'otherwise the arms are equal' \
    "$(diff <(grep -vE '^(NCBENCH_|MASTER_PORT|C=|D=)' "$T/bare") <(grep -vE '^(NCBENCH_|MASTER_PORT|C=|D=)' "$T/own"))" ''
check 'show --env' ncbench show "$S/c00.b00.own" --env
match 'prints it' '^C=runtime$' "$OUT"

# ---- ranks of a foreign command --------------------------------------------------------------------
argv="$PAYLOAD, hello, steps, '8', '0.01', done, '0', exit, '0'"
scenario ranks "$argv" "workload: {exec: [$argv], events: required}" 'launch: {ranks_per_node: 2}'
session 0 'two ranks of a foreign command' ranks
equal 'each wrote its events' "$(field 1 '[.ranks, .train.steps, (.exit.codes | length)] | join(" ")')" '2 8 2'
equal 'the first step is no steady step' "$(field 1 '[.train.warmup_steps, .train.steady_steps] | join(" ")')" '1 7'
equal 'the step time is that of the slowest rank' \
    "$(field 1 '.train.step_time_s.median >= 0.0099 and .train.rank_skew_s.median >= 0')" true
# shellcheck disable=SC2016
equal 'phases add up to the total' "$(field 1 '.phases_s as $p | $p | to_entries
    | map(select((.value | type) == "number" and .key != "total" and .key != "exec").value)
    | (add - $p.total | fabs) < 1e-9')" true

# ---- a verb of nanochat ----------------------------------------------------------------------------
cat >"$T/verb.yaml" <<'END'
version: 1
name: verb
baseline: bare
workload:
  command: base-train
  model: {depth: 1, max_seq_len: 32, vocab_size: 256}
  train: {device_batch_size: 1, total_batch_size: 64, num_iterations: 8, eval_every: -1, sample_every: -1, save_every: 0, seed: 1}
  data: {source: synthetic}
  check: {loss: {vs: baseline, rel_tol: 1%}}
runtimes: [{name: bare, kind: bare}, {name: other, kind: command, prefix: [env, "{argv}"]}]
launch: {ranks_per_node: 2, bind: none}
sampling: {looks: [2], discard_first_block: false, warmup: {steps: 2, detect: false}}
limits: {trial: 60s, disk_free: 64KiB}
END
session 0 'nanochat as the workload' verb
equal 'both arms are ok' "$(jq -r .outcome "$S/trials.jsonl" | sort -u)" ok
match 'through nanochat launch' 'nanochat$' <(ncbench show "$S/c00.b00.bare" --argv)
match 'with its ranks' '^--nproc-per-node=2$' <(ncbench show "$S/c00.b00.bare" --argv)
equal 'the record holds what the run says of itself' "$(field 1 '
    (.phases_s | .start > 0 and .comm_init > 0 and .model_init > 0 and .first_step > 0 and .steady > 0 and .teardown > 0)
    and .train.tokens_per_step == 64 and .train.tokens_per_s > 0 and .train.mfu > 0 and .train.mfu < 1
    and (.binary_sha256 | length) == 64 and .comm.comm_ids_distinct == 1 and .comm.backend == "shm"
    and (.comm.collectives | length) > 0 and (.env | length) == 2 and (.bind | length) == 2
    and .config.world == 2 and .exit.codes == [0, 0] and .train.loss_last > 0
    and .train.loss_rel_tol == 0.01')" true
equal 'every null has its reason' "$(jq -s '[.[] | paths(. == null) as $p | select(
    ($p[-1] | type) == "string"
    and (getpath($p[:-1] + [$p[-1] + "_why"]) == null)
    and (($p | map(tostring) | join(".")) | test("^(exit|env|logs|hint|runtime_version|bind)") | not)) | $p | map(tostring) | join(".")] | unique | join(" ")' \
    "$S/trials.jsonl")" '""'
equal 'on the CPU it has no GPUs' "$(field 1 '[.gpus_per_node, .gpus_per_node_why, .gpu_telemetry, .gpu_telemetry_why] | map(tostring) | join("; ")')" \
    'null; a workload on the CPU; null; neither measure.gpu nor a workload on GPUs asks for it'
ncbench run "$T/verb.yaml" --out "$T/gpu" --progress none --blocks 1 -D workload.train.device_type=cuda -D launch.ranks_per_node=1 >"$OUT" 2>&1
# shellcheck disable=SC2016
equal 'a workload on a GPU is none on the CPU, even where it fails' "$(cat "$T"/gpu/*/*/trials.jsonl | jq -s '
    length > 0 and all(.[]; .gpus_per_node_why != "a workload on the CPU" and (.gpu_telemetry.status | IN("ok", "unavailable"))
        and (.gpus_per_node != null or (.gpus_per_node_why | length > 0)))')" true
check_rc 4 'a nanochat that is not there' ncbench run "$T/verb.yaml" --out "$R" --nanochat "$T/none" --progress none

# ---- plan prints what run executes -----------------------------------------------------------------
mkdir "$T/shim"
cp tests/shims/podman "$T/shim/podman"
nano=$(command -v nanochat)
hash='s/-[0-9a-f]\{8\} --pull/-HASH --pull/' # of the id, at the end of a container's name
# planned FILE: every command of the plan, without its runtime's name; ran: those of the session, its names taken out
planned() { PATH=$T/shim:$PATH ncbench plan "$T/$1.yaml" --blocks 1 | sed -n 's/^  [a-z][a-z]* *\([^ #]\)/\1/p' | sed "$hash"; }
ran() {
    jq -r '.processes[0] | @sh' "$S"/trials/*/launch.json | sed -E "s/'([^' ]*)'/\1/g
        s#$S/trials/[^/ ,]*#/SESSION/trials/TRIAL#g; s#${S##*/}\\.c00\\.b00\\.[a-z]+#SESSION.TRIAL#g
        s#$S#/SESSION#g; s/MASTER_PORT=[0-9]+/MASTER_PORT=PORT/" | sed "$hash"
}
sed -e 's/^name:.*/name: shown/' -e 's/bind: none/bind: cores, threads_per_rank: 1/' "$T/verb.yaml" >"$T/shown.yaml"
cat >>"$T/shown.yaml" <<END
measure: {topology: true, counters: ['rusage::MINOR-FAULTS']}
END
sed -i -e "s#^runtimes:.*#runtimes: [{name: bare, kind: bare}, {name: other, kind: podman, image: localhost/x, nanochat: $nano, mounts: ['$T:$T:ro']}]#" \
    -e "s#^workload:#&\\n  env: {WORD: 'one two'}#" "$T/shown.yaml"
PATH=$T/shim:$PATH ncbench run "$T/shown.yaml" --out "$R" --progress none --blocks 1 >"$OUT" 2>"$ERR"
S=$(tail -n 1 "$OUT")
equal 'two commands were started' "$(ran | wc -l)" 2
equal 'and the plan has both as they are' "$(planned shown | sed "s/'//g" | sort)" "$(ran | sed "s/'//g" | sort)"
match 'with their binding' 'launch --nproc-per-node=2 --bind=cores' <(planned shown)
match 'and their variables' '(WORD=one two|NANOCHAT_COUNTERS=)' <(planned shown)
scenario shownforeign "$PAYLOAD, exit, '0'" 'launch: {ranks_per_node: 2}' \
    "runtimes: [{name: bare, kind: bare}, {name: other, kind: podman, image: localhost/x}]"
PATH=$T/shim:$PATH ncbench run "$T/shownforeign.yaml" --out "$R" --progress none --blocks 1 >"$OUT" 2>"$ERR"
S=$(tail -n 1 "$OUT")
equal 'of a foreign command its first rank' "$(planned shownforeign | sort)" "$(ran | sort)"
match 'and the number of others' '# and 1 more, a rank each' <(ncbench plan "$T/shownforeign.yaml")
sed -i 's/^launch:.*/launch: {scheduler: slurm, nodes: 2}/' "$T/shownforeign.yaml"
match 'of a step srun and its options' 'bare +srun --jobid=JOB .*--nodelist=NODE1,NODE2 .*payload exit 0' \
    <(ncbench plan "$T/shownforeign.yaml")

# ---- options ---------------------------------------------------------------------------------------
scenario matrix "$PAYLOAD, exit, '0'" 'matrix: {size: [1, 2], word: [left, right]}' \
    'runtimes: [{name: bare, kind: bare}, {name: other, kind: bare}]'
check '--dry-run' ncbench run "$T/matrix.yaml" --dry-run --blocks 1 --out "$T/dry"
equal 'prints the plan' "$(jq -s length "$OUT")" 8
check 'and runs nothing' test ! -e "$T/dry"
for pair in 'runtime=other 4' 'size=2 4' 'word=left,runtime=bare 2' 'cell=c00 2' 'size=1,word=right,runtime=other 1'; do
    check "--only ${pair% *}" ncbench run "$T/matrix.yaml" --dry-run --blocks 1 --only "${pair% *}"
    equal "leaves ${pair#* }" "$(jq -s length "$OUT")" "${pair#* }"
done
for wrong in runtime=none colour=red size size=9; do
    check_rc 2 "--only $wrong" ncbench run "$T/matrix.yaml" --dry-run --only "$wrong"
done
session 0 'a filtered session' matrix --only size=2,word=left
equal 'has two trials' "$(wc -l <"$S/trials.jsonl")" 2
check '--seed' ncbench run "$T/matrix.yaml" --dry-run --blocks 4 --seed 5
cp "$OUT" "$T/seed5"
check 'the same seed' ncbench run "$T/matrix.yaml" --dry-run --blocks 4 --seed 5
cp "$OUT" "$T/now"
check 'is the same plan' cmp "$T/now" "$T/seed5"
check 'another seed' ncbench run "$T/matrix.yaml" --dry-run --blocks 4 --seed 6
cp "$OUT" "$T/now"
check_rc 1 'is another plan' cmp -s "$T/now" "$T/seed5"
check '-D' ncbench run "$T/matrix.yaml" --dry-run -D sampling.seed=5 --blocks 4
cp "$OUT" "$T/now"
check 'is --seed by another door' cmp "$T/now" "$T/seed5"
check_rc 2 'two scenarios' ncbench run "$T/matrix.yaml" "$T/plain.yaml"
check_rc 2 'no scenario' ncbench run
check_rc 2 'a session has its plan' ncbench run --resume "$T" --dry-run
check_rc 2 'an option that had no effect is unknown' ncbench run "$T/plain.yaml" --keep-going
check_rc 3 'no such file' ncbench run "$T/none.yaml"

# ---- failures: how many, and what then -------------------------------------------------------------
scenario failing "$PAYLOAD, exit, '1'" 'limits: {max_failures: 3, disk_free: 64KiB}'
BLOCKS=9 session 5 'max_failures ends the session' failing
equal 'at the third' "$(wc -l <"$S/trials.jsonl")" 3
BLOCKS=9 session 5 '--fail-fast ends it' failing --fail-fast
equal 'at the first' "$(wc -l <"$S/trials.jsonl")" 1
check 'status' ncbench status "$S"
match 'tells what failed and why' 'c00.b00.bare +workload_failed +exit 1' "$OUT"
match 'and that it is not complete' ': incomplete' "$OUT"
# A block that fails once is repeated, whole, at the end.
cat >"$T/once.sh" <<END
#!/bin/sh
[ -e $T/once ] && exit 0
touch $T/once
exit 1
END
chmod +x "$T/once.sh"
scenario once "$T/once.sh" 'limits: {max_failures: 3, disk_free: 64KiB}' \
    'runtimes: [{name: bare, kind: bare}, {name: other, kind: bare}]'
BLOCKS=2 session 0 'a block that fails once' once
equal 'is repeated whole at the end' "$(jq -r .trial "$S/trials.jsonl" | grep -c '^c00.b00.*a2$')" 2
equal 'behind the others' "$(tail -n 2 "$S/trials.jsonl" | jq -r .attempt | xargs)" '2 2'

# ---- a fast run that learns something else ---------------------------------------------------------
cat >"$T/loss.yaml" <<'END'
version: 1
name: loss
baseline: right
workload: {exec: [nothing], events: none, check: {loss: {vs: baseline, rel_tol: 1%}}}
runtimes:
  - {name: right, kind: fake, script: {step_time_s: 0.1, steps: 3, loss: 4.0}}
  - {name: near, kind: fake, script: {step_time_s: 0.1, steps: 3, loss: 4.03}}
  - {name: wrong, kind: fake, script: {step_time_s: 0.05, steps: 3, loss: 4.2}}
sampling: {looks: [2], discard_first_block: false, warmup: {steps: 1, detect: false}}
limits: {max_failures: 3, disk_free: 64KiB}
END
BLOCKS=2 session 5 'another loss than the baseline' loss
check 'as every reader sees it' ncbench status "$S" --json
equal 'only the wrong arm is invalid' "$(jq -r '[.failed[].trial] | unique | map(split(".")[2]) | unique | join(" ")' "$OUT")" wrong
equal 'its outcome' "$(jq -r '[.failed[].outcome] | unique | join(" ")' "$OUT")" invalid
match 'and why' 'last loss 4.2 differs by 5 % from the baseline' "$OUT"
equal 'the near one is compared and fine' \
    "$(ncbench show "$S/c00.b00.near" --json | jq -c '.train.loss_match | [.ref == 4, .ok]')" '[true,true]'

# ---- progress --------------------------------------------------------------------------------------
check 'plain lines' ncbench run "$T/plain.yaml" --out "$R" --blocks 1
match 'a line a trial' '^ +1/2 +c00\.b00\.[a-z]+ +ok ' "$ERR"
no_match 'no escapes in them' "$(printf '\033')" "$ERR"
if command -v script >/dev/null; then
    script -qec "env TERM=xterm ncbench run $T/plain.yaml --out $R --blocks 1" "$T/tty" >/dev/null 2>&1 </dev/null
    match 'colour on a terminal' "$(printf '\033')\\[32mok" "$T/tty"
    script -qec "env TERM=xterm NO_COLOR=1 ncbench run $T/plain.yaml --out $R --blocks 1" "$T/tty" >/dev/null 2>&1 </dev/null
    no_match 'none with NO_COLOR' "$(printf '\033')\\[32m" "$T/tty"
else
    skip 'colour on a terminal' 'script is not installed'
fi
check 'quiet' ncbench run "$T/plain.yaml" --out "$R" --blocks 1 -q -D 'sampling.looks=[6]'
equal 'says nothing' "$(cat "$ERR")" ''
S=$(cat "$OUT")

# ---- show ------------------------------------------------------------------------------------------
check 'show SESSION' ncbench show "$S"
match 'lists trials' '^c00.b00.bare +ok' "$OUT"
check 'show SESSION/TRIAL' ncbench show "$S/c00.b00.bare"
match 'tells its phases' '^  total ' "$OUT"
check 'show SESSION/trials/TRIAL too' ncbench show "$S/trials/c00.b00.bare" --json
equal 'the record' "$(jq -r .trial "$OUT")" c00.b00.bare
check 'show --log' ncbench show "$S/c00.b00.bare" --log
match 'standard output' '^hello there$' "$OUT"
match 'standard error' '^beware$' "$OUT"
check 'show --argv' ncbench show "$S/c00.b00.other" --argv
match 'what was started' '^env$' "$OUT"
check 'show --json of a session' ncbench show "$S" --json
equal 'all records' "$(jq -s length "$OUT")" 2
check 'the newest of a folder' ncbench show "$R/plain"
check_rc 8 'no such trial' ncbench show "$S/c00.b09.bare"
check_rc 8 'no such session' ncbench status "$T/none"
check_rc 2 'no session' ncbench show
check_rc 2 '--log of a session' ncbench show "$S" --log
finish
