# bare and podman through `ncbench run`: the same environment, mounts with any name, exit codes with
# and without hello, a missing image, and nothing left behind. The first part needs no podman.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/contract_lib.sh"

if ! command -v jq >/dev/null; then
    echo "jq is not installed"
    exit 77
fi
payload=$(readlink -f "$BUILD/payload")
shim=$T/shim
mkdir -p "$shim/script" "$T/root"
cp tests/shims/podman "$shim/podman"
printf '#!/bin/sh\necho "runc version 1.1.5"\n' >"$shim/runc"
chmod +x "$shim/runc"
cp "$payload" "$T/root/payload"

# scenario FILE EXEC [EXTRA LINES OF THE PODMAN ARM] [MORE]: bare and podman, one block
scenario() {
    local variables=${ENVIRONMENT-}
    [ -n "$variables" ] || variables='{}'
    cat >"$1" <<EOF
version: 1
name: pod
baseline: bare
workload: {exec: $2, events: ${EVENTS:-none}, env: $variables}
runtimes:
  - {name: bare, kind: bare}
  - name: podman
    kind: podman
    ${3:-rootfs: $T/root}
    mounts: [{source: $payload, target: $payload, read_only: true}${MOUNTS:-}]
launch: {bind: none}
sampling: {looks: [2], stop: never, discard_first_block: false}
limits: {trial: ${TRIAL:-60s}, kill_grace: ${GRACE:-5s}, max_failures: 50}
output: {dir: $T/results}
${4:-}
EOF
}
containers_left() { # of the session; podman's own words where it cannot tell
    local names
    if names=$(podman ps --all --noheading --format '{{.Names}}' 2>&1); then
        grep "^ncbench-${S##*/}\." <<<"$names"
    else
        echo "podman ps failed: $names"
    fi
}

