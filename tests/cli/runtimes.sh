# Every container runtime that is here, held to the same contract as podman by tests/cli/podman.sh:
# the environment byte for byte, mounts, exit codes with and without hello, a program that is not
# there, limits, and nothing left behind. A runtime that is not here is skipped with its reason.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/contract_lib.sh"

if ! command -v jq >/dev/null; then
    echo "jq is not installed"
    exit 77
fi
payload=$(readlink -f "$BUILD/payload")
mkdir -p "$T/root/bin" "$T/m"
cp "$payload" "$T/root/bin/payload"
echo data >"$T/root/not-executable"
ln -s /nowhere-outside "$T/root/link" # a mount point behind it must be made inside

# scenario FILE KIND EXEC [MOUNTS]: bare and that kind, one block
scenario() {
    local variables=${ENVIRONMENT-}
    [ -n "$variables" ] || variables='{}'
    cat >"$1" <<EOF
version: 1
name: rt-$2
baseline: bare
workload: {exec: $3, events: ${EVENTS:-none}, env: $variables}
runtimes:
  - {name: bare, kind: bare}
  - name: arm
    kind: $2
    $root
    mounts: [{source: $payload, target: $payload}${4:-}]
${EXTRA:-}
launch: {bind: none}
sampling: {looks: [2], stop: never, discard_first_block: false}
limits: {trial: ${TRIAL:-60s}, kill_grace: ${GRACE:-5s}, max_failures: 50}
output: {dir: $T/results}
EOF
}

# containers_left KIND: whatever the runtime still knows of the session; the client's own words where it cannot tell
containers_left() {
    local names='' session=ncbench-${S##*/}
    case $1 in
        docker) names=$(docker ps --all --format '{{.Names}}' 2>&1) ;;
        enroot) names=$(enroot list 2>&1) session=ncbench ;; # one container a session, by a hash
        crun) [ ! -d "$S/crun" ] || names=$(find "$S/crun" -mindepth 2 -name 'ncbench-*' -printf '%f\n') ;;
        *) return ;; # nothing but processes
    esac || { echo "cannot list: $names"; return; }
    grep "^${session}[.-]" <<<"$names"
}

# shellcheck disable=SC2016  # the dollars are the scenario's
environment() { # KIND OWN: exact values; only the names of the regex OWN are added
    local want marks='NCBENCH_TRIAL_|MASTER_PORT=' # differ from trial to trial
    ENVIRONMENT='{NL: "a\nb", LITERAL: "a\\nb", QUOTES: "\"x\" y", EQUALS: a=b=c, EMPTY: "", UTF8: "grüße", SPACE: " lead ", DOLLAR: "$${HOME}:$$PATH", QUOTED: "\"q\""}'
    scenario "$T/env.yaml" "$1" "[$payload, print-env0]"
    session "$T/env.yaml"
    unset ENVIRONMENT
    equal "$1: environment: both arms run" "$RC" 0
    for arm in bare arm; do out_of "$arm" | grep -zvE "^($marks)" | sort -z >"$T/$arm.env"; done
    equal "$1: nothing of bare is missing" \
        "$(comm -z -23 "$T/bare.env" "$T/arm.env" | tr '\0\n' '\n|')" ""
    equal "$1: only the runtime's own is added" \
        "$(comm -z -13 "$T/bare.env" "$T/arm.env" | tr '\0' '\n' | cut -d= -f1 | grep -vxE "$2")" ""
}

mounts() { # KIND NAMES…: each name is the right file
    local kind=$1 i=0 list='' commands='' want=''
    shift
    for name; do
        i=$((i + 1)) want="${want}file $i "
        echo "file $i" >"$T/m/$name"
        list="$list, {source: '$T/m/$name', target: '/in put/$name'}"
        commands="$commands, print-file, '/in put/$name'"
    done
    # A link in the image leads inside; ch-run refuses it by itself.
    [ "$kind" = charliecloud ] || list="$list, {source: $T/m, target: /link/inside}"
    [ "$kind" = charliecloud ] || commands="$commands, print-file, '/link/inside/$1'" want="${want}file 1 "
    scenario "$T/mounts.yaml" "$kind" "[$payload$commands]" "$list"
    session "$T/mounts.yaml" --only runtime=arm
    equal "$kind: mounts" "$(out_of arm | tr '\n' ' ')" "$want"
    check_rc 1 "$kind: a link in the image leads nowhere outside" test -e /nowhere-outside
    equal "$kind: the root file system is left alone" \
        "$(find "$T/root" -mindepth 1 -printf '%P\n' | sort | tr '\n' ' ')" \
        "bin bin/payload link not-executable "
}

