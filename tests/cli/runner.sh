#!/usr/bin/env bash
# tests/run itself, on suites made up here: what it counts, and what it says last. So tests/gpu/run.
. tests/cli/lib.sh

mkdir -p "$T/tree/tests/cli" "$T/tree/build/unit"
cp tests/run "$T/tree/tests/run"
suite() { cat >"$T/tree/tests/cli/$1.sh"; }
suite good <<'S'
echo "ok one"
echo "ok two # SKIP not here"
S
suite bad <<'S'
echo "ok before"
echo "not ok the sum"
echo "  sum = 4, expected 5"
echo "  in $PWD"
echo "ok after"
echo "not ok the product"
exit 1
S
suite died <<'S'
echo "ok started"
echo "free(): invalid pointer"
exit 134
S
suite hung <<'S'
sleep 60
S
suite empty </dev/null
seconds=30 # but for what must hang
tests_run() { env BUILD=build TEST_TIMEOUT=$seconds bash "$T/tree/tests/run" "$@"; }
# What comes after the last suite's line of numbers, which is what the tail of a log shows.
closing() { awk '/ passed +[0-9]+ failed +[0-9]+ skipped$/ { text = ""; next } { text = text $0 "\n" } END { printf "%s", text }' "$OUT"; }

check "all is well: exit 0" tests_run cli/good
equal "then nothing but the sum is said last" "$(closing)" "1 passed, 0 failed, 1 skipped"

check_rc 1 "a test that fails: exit 1" tests_run cli/bad cli/good
equal "a failure is repeated last, with what was said about it" "$(closing)" "FAILED cli/bad: not ok the sum
    sum = 4, expected 5
    in $T/tree
FAILED cli/bad: not ok the product
3 passed, 2 failed, 1 skipped"

check_rc 1 "a suite that died: exit 1" tests_run cli/died cli/good
equal "so is a suite that died, with its last words" "$(closing)" "FAILED cli/died: exit 134
    ok started
    free(): invalid pointer
2 passed, 1 failed, 1 skipped"

seconds=1
check_rc 1 "a suite that hung: exit 1" tests_run cli/hung
seconds=30
equal "so is one that hung" "$(closing)" "FAILED cli/hung: timed out after 1 s
0 passed, 1 failed, 0 skipped"

check_rc 1 "a suite that runs nothing, and one that is not there: exit 1" tests_run cli/empty cli/good cli/nowhere
match "one that ran nothing" '^FAILED cli/empty: ran no test$' <(closing)
match "and one that is not there" '^FAILED cli/nowhere: there is no such suite$' <(closing)

# ---- tests/gpu/run, on a machine without any GPU -------------------------------------------------
mkdir -p "$T/tree/tests/gpu" "$T/tree/build/gpu" "$T/shims"
cp tests/gpu/run "$T/tree/tests/gpu/run"
printf '#!/bin/sh\nexit 9\n' >"$T/shims/nvidia-smi"
gpu_ops() { printf '#!/bin/sh\n%s\n' "$1" >"$T/tree/build/gpu/ops" && chmod +x "$T/tree/build/gpu/ops"; }
gpu_run() { env PATH="$T/shims:$PATH" bash "$T/tree/tests/gpu/run" build; }
chmod +x "$T/shims/nvidia-smi"
check_rc 1 "nothing is built: exit 1" gpu_run
match "nothing was run" '^0 passed, 0 failed$' "$OUT"
match "why" '^skip ops: build/gpu/ops is not built' "$OUT"
match "nor between ranks on GPUs" '^skip nccl: nvidia-smi lists no GPU$' "$OUT"
gpu_ops 'echo "ok sum, tiny"'
check "an op is right: exit 0" gpu_run
gpu_ops 'echo "ok sum, tiny"; exit 1'
check_rc 1 "a program that fails without a word: exit 1" gpu_run
match "its exit code" '^not ok ops: exit 1$' "$OUT"
gpu_ops 'echo "# no device"'
check_rc 1 "a program that ran nothing: exit 1" gpu_run
match "that it ran nothing" '^not ok ops: ran no test$' "$OUT"

# ---- tests/run-aarch64: what it would run, without a namespace -------------------------------------
cp tests/run-aarch64 "$T/tree/tests/run-aarch64"
mkdir -p "$T/tree/build/aarch64"
printf '#!/bin/sh\necho "started $*"\nexit 9\n' >"$T/shims/unshare" && chmod +x "$T/shims/unshare"
aarch64_run() { env PATH="$T/shims:$PATH" SYSROOT="$T" bash "$T/tree/tests/run-aarch64" "$@"; }
check "all that is named cannot tell anything there: exit 0" aarch64_run cli/slurm cli/build
match "each is named" '^not run: cli/slurm: ' "$OUT"
no_match "and nothing is started" '^started' "$OUT"
check_rc 9 "one of two can" aarch64_run cli/slurm unit/num
match "it alone is started" '^started .* --inside unit/num$' "$OUT"

finish
