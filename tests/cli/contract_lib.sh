# Sourced after lib.sh by the tests of what every runtime must do: one block of bare and one other arm.
#   session FILE [OPTIONS]   ncbench run; $S is the session's directory, $RC its exit code
#   field ARM EXPRESSION     of the arm's first trial, by jq
#   out_of ARM               what its rank printed
#   processes_left           of the session
#   started NAME             for wait_until: the one session of NAME has a trial that has said so
session() {
    ncbench run --blocks 1 --progress=none "$@" >"$OUT" 2>"$ERR" </dev/null
    RC=$?
    S=$(tail -n 1 "$OUT")
}
field() { jq -r "select(.runtime == \"$1\" and .attempt == 1) | $2" "$S/trials.jsonl" | head -n 1; }
out_of() { cat "$S"/trials/c00.b00."$1"/rank00000.out; }
processes_left() { grep -zl "^NCBENCH_TRIAL_DIR=$S/" /proc/[0-9]*/environ 2>/dev/null; }
started() { S=$(echo "$T/results/$1"/*) && grep -qs started "$S"/trials/*/rank00000.out; }