exit_codes() { # KIND
    EVENTS=required scenario "$T/rc.yaml" "$1" "[$payload, hello, exit, '127']"
    session "$T/rc.yaml"
    equal "$1: exit 127 after hello" "$(field arm .outcome) $(field arm '.exit.processes[0]')" \
        "workload_failed 127"
    EVENTS=required scenario "$T/rc.yaml" "$1" "[$payload, exit, '7']"
    session "$T/rc.yaml"
    equal "$1: exit 7 before hello" "$(field arm .outcome)" runtime_failed
    EVENTS=required scenario "$T/rc.yaml" "$1" "[/nosuch/program]"
    session "$T/rc.yaml"
    equal "$1: a program that is not there" "$(field bare .outcome) $(field arm .outcome)" \
        "not_found not_found"
    EVENTS=required scenario "$T/rc.yaml" "$1" "[${NOT_EXECUTABLE:-/not-executable}]"
    session "$T/rc.yaml" --only runtime=arm
    equal "$1: one that is not executable" "$(field arm .outcome)" not_executable
}

nothing_survives() { # KIND
    # It ignores TERM and has a child in a session of its own.
    TRIAL=2s GRACE=500ms scenario "$T/hang.yaml" "$1" "[$payload, ignore-term, fork-setsid, sleep, '600']"
    session "$T/hang.yaml" --only runtime=arm
    equal "$1: time-out" "$RC $(field arm .outcome)" "5 timeout"
    equal "$1: no process of it" "$(processes_left)" ""
    equal "$1: no container of it" "$(containers_left "$1")" ""
    GRACE=500ms scenario "$T/int.yaml" "$1" "[$payload, ignore-term, fork-setsid, print, started, sleep, '600']"
    rm -rf "$T/results/rt-$1"
    ncbench run --blocks 1 --progress=none --only runtime=arm "$T/int.yaml" >"$OUT" 2>"$ERR" &
    pid=$!
    wait_until "$1: its trial starts" 30 started "rt-$1"
    check "$1: its processes are seen" test -n "$(processes_left)"
    case $1 in docker | enroot | crun) check "$1: so is its container" test -n "$(containers_left "$1")" ;; esac
    kill -TERM $pid
    wait $pid
    equal "$1: TERM ends the session" "$?" 143
    equal "$1: and leaves no process" "$(processes_left)" ""
    equal "$1: nor a container" "$(containers_left "$1")" ""
}

allocation() { # KIND: the host's limits and shared memory
    scenario "$T/limits.yaml" "$1" "[$payload, print-file, /proc/self/limits, print-file, /proc/self/mounts]"
    session "$T/limits.yaml"
    for row in "Max open files" "Max locked memory" "Max stack size" "Max processes"; do
        equal "$1: $row is the host's" "$(out_of arm | grep "^$row")" "$(out_of bare | grep "^$row")"
    done
    equal "$1: described" "$(field arm '.runtime_version | length > 2')" true
}

AS_ROOT=$(id -u | grep -x 0) # root may lack capabilities that apptainer would ask for
# A root file system to try the clients on, with all the mount points that they take for granted.
probe=$T/probe
mkdir -p "$probe"/{bin,dev,proc,sys,tmp,etc,home,root,run,var/tmp}
cp "$payload" "$probe/bin/payload"
touch "$probe"/etc/{passwd,group,hosts,resolv.conf,localtime}
there() { command -v "$1" || { echo "$1 not found"; return 1; }; }
# A container of the client's own making, for what crun and runc are called by.
bundle_runs() { # CLIENT: crun or runc
    local client=$1 dir=$T/bundle-$1
    there "$client" || return
    rm -rf "$dir" && mkdir "$dir" && (cd "$dir" && "$client" spec) || return
    jq --arg root "$probe" '.process.args = ["/bin/payload", "exit", "0"] | .process.terminal = false |
        .root = {path: $root, readonly: true}' "$dir/config.json" >"$dir/new" && mv "$dir/new" "$dir/config.json"
    "$client" run --bundle "$dir" "ncbench-test-$$"
}
# works KIND: does the runtime work here, by its own client alone? Says why not.
works() {
    case $1 in
        crun) bundle_runs crun || bundle_runs runc ;;
        charliecloud) there ch-run && USER=${USER:-nobody} ch-run "$probe" -- /bin/payload exit 0 ;;
        docker) there docker && docker info ;;
        enroot) there enroot && enroot create --name "ncbench-test-$$" "$T/root.sqsh" && enroot remove --force "ncbench-test-$$" ;;
        apptainer) there apptainer && apptainer exec ${AS_ROOT:+--no-privs} "$probe" /bin/payload exit 0 ;;
    esac </dev/null 2>&1
}