# ---- check: what podman cannot do here or anywhere ---------------------------------------------
scripted() { env PATH="$shim:$PATH" "$@"; }
echo 1 >"$shim/script/image-exists.rc"
for image in ubuntu ubuntu:24.04; do
    scenario "$T/short.yaml" "[/bin/true]" "image: $image"
    rm -rf "$shim/log"
    check_rc 4 "short name $image that is not there" scripted ncbench check "$T/short.yaml"
    for f in "$shim"/log/*.argv; do tr '\0' ' ' <"$f" && echo; done >"$T/asked"
    match "podman was asked for it" "^image exists -- $image $" "$T/asked"
    no_match "and for nothing that fetches or runs" '^(image )?(pull|run|search) ' "$T/asked"
    match "says what to write" "image \"$image\" not found locally; use a full reference such as docker.io/library/ubuntu:24.04" "$ERR"
done
scenario "$T/own.yaml" "[/bin/true]" "image: localhost/ncbench/nosuch:1"
check_rc 4 "an image of ours that is not there" scripted ncbench check "$T/own.yaml"
match "says how to make it" "ncbench image build --name localhost/ncbench/nosuch:1" "$ERR"
check "the file alone is fine" scripted ncbench check --portable "$T/own.yaml"
rm "$shim"/script/*
MOUNTS=", {source: /tmp, target: mnt}" scenario "$T/m.yaml" "[/bin/true]"
check_rc 3 "a relative target" scripted ncbench check "$T/m.yaml"
MOUNTS=", {source: /dev/ss0, target: /x}" scenario "$T/m.yaml" "[/bin/true]"
check_rc 4 "a source that is not there" scripted ncbench check "$T/m.yaml"
match "is named" "mount source /dev/ss0 does not exist" "$ERR"
MOUNTS=", {source: /dev/ss0, target: /x, optional: true}" scenario "$T/m.yaml" "[/bin/true]"
check "an optional one" scripted ncbench check "$T/m.yaml"
match "is dropped with a warning" "/dev/ss0" "$ERR"
scenario "$T/u.yaml" "[/bin/true]" "rootfs: $T/root
    devices: [/dev/nosuch]"
check_rc 4 "a device that is not there" scripted ncbench check "$T/u.yaml"
scenario "$T/u.yaml" "[/bin/true]" "rootfs: $T/root
    ulimits: {memlock: unlimited}"
check_rc 4 "a limit above the hard one" env NCBENCH_FSROOT="$PWD/tests/fixtures/fsroot/hybrid" \
    PATH="$shim:$PATH" ncbench check "$T/u.yaml"
match "is named" "ulimit memlock=unlimited is above the hard limit of 8388608" "$ERR"
scenario "$T/u.yaml" "[/bin/true]" "rootfs: $T/root
    cpuset: 0-1"
check_rc 4 "a cpuset that is not delegated" env NCBENCH_FSROOT="$PWD/tests/fixtures/fsroot/v2-user" \
    PATH="$shim:$PATH" ncbench check "$T/u.yaml"
match "is named, with what there is" \
    'rootless podman: controller "cpuset" is not delegated \(have: cpu io memory pids\)' "$ERR"
scenario "$T/u.yaml" "[/bin/true]" "rootfs: $T/root
    options: [--detach]"
check_rc 3 "an option that would end the trial at once" scripted ncbench check "$T/u.yaml"

# ---- the runtime's own messages, no hello ------------------------------------------------------
while IFS='|' read -r rc want fragment text; do
    echo "$rc" >"$shim/script/run.rc"
    printf '%b\n' "$text" >"$shim/script/run.err"
    EVENTS=required scenario "$T/f.yaml" "[$payload, hello, done, '0']"
    PATH="$shim:$PATH" session "$T/f.yaml" --only runtime=podman
    equal "exit $rc with $fragment" "$(field podman .outcome)" "$want"
    field podman '.reasons | join(" ")' >"$OUT"
    match "the reason tells" "$fragment" "$OUT"
    no_match "and no warning" "level=warning" "$OUT"
done <<'EOF'
125|unavailable|image not known|time="x" level=warning msg="CNI conflist"\nError: localhost/none:1: image not known
125|runtime_failed|cannot set shmsize|Error: invalid config provided: cannot set shmsize
126|runtime_failed|rlimit type 7|Error: runc: error setting rlimit type 7: operation not permitted: OCI permission denied
126|not_executable|permission denied|Error: runc: exec: "/etc/passwd": permission denied: OCI permission denied
127|not_found|/nosuch|Error: runc: exec: "/nosuch": stat /nosuch: no such file or directory: not found
1|runtime_failed|container process|Error: crun: cannot start container process \0377\0376
EOF
rm "$shim"/script/*

# ---- two sessions at once: no container shares a name ------------------------------------------
rm -rf "$shim/log"
scenario "$T/two.yaml" "[$payload, sleep, '0.1']"
PATH="$shim:$PATH" ncbench run --blocks 1 --progress=none "$T/two.yaml" >"$T/one.out" 2>&1 &
PATH="$shim:$PATH" ncbench run --blocks 1 --progress=none "$T/two.yaml" >"$T/two.out" 2>&1
second=$?
wait $!
equal "both sessions end well" "$? $second" "0 0"
names=$(cat "$shim"/log/*.argv | tr '\0' '\n' | grep '^--name=' | sort)
equal "two containers" "$(echo "$names" | wc -l)" 2
equal "two names" "$(echo "$names" | uniq | wc -l)" 2
equal "looked for by their names afterwards" \
    "$(cat "$shim"/log/*.argv | tr '\0' '\n' | sed -n 's/^--filter=name=^\(.*\)\$$/\1/p' | sort -u)" \
    "$(echo "$names" | cut -d= -f2)"

# ---- the real podman ---------------------------------------------------------------------------
if [ "$(id -u)" -ne 0 ] || ! command -v podman >/dev/null; then
    skip "the real podman" "podman or root is missing"
    finish
fi

# The environment: every value byte for byte, the same in both arms; podman adds only its own.
ENVIRONMENT='{NL: "a\nb", LITERAL: "a\\nb", QUOTES: "\"x\" y", EQUALS: a=b=c, EMPTY: "", UTF8: "grüße", SPACE: " lead "}'
scenario "$T/env.yaml" "[$payload, print-env0]"
session "$T/env.yaml"
unset ENVIRONMENT
equal "environment: both arms run" "$RC" 0
marks='NCBENCH_TRIAL_|MASTER_PORT=' # differ from trial to trial
for arm in bare podman; do out_of "$arm" | grep -zvE "^($marks)" | sort -z >"$T/$arm.env"; done
equal "nothing of bare is missing under podman" \
    "$(comm -z -23 "$T/bare.env" "$T/podman.env" | tr '\0\n' '\n|')" ""
equal "podman adds only its own" \
    "$(comm -z -13 "$T/bare.env" "$T/podman.env" | tr '\0' '\n' | cut -d= -f1 |
        grep -vxE 'HOSTNAME|TERM|container|HOME|PATH')" ""
for want in $'NL=a\nb' 'LITERAL=a\nb' 'QUOTES="x" y' EQUALS=a=b=c EMPTY= UTF8=grüße 'SPACE= lead '; do
    grep -z "^${want%%=*}=" "$T/podman.env" >"$T/seen"
    printf '%s\0' "$want" >"$T/want"
    check "exactly ${want%%=*}" cmp "$T/want" "$T/seen"
done

# Mounts: each odd name is the right file.
mkdir "$T/m"
i=0 MOUNTS='' commands=''
for name in "my run" "tab	here" 'so:me' 'foo,bar' 'back\slash' 'üml'; do
    i=$((i + 1))
    echo "file $i" >"$T/m/$name"
    MOUNTS="$MOUNTS, {source: '$T/m/$name', target: '/in put/$name', read_only: true}"
    commands="$commands, print-file, '/in put/$name'"
done
scenario "$T/mounts.yaml" "[$payload$commands]"
session "$T/mounts.yaml" --only runtime=podman
unset MOUNTS
equal "mounts with odd names" "$(out_of podman | tr '\n' ' ')" "file 1 file 2 file 3 file 4 file 5 file 6 "

# A program's own 125, 126, 127, with and without hello, under both.
for rc in 125 126 127; do
    case $rc in 125) before=runtime_failed ;; 126) before=not_executable ;; 127) before=not_found ;; esac
    EVENTS=required scenario "$T/rc.yaml" "[$payload, exit, '$rc']"
    session "$T/rc.yaml"
    equal "exit $rc before hello" "$(field bare .outcome) $(field podman .outcome)" "$before $before"
    EVENTS=required scenario "$T/rc.yaml" "[$payload, hello, exit, '$rc']"
    session "$T/rc.yaml"
    equal "exit $rc after hello" "$(field bare .outcome) $(field podman .outcome)" \
        "workload_failed workload_failed"
    equal "with its code" "$(field podman '.exit.processes[0]')" "$rc"
done
EVENTS=required scenario "$T/nosuch.yaml" "[/nosuch/program]"
session "$T/nosuch.yaml"
equal "a program that is not there" "$(field bare .outcome) $(field podman .outcome)" "not_found not_found"
EVENTS=required scenario "$T/noexec.yaml" "[/etc/passwd]" "rootfs: /"
session "$T/noexec.yaml"
equal "one that is not executable" "$(field bare .outcome) $(field podman .outcome)" \
    "not_executable not_executable"

# A trial that ignores TERM, with a child in a session of its own: nothing survives.
TRIAL=1s GRACE=500ms scenario "$T/hang.yaml" "[$payload, ignore-term, fork-setsid, sleep, '600']"
session "$T/hang.yaml" --only runtime=podman
equal "time-out" "$RC $(field podman .outcome)" "5 timeout"
equal "no process of it" "$(processes_left)" ""
equal "no container of it" "$(containers_left)" ""

# Interrupted: the same.
GRACE=500ms scenario "$T/int.yaml" "[$payload, ignore-term, fork-setsid, print, started, sleep, '600']"
rm -rf "$T/results/pod"
ncbench run --blocks 1 --progress=none --only runtime=podman "$T/int.yaml" >"$OUT" 2>"$ERR" &
pid=$!
wait_until "its trial starts" 20 started pod
equal "its container is seen" "$(containers_left | wc -l)" 1
check "so are its processes" test -n "$(processes_left)"
kill -TERM $pid
wait $pid
equal "TERM ends the session" "$?" 143
equal "and leaves no process" "$(processes_left)" ""
equal "nor a container" "$(containers_left)" ""

# The host's limits and shared memory, whatever podman's defaults are.
scenario "$T/limits.yaml" "[$payload, print-file, /proc/self/limits]"
session "$T/limits.yaml"
for row in "Max open files" "Max locked memory" "Max stack size"; do
    equal "$row is the host's" "$(out_of podman | grep "^$row")" "$(out_of bare | grep "^$row")"
done
finish
