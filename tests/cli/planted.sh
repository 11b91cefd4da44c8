#!/usr/bin/env bash
# Planted misconfigurations: each must be found by `ncbench compare` and named with both values.
#
# Here by command prefixes: a time namespace with an offset, THP disabled. With the real podman:
# OMP_NUM_THREADS, an image's ENV, a cpuset, /dev/shm, memlock, another libopenblas, another program,
# seccomp. Elsewhere: a binding that silently fails in topo.sh, a load beside one arm in
# statistics.sh, every item on made records in unit/comparability.
. "$(dirname "$0")/lib.sh"
command -v jq >/dev/null || { echo "jq is not installed"; exit 77; }
payload=$(readlink -f "$BUILD/payload")

# scenario FILE BASELINE: the arms on standard input
scenario() {
    cat >"$1" <<Y
version: 1
name: planted
baseline: $2
workload:
  command: base-train
  model: {depth: 1, max_seq_len: 32, vocab_size: 256}
  train: {device_batch_size: 1, total_batch_size: 32, num_iterations: 3, eval_every: -1, sample_every: -1, save_every: 0}
  data: {source: synthetic}
  args: [--peak-time=0s]
  env: {OMP_NUM_THREADS: "2", OMP_WAIT_POLICY: passive}
runtimes:
$(cat)
launch: {bind: none}
measure: {topology: false}
sampling: {looks: [2], discard_first_block: false, stop: never, warmup: {steps: 1, detect: false}}
limits: {disk_free: 1MiB}
output: {plots: [], report: []}
Y
}
# session RC WHAT FILE: runs it; what compare, which must exit with RC, says is in $OUT
session() {
    check "$2" timeout 120 ncbench run --blocks 1 --progress none --out "$T/r" "$3"
    S=$(tail -n 1 "$OUT")
    base=$(jq -r .baseline "$S/resolved.json")
    equal "every trial is good" "$(jq -r '[.outcome] + .reasons | join(" ")' "$S/trials.jsonl" | sort -u)" ok
    ncbench compare --json "$S" >"$T/compare.json"
    check_rc "$1" "its comparison" ncbench compare --explain "$S"
}
verdict() { jq -r "[.comparisons[] | select(.b == \"$1\" and .metric == \"step_time_s\") | .verdict][0]" "$T/compare.json"; }
# listed ARM ITEM IN-THE-BASELINE IN-THE-ARM [NOTE]: regular expressions; a row of the findings
listed() { match "$1: $2 is named, $3 and $4" "^ *all +$1 +$2 +$3 +$4 +1 of 1 +${5-}" "$OUT"; }
# planted ARM ITEM IN-THE-BASELINE IN-THE-ARM: decides, and is named
planted() {
    equal "$1: not comparable" "$(verdict "$1")" not_comparable
    listed "$@"
}
# leads: planted, and the one reason that the verdict gives
leads() {
    planted "$@"
    match "$1: by the verdict too" "$1 is not comparable with $base: $2 differs: $4 in $1, $3 in $base\$" "$OUT"
}
# comparable ARM: whatever it changes, nothing that must match
comparable() {
    match "$1: comparable" "- $1: everything that must match matches $base in 1 of 1 blocks" "$OUT"
    equal "$1: and judged by its numbers" "$(verdict "$1")" inconclusive # one block
}

# ---- command prefixes: all arms of one kind ----------------------------------------------------
later='unshare, --time, --fork, --monotonic, "1000", --boottime, "1000"'
if unshare --time --fork --monotonic 1000 --boottime 1000 true 2>/dev/null; then
    time_arm="  - {name: later, kind: command, prefix: [$later, '{argv}']}"
else
    time_arm=
    skip "a time namespace" "unshare --time fails here"
fi
scenario "$T/prefix.yaml" plain <<Y
  - {name: plain, kind: command, prefix: [env, "{argv}"]}
  - {name: thp, kind: command, prefix: ["$payload", disable-thp, exec, "{argv}"]}
  - {name: thp-declared, kind: command, prefix: ["$payload", disable-thp, exec, "{argv}"], differs: [thp_disabled]}
  - {name: same, kind: command, prefix: ["$payload", exec, "{argv}"]}
$time_arm
Y
session 7 "command prefixes" "$T/prefix.yaml"
leads thp "transparent huge pages disabled for the process" no yes
comparable thp-declared
listed thp-declared "transparent huge pages disabled for the process" no yes "declared in differs"
comparable same
if [ -n "$time_arm" ]; then
    planted later "time namespace offset" '0\.0' '1000\.0'
    equal "later: its start is told in the host's time all the same" \
        "$(jq 'select(.runtime == "later") | .phases_s.start > 0 and .phases_s.start < 60' "$S/trials.jsonl")" true
fi

# ---- the real podman ---------------------------------------------------------------------------
if [ "$(id -u)" -ne 0 ] || ! command -v podman >/dev/null; then
    skip "the real podman" "podman or root is missing"
    finish
fi
name=localhost/ncbench/planted-$$
trap 'podman rmi -f "$name:right" "$name:binary" "$name:env" "$name:library" >/dev/null 2>&1; rm -rf "$T"' EXIT
check "the image" ncbench image build --no-cuda --name "$name:right"

# Another build of the same program: one byte more.
cp "$BIN/nanochat" "$T/nanochat"
printf '\n' >>"$T/nanochat"
check "an image with another program" ncbench image build --no-cuda --name "$name:binary" --nanochat "$T/nanochat"