conforms() { # KIND OWN-VARIABLES MOUNT-NAMES…
    local kind=$1 own=$2 why
    shift 2
    root=${IMAGE:-"rootfs: $T/root"}
    case $kind in enroot) root="image: $T/root.sqsh" ;; esac
    if ! why=$(works "$kind"); then
        check_rc 4 "$kind: the doctor sees that it does not work" ncbench doctor --runtime "$kind"
        skip "$kind" "does not work here: $(tail -n 1 <<<"$why")"
        return
    fi
    check "$kind: the doctor sees that it works" ncbench doctor --runtime "$kind"
    environment "$kind" "$own"
    mounts "$kind" "$@"
    exit_codes "$kind"
    nothing_survives "$kind"
    allocation "$kind"
}

# GPUs: a machine without says what it lacks, before anything runs.
gpus() { # KIND IMAGE
    cat >"$T/gpus.yaml" <<END
version: 1
name: gpus
baseline: bare
workload: {exec: [/bin/true], events: none}
runtimes: [{name: bare, kind: bare}, {name: arm, kind: $1, gpus: all, $2}]
sampling: {looks: [6]}
END
}
for kind in podman crun charliecloud; do
    gpus "$kind" "rootfs: $T/root"
    check "$kind: gpus can be said" ncbench check --portable "$T/gpus.yaml"
    if [ -e /dev/nvidiactl ] || ! ncbench doctor --runtime "$kind" >"$OUT" 2>&1; then
        skip "$kind: gpus on a machine without" "it has a GPU, or no $kind"
        continue
    fi
    check_rc 4 "$kind: but not had here" ncbench check "$T/gpus.yaml"
    match "$kind: what is missing is named" 'runtime arm: gpus: missing here: /dev/nvidiactl, /dev/nvidia-uvm, /dev/nvidia0 or another GPU.s; ' "$ERR"
done
gpus bare "nanochat: /x"
sed -i 's/, nanochat: .x//' "$T/gpus.yaml"
check_rc 3 "bare has what there is: it takes no gpus" ncbench check --portable "$T/gpus.yaml"

conforms crun '-' "my run" "tab	here" 'so:me' 'foo,bar' 'back\slash' 'üml'
root="rootfs: $T/root"
scenario "$T/colon.yaml" charliecloud "[/bin/true]" ", {source: /tmp, target: '/a:b'}"
check_rc 3 "charliecloud: a colon in a mount path cannot be expressed" ncbench check --portable "$T/colon.yaml"
match "charliecloud: and says so" 'cannot mount a path containing ":"' "$ERR"
# On several nodes the program must learn its node's number from Slurm's variables.
several_nodes() { # KIND IMAGE
    cat >"$T/nodes.yaml" <<END
version: 1
name: nodes
baseline: a
workload: {exec: [/bin/true], events: none}
runtimes: [{name: a, kind: $1, image: $2}, {name: b, kind: $1, image: $2}]
launch: {scheduler: slurm, nodes: 2}
sampling: {looks: [6]}
END
    run ncbench check --portable "$T/nodes.yaml"
}
for kind in crun apptainer; do
    several_nodes "$kind" /x.sqsh
    equal "$kind: not on several nodes" $? 3
    match "$kind: and why" "$kind\) cannot run on 2 nodes: its environment is written before" "$ERR"
done
several_nodes docker x:1
equal "docker: on several nodes" $? 0
several_nodes enroot /x.sqsh
equal "enroot: on several nodes" $? 0

conforms charliecloud 'CH_RUNNING' "my run" "tab	here" 'foo,bar' 'back\slash' 'üml'
# A daemon of the test's own where none answers: it needs root, touches no firewall and no bridge.
docker_daemon() {
    command -v dockerd >/dev/null && [ "$(id -u)" -eq 0 ] && ! docker info >/dev/null 2>&1 || return
    mkdir -p "$T/docker/bin"
    ln -s "$(dirname "$(command -v dockerd)" | sed 's,sbin,bin,')/docker" "$T/docker/bin/docker" # the client of that version
    PATH=$T/docker/bin:$PATH
    export DOCKER_HOST=unix://$T/docker/socket
    cat >"$T/docker/daemon.json" <<END
{"data-root": "$T/docker/data", "exec-root": "$T/docker/exec", "pidfile": "$T/docker/pid", "hosts": ["$DOCKER_HOST"],
 "iptables": false, "ip6tables": false, "ip-forward": false, "ip-masq": false, "bridge": "none", "userland-proxy": false}
END
    dockerd --config-file "$T/docker/daemon.json" >"$T/docker/log" 2>&1 &
    DOCKERD=$!
    trap 'kill $DOCKERD; wait $DOCKERD; umount "$T"/docker/exec/netns/* 2>/dev/null; rm -rf "$T"' EXIT
    # One that cannot run here ends by itself, and says why.
    wait_until "docker: a daemon of the test's own answers, or ends" 30 \
        sh -c "docker info >/dev/null 2>&1 || ! kill -0 $DOCKERD 2>/dev/null"
}
docker_daemon
conforms docker 'HOSTNAME|HOME|PATH' "my run" "tab	here" 'so:me' 'foo,bar' 'back\slash' 'üml'
if docker info >/dev/null 2>&1; then # what the last session recorded of it
    equal "docker: client and daemon tell what they are" \
        "$(field arm '.runtime_version | [.docker, .dockerd, .storage_driver, .oci_runtime] | map(type == "string") | all')" true
fi
if command -v enroot >/dev/null && command -v mksquashfs >/dev/null; then
    mkdir "$T/squash"
    cp -a "$T/root/." "$T/squash"
    cp "$(command -v busybox)" "$T/squash/bin/sh" # enroot starts every program by a shell
    mkdir -p "$T/squash"/{dev,proc,sys,tmp,etc,root,run}
    mksquashfs "$T/squash" "$T/root.sqsh" -quiet -no-progress >/dev/null
fi
conforms enroot 'TERM|SHELL|PWD|USER|LOGNAME' "my run" "tab	here" 'foo,bar' 'back\slash' 'üml'
apptainers_own='APPTAINER_.*|SINGULARITY_.*|PS1|PROMPT_COMMAND|PWD|HOME|LANG'
conforms apptainer "$apptainers_own" \
    "my run" "tab	here" 'so:me' 'foo,bar' 'back\slash' 'üml'