# variant TAG LINE…: an image made from the right one
variant() {
    local tag=$1
    shift
    printf '%s\n' "FROM $name:right" "$@" >"$T/Containerfile"
    check "an image with another $tag" podman build -q -t "$name:$tag" -f "$T/Containerfile" "$T"
}
# What the image sets where the scenario says nothing gets in; where it says something, that wins.
variant env 'ENV OMP_NUM_THREADS=1 MALLOC_ARENA_MAX=1'
# Another libopenblas: the same code under another build id, in a file of another name.
lib=$(ldd "$BIN/nanochat" | sed -n 's/.*libopenblas[^ ]* => \(\/[^ ]*\) .*/\1/p')
note=
[ -z "$lib" ] || note=$(LC_ALL=C readelf -SW "$lib" | sed -n 's/.*\.note\.gnu\.build-id *NOTE *[0-9a-f]* \([0-9a-f]*\) .*/\1/p')
if [ -n "$note" ]; then
    id=$(LC_ALL=C readelf -n "$lib" | sed -n 's/.*Build ID: //p')
    other=0badcafe${id:8}
    cp "$(readlink -f "$lib")" "$T/libopenblas"
    printf '\x0b\xad\xca\xfe' | dd of="$T/libopenblas" bs=1 seek=$((0x$note + 16)) conv=notrunc status=none
    variant library "COPY libopenblas $lib" # in place of the symbolic link
    library_arm="  - {name: library, kind: podman, image: '$name:library'}"
else
    library_arm=
    skip "another libopenblas" "nanochat has none, or one without a build id"
fi
cpu=$(taskset -cp $$ | sed 's/.*: //; s/[-,].*//')
if [ "$(nproc)" -gt 1 ]; then
    cpuset_arm="  - {name: cpuset, kind: podman, image: '$name:right', cpuset: '$cpu'}"
else
    cpuset_arm=
    skip "a cpuset of one CPU" "there is only one here"
fi
shm_mib=$(($(df -Pk /dev/shm | awk 'NR == 2 { print $2 }') / 1024))
scenario "$T/podman.yaml" bare <<Y
  - {name: bare, kind: bare}
  - {name: right, kind: podman, image: "$name:right"}
  - {name: omp, kind: podman, image: "$name:right", env: {OMP_NUM_THREADS: "1"}}
  - {name: image, kind: podman, image: "$name:env"}
  - {name: override, kind: podman, image: "$name:right", options: ["--env=OMP_WAIT_POLICY=active"]}
  - {name: shm, kind: podman, image: "$name:right", ipc: private, shm_size: 64MiB}
  - {name: shm-declared, kind: podman, image: "$name:right", ipc: private, shm_size: 64MiB, differs: [/dev/shm size]}
  - {name: memlock, kind: podman, image: "$name:right", ulimits: {memlock: "32768"}}
  - {name: binary, kind: podman, image: "$name:binary", differs: [binary_sha256, executable (sha256)]}
$library_arm
$cpuset_arm
Y
# The shell's environment reaches no arm: the image's value would stand against it unseen otherwise.
export MALLOC_ARENA_MAX=4
session 7 "podman" "$T/podman.yaml"
unset MALLOC_ARENA_MAX
comparable right
planted omp OMP_NUM_THREADS 2 1
planted omp "OpenMP threads" 2 1
leads image MALLOC_ARENA_MAX "not set" 1
no_match "image: what the scenario sets wins over the image" "^ *all +image +OMP_NUM_THREADS" "$OUT"
leads override OMP_WAIT_POLICY passive active
if [ "$shm_mib" -gt 64 ]; then
    leads shm "/dev/shm size" '[0-9.]+ [MGT]iB' "64\.0 MiB"
    listed shm-declared "/dev/shm size" '[0-9.]+ [MGT]iB' "64\.0 MiB" "declared in differs"
else
    skip "a small /dev/shm" "the host's has $shm_mib MiB"
fi
comparable shm-declared
leads memlock "memlock limit" '(unlimited|[0-9.]+ [KMGT]iB)' "32\.0 KiB"
leads binary 'executable \(sha256\)' "$(sha256sum <"$BIN/nanochat" | cut -d' ' -f1)" "$(sha256sum <"$T/nanochat" | cut -d' ' -f1)"
no_match "binary: what was run cannot be declared away" "^ *all +binary .*declared in differs" "$OUT"
[ -z "$library_arm" ] || leads library "library $(basename "$lib")" "$id" "$other"
if [ -n "$cpuset_arm" ]; then
    planted cpuset "usable CPUs" '[0-9,-]+' "$cpu"
fi

# ---- seccomp: what podman is, but a difference between two arms of podman -----------------------
scenario "$T/seccomp.yaml" open <<Y
  - {name: open, kind: podman, image: "$name:right", options: [--security-opt=seccomp=unconfined]}
  - {name: filtered, kind: podman, image: "$name:right"}
  - {name: declared, kind: podman, image: "$name:right", differs: [seccomp]}
Y
session 7 "seccomp in one of two podman arms" "$T/seccomp.yaml"
planted filtered seccomp off filter
listed declared seccomp off filter "declared in differs"
scenario "$T/treatment.yaml" bare <<Y
  - {name: bare, kind: bare}
  - {name: podman, kind: podman, image: "$name:right"}
$time_arm
Y
session 0 "podman, and a time namespace, against bare metal" "$T/treatment.yaml"
equal "judged by its numbers" "$(verdict podman)" inconclusive # one block
match "podman: seccomp is told" "^ *podman +seccomp +off +filter\$" "$OUT"
if [ -n "$time_arm" ]; then
    match "later: its offset is told" "^ *later +time namespace offset +0\.0 +1000\.0\$" "$OUT"
fi
finish