# The same root file system as one file, which a loop device or squashfuse mounts.
if works apptainer >/dev/null && apptainer --quiet build "$T/root.sif" "$T/root" >"$T/why" 2>&1 </dev/null &&
    apptainer exec ${AS_ROOT:+--no-privs} "$T/root.sif" /bin/payload exit 0 >"$T/why" 2>&1 </dev/null; then
    # What mounts this image: for root a loop device, for others squashfuse.
    mounters() {
        losetup -nO BACK-FILE 2>/dev/null | grep -xF "$T/root.sif"
        find /proc/[0-9]*/fd -lname "$T/root.sif" 2>/dev/null
    }
    unmounted() { [ -z "$(mounters)" ]; }
    IMAGE="image: $T/root.sif" conforms apptainer "$apptainers_own|LD_LIBRARY_PATH" \
        "my run" "tab	here" 'so:me' 'foo,bar' 'back\slash' 'üml'
    wait_until "apptainer: neither loop device nor squashfuse is left" 5 unmounted &&
        ok "apptainer: neither loop device nor squashfuse is left"
    # After KILL for ncbench the trial goes on, with what mounts its image, until the session does.
    root="image: $T/root.sif"
    scenario "$T/killed.yaml" apptainer "[$payload, print, started, sleep, '3']"
    rm -rf "$T/results/rt-apptainer"
    ncbench run --blocks 1 --progress=none "$T/killed.yaml" >"$OUT" 2>"$ERR" &
    pid=$!
    mounted() { S=$(echo "$T"/results/rt-apptainer/*) && grep -qs started "$S"/trials/*.arm/rank00000.out; }
    wait_until "apptainer: its trial starts" 30 mounted
    check "apptainer: the image is mounted" test -n "$(mounters)"
    kill -KILL $pid
    { wait $pid; } 2>/dev/null
    check "apptainer: a session that was killed goes on" ncbench run --resume "$S" --progress=none
    wait_until "apptainer: and what it left is gone" 5 unmounted && ok "apptainer: and what it left is gone"
else
    skip "apptainer on a SIF" "does not work here: $(tail -n 1 "$T/why" 2>/dev/null || echo no apptainer)"
fi

# ---- crun itself, where this machine would take runc -------------------------------------------
if [ -e /sys/fs/cgroup/unified/cgroup.controllers ] && command -v crun >/dev/null &&
    unshare -m true 2>/dev/null; then
    scenario "$T/crun.yaml" crun "[$payload, print-env0]"
    unshare -m --propagation private sh -c 'umount /sys/fs/cgroup/unified && exec "$@"' sh \
        ncbench run --blocks 1 --progress=none "$T/crun.yaml" >"$OUT" 2>"$ERR"
    equal "crun without the cgroup2 mount" "$?" 0
    S=$(tail -n 1 "$OUT")
    equal "crun it was" "$(field arm .runtime_version.oci_runtime)" crun
else
    skip "crun without the cgroup2 mount" "no hybrid cgroups, no crun, or no mount namespaces"
fi

# ---- enroot, by a stand-in that behaves as the real one was seen to ----------------------------
shim=$T/shim
mkdir -p "$shim/script"
cp tests/shims/enroot "$shim/enroot"
: >"$T/fake.sqsh"
root="image: $T/fake.sqsh"
PATH="$shim:$PATH"
calls() { # VERB: how often it was called
    local n=0 f
    for f in "$shim"/log/*.argv; do [ "$(head -z -n 1 "$f" | tr -d '\0')" != "$1" ] || n=$((n + 1)); done
    echo $n
}
environment enroot 'TERM|SHELL|PWD'
NOT_EXECUTABLE=/etc/passwd exit_codes enroot
equal "enroot: one container a session" "$(calls create)" 5
equal "enroot: and none is left" "$(ls "$shim/data")" ""
nothing_survives enroot
check "enroot: it is removed when a session is interrupted" test -z "$(ls "$shim/data")"
while IFS='|' read -r want fragment; do
    printf '%s\n' "$fragment" >"$shim/script/start.err"
    echo 1 >"$shim/script/start.rc"
    EVENTS=required scenario "$T/f.yaml" enroot "[$payload, hello, done, '0']"
    session "$T/f.yaml" --only runtime=arm
    equal "enroot: $fragment" "$(field arm .outcome)" "$want"
    field arm '.reasons | join(" ")' >"$T/reason"
    check "enroot: the reason tells" grep -qF "$fragment" "$T/reason"
    equal "enroot: and it was the start that failed" "$(field arm .phases_s.start)" null
done <<'EOF'
runtime_failed|[ERROR] Could not acquire rootfs lock
runtime_failed|[ERROR] /etc/enroot/hooks.d/98-nvidia.sh exited with return code 1
EOF
rm "$shim"/script/*

# ---- apptainer, in the same way -----------------------------------------------------------------
cp tests/shims/apptainer "$shim/apptainer"
echo SIF >"$T/fake.sif"
for root in "image: $T/fake.sif" "rootfs: $T/root"; do
    own=$apptainers_own
    [ "${root%%:*}" = rootfs ] || own="$own|LD_LIBRARY_PATH"
    environment apptainer "$own"
    NOT_EXECUTABLE=/etc/passwd exit_codes apptainer
    nothing_survives apptainer
done
root="image: $T/fake.sif"
while IFS='|' read -r rc want fragment; do
    printf '%s\n' "$fragment" >"$shim/script/exec.err"
    echo "$rc" >"$shim/script/exec.rc"
    EVENTS=required scenario "$T/f.yaml" apptainer "[$payload, hello, done, '0']"
    session "$T/f.yaml" --only runtime=arm
    equal "apptainer: $fragment" "$(field arm .outcome)" "$want"
    field arm '.reasons | join(" ")' >"$T/reason"
    check "apptainer: the reason tells" grep -qF "$fragment" "$T/reason"
done <<'EOF'
255|unavailable|FATAL:   While checking container encryption: could not open image /x.sif: image format not recognized
255|unavailable|FATAL:   container creation failed: image driver mount failure: image driver squashfuse_ll instance exited with error: squashfuse_ll exited: fuse: failed to open /dev/fuse: Permission denied
255|runtime_failed|FATAL:   failed to set working directory: chdir /nosuch: no such file or directory
1|runtime_failed|ERROR  : Requesting capability set 0x000001ffffffffff while permitted capability set is 0x000001fffeffffff
1|unavailable|Error for command "exec": unknown flag: --nosuch
EOF
rm "$shim"/script/exec.*
EVENTS=required EXTRA='    options: [--nosuch]' scenario "$T/f.yaml" apptainer "[$payload, exit, '0']"
session "$T/f.yaml" --only runtime=arm
equal "apptainer: an option that it lacks" "$(field arm .outcome)" unavailable
# It would do nothing, without a word.
EXTRA='    options: [--nv]' scenario "$T/f.yaml" apptainer "[$payload, exit, '0']"
if [ -e /dev/nvidiactl ]; then skip "apptainer: --nv without a GPU" "there is one"; else
    check_rc 4 "apptainer: --nv without a GPU" ncbench check "$T/f.yaml"
    match "apptainer: what is missing" 'option --nv, but /dev/nvidiactl does not exist' "$ERR"
fi
rm "$T/fake.sif"
scenario "$T/f.yaml" apptainer "[$payload, exit, '0']"
check_rc 4 "apptainer: no image" ncbench check "$T/f.yaml"
match "apptainer: and what makes one" 'image build --sif FILE' "$ERR"
root="image: $T/fake.sqsh"

# Two sessions at once, from one image, into one folder: no container is shared, none is left.
rm -rf "$shim/log"
echo 0.3 >"$shim/script/create.sleep"
scenario "$T/two.yaml" enroot "[$payload, sleep, '0.1']"
ncbench run --blocks 1 --progress=none "$T/two.yaml" >"$T/one.out" 2>&1 &
ncbench run --blocks 1 --progress=none "$T/two.yaml" >"$T/two.out" 2>&1
second=$?
wait $!
equal "two sessions at once end well" "$? $second" "0 0"
equal "each made a container" "$(calls create)" 2
names=$(for f in "$shim"/log/*.argv; do tr '\0' '\n' <"$f" | sed -n '/^create$/{n;n;p}'; done | sort -u | wc -l)
equal "with two names" "$names" 2
equal "and none is left" "$(ls "$shim/data")" ""

# A session that was killed while it unpacked: the next attempt begins anew.
echo 30 >"$shim/script/create.sleep"
rm -rf "$T/results/rt-enroot"
ncbench run --blocks 1 --progress=none "$T/two.yaml" >"$OUT" 2>&1 &
pid=$!
unpacking() { compgen -G "$T/results/rt-enroot/*/enroot/*/lock" >/dev/null; }
wait_until "it unpacks" 10 unpacking
sleep 0.2 # past the lock, into the unpacking, which takes 30 s
kill -KILL $pid
{ wait $pid; } 2>/dev/null
rm "$shim/script/create.sleep"
S=$(echo "$T"/results/rt-enroot/*)
check "the session goes on" ncbench run --resume "$S" --progress=none
equal "and no container is left" "$(ls "$shim/data")" ""

# One that is told to end while it unpacks: it ends soon, and nothing of it stays.
echo 30 >"$shim/script/create.unpack"
unpacked() { [ -n "$(ls "$shim/data")" ]; }
before=$(pgrep -f "$shim/enroot") # of the session that was killed
for pair in INT:130 TERM:143; do
    rm -rf "$T/results/rt-enroot"
    begin=$SECONDS
    env --default-signal=INT ncbench run --blocks 1 --progress=none "$T/two.yaml" >"$OUT" 2>"$ERR" &
    pid=$!
    wait_until "${pair%:*}: it unpacks" 10 unpacked
    kill -s "${pair%:*}" $pid
    wait $pid
    equal "${pair%:*} while it unpacks ends the session" "$?" "${pair#*:}"
    match "… in words" 'interrupted' "$ERR"
    equal "… without waiting for it" "$((SECONDS - begin < 25))" 1
    equal "… no container is left" "$(ls "$shim/data")" ""
    equal "… nor a client of it" "$(pgrep -f "$shim/enroot")" "$before"
    S=$(echo "$T"/results/rt-enroot/*)
    rm "$shim/script/create.unpack"
    check "… and the session goes on" ncbench run --resume "$S" --progress=none
    echo 30 >"$shim/script/create.unpack"
done
rm "$shim/script/create.unpack"
finish
