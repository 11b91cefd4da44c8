# Trials as steps of a real Slurm: a private one, with several virtual nodes on this machine.
. tests/cli/lib.sh
. tests/cli/session_lib.sh

# ---- is there what it takes? -----------------------------------------------------------------------
missing=()
for pair in slurmctld:slurmctld slurmd:slurmd srun:slurm-client munged:munge ip:iproute2; do
    command -v "${pair%%:*}" >/dev/null || missing+=("${pair##*:}")
done
[ "${#missing[@]}" -eq 0 ] || { echo "not installed: ${missing[*]} (tools/install-deps slurm)"; exit 77; }
command -v jq >/dev/null || { echo "jq is not installed"; exit 77; }
[ "$(id -u)" -eq 0 ] || { echo "a private Slurm needs root"; exit 77; }
if [ -z "${IN_NETNS:-}" ]; then
    unshare -n true 2>/dev/null || { echo "no network namespaces here"; exit 77; }
    rm -rf "$T"
    IN_NETNS=1 exec tools/minislurm netns bash "$0"
fi

for variable in $(compgen -v SLURM_; compgen -v SRUN_); do unset "$variable"; done
export MINISLURM_PRIVATE_DIRS="/var/lib/containers /run"
# Jobs of the partition `high` take the nodes of the others: those go back into the queue, or are ended.
export MINISLURM_EXTRA="PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PartitionName=low Nodes=ALL PriorityTier=1 PreemptMode=REQUEUE
PartitionName=polite Nodes=ALL PriorityTier=1 PreemptMode=CANCEL GraceTime=20
PartitionName=high Nodes=ALL PriorityTier=10"
CLUSTER=$T/slurm
down() { tools/minislurm stop "$CLUSTER" >/dev/null 2>&1; }
trap 'down; ncbench image rm localhost/ncbench/slurm-test:latest >/dev/null 2>&1; rm -rf "$T"' EXIT
check "a private Slurm of 4 nodes starts" tools/minislurm start "$CLUSTER" 4 2
export SLURM_CONF=$CLUSTER/slurm.conf

# in_job OPTIONS… -- COMMAND…: in an allocation
in_job() {
    local options=()
    while [ "$1" != -- ]; do options+=("$1"); shift; done
    shift
    timeout 100 salloc --quiet --ntasks-per-node=1 "${options[@]}" "$@"
}
steps_left() { # squeue's own words where it cannot tell
    local steps
    if ! steps=$(squeue --steps --noheader --format=%i 2>&1); then
        echo "squeue failed: $steps"
    else
        grep -vcE '^$|batch|extern|interactive' <<<"$steps"
    fi
}

# nano NAME STEPS NODES-LIST 'RUNTIMES' [line…]
nano() {
    cat >"$T/$1.yaml" <<END
version: 1
name: $1
baseline: bare
$(training '"${nodes * 32}"' "$2")
runtimes: [{name: bare, kind: bare}$4]
launch: {scheduler: slurm, nodes: "\${nodes}", ranks_per_node: 1, threads_per_rank: 1}
matrix: {nodes: [$3]}
sampling: {looks: [2], discard_first_block: false, warmup: {steps: 1, detect: false}}
limits: {trial: 60s, kill_grace: 3s, max_failures: 1, disk_free: 64KiB}
END
}
ran() { timeout 100 ncbench run "$T/$1.yaml" --out "$R" --progress none "${@:2}"; }

# ---- the comparison, as a job ----------------------------------------------------------------------
arms=
if command -v podman >/dev/null && podman info >/dev/null 2>&1 &&
    srun -N4 --ntasks-per-node=1 podman info >/dev/null 2>&1; then
    check "an image for podman" ncbench image build --no-cuda --archive "$T/image.tar" --name localhost/ncbench/slurm-test:latest
    check "every node loads it" srun -N4 --ntasks-per-node=1 podman load --quiet -i "$T/image.tar"
    arms="$arms, {name: podman, kind: podman, image: localhost/ncbench/slurm-test:latest}"
else
    skip "podman on the virtual nodes" "podman does not work here"
fi
if command -v ch-run >/dev/null; then
    check "an image for charliecloud" ncbench image build --no-cuda --dir "$T/root"
    arms="$arms, {name: charliecloud, kind: charliecloud, rootfs: $T/root}"
else
    skip "charliecloud on the virtual nodes" "ch-run is not installed"
fi
nano compare 20 '1, 2, 4' "$arms"
check "a job script" ncbench sbatch "$T/compare.yaml" -D launch.slurm.time_limit=10m --out "$R" --run=--blocks=1 -o "$T/job.sh"
match "it asks for the nodes of the largest cell" '^#SBATCH --nodes=4$' "$T/job.sh"
match "and for the time" '^#SBATCH --time=0:10:00$' "$T/job.sh"
if command -v shellcheck >/dev/null; then check "it is clean" shellcheck "$T/job.sh"; fi
check "sbatch takes it" sbatch --wait --output="$T/job.out" "$T/job.sh"
S=$(find "$R/compare" -mindepth 1 -maxdepth 1 -type d)
match "the session is complete" ': complete, ' "$T/job.out"
n=$(jq -s 'length' "$S/trials.jsonl")
equal "every trial is ok" "$(jq -s 'map(select(.outcome == "ok")) | length' "$S/trials.jsonl")" "$n"
equal "1, 2 and 4 nodes for each arm" \
    "$(jq -r '[.runtime, (.hosts | join(","))] | join(" ")' "$S/trials.jsonl" | sort -u | grep '^bare ' | cut -d' ' -f2 | tr '\n' ' ')" 'n1 n1,n2 n1,n2,n3,n4 '
equal "a rank on each node" "$(jq -r 'select(.nodes == 4).ranks' "$S/trials.jsonl" | sort -u)" 4
equal "over tcp where there are several" "$(jq -r 'select(.nodes == 4).config.comm_backend' "$S/trials.jsonl" | sort -u)" tcp
equal "all arms learn the same" "$(jq -r '[.nodes, .train.loss_last] | join(" ")' "$S/trials.jsonl" | sort -u | wc -l)" 3
equal "the records name job and step" "$(jq -r 'select(.slurm.step != null).slurm.step' "$S/trials.jsonl" | grep -cE '^[0-9]+\.[0-9]+$')" "$n"
equal "what the harness cannot see is null, with a reason" "$(jq -r '.rusage_why' "$S/trials.jsonl" | sort -u | grep -c 'step of Slurm')" 1
equal "every node's topology is kept, by its name" \
    "$(jq -r 'select(.nodes == 4 and .runtime == "bare").topology | [.host, .xml, (.other_nodes | keys | join(","))] | join(" ")' "$S/trials.jsonl" | sort -u)" \
    'n1 topo/bare/n1.xml n2,n3,n4'
check "the records fit their schema" python3 tests/cli/schema.py results/schemas/trial.json "$S/trials.jsonl"
equal "no step is left" "$(steps_left)" 0

# ---- containers that lie in a store of the node: enroot and pyxis, by stand-ins --------------------------
shim=$T/stores
mkdir -p "$shim/script"
cp tests/shims/enroot tests/shims/srun "$shim/"
echo /run/enroot >"$shim/script/data" # each node has its own
: >"$T/x.sqsh"
image="image: $T/x.sqsh, nanochat: $(command -v nanochat)"
nano stores 3 '1, 2' ", {name: enroot, kind: enroot, $image}, {name: pyxis, kind: pyxis, $image}, {name: named, kind: pyxis, $image, options: [--container-name=keep]}"
containers() { srun -N4 --ntasks-per-node=1 ls /run/enroot 2>/dev/null; }
created() { tr '\0' ' ' < <(cat "$shim"/log/*.argv) | grep -oE "create --name $1" | wc -l; }
stores() { in_job -N2 -c1 -- env PATH="$shim:$PATH" PYXIS_CONTAINER_IMAGE=/nosuch timeout 60 ncbench run "$T/stores.yaml" --out "$R" --progress none --blocks 1 "$@"; }
check "enroot and pyxis on several nodes" stores
S=$(tail -n 1 "$OUT")
equal "… each trial is ok" "$(jq -r '[.runtime, .nodes, .outcome] | join(" ")' "$S/trials.jsonl" | sort | tr '\n' ',')" \
    'bare 1 ok,bare 2 ok,enroot 1 ok,enroot 2 ok,named 1 ok,named 2 ok,pyxis 1 ok,pyxis 2 ok,'
equal "… enroot's container is made once a session on each node" "$(created ncbench-)" 2
equal "… a named one of pyxis too" "$(created 'pyxis_[0-9]+_keep-')" 2
equal "… without a name, once a trial on its nodes" "$(created 'pyxis_[0-9]+_[0-9]')" 3
equal "… and none is left on any" "$(containers)" ''
equal "… the start is described as what it is" \
    "$(jq -r 'select(.runtime | test("pyxis|named")).runtime_version | .start_includes[0:10]' "$S/trials.jsonl" | sort -u | tr '\n' ',')" 'import or ,the start ,'
sed -i 's/num_iterations: 3,/num_iterations: 1000000,/' "$T/stores.yaml"
rm -f "$shim"/log/*.argv
check_rc 5 "trials beyond their limit" stores -D limits.trial=2s -D limits.max_failures=20 -D 'matrix.nodes=[2]'
equal "… time out in every arm" "$(jq -r .outcome "$(tail -n 1 "$OUT")/trials.jsonl" | sort -u)" timeout
check "… pyxis made its containers" test "$(created 'pyxis_[0-9]+_[0-9]')" -ge 2
equal "… and none is left on any node" "$(containers)" ''
echo 20 >"$shim/script/create.sleep"
(stores --only runtime=enroot -D matrix.nodes=[2] -D baseline=enroot >"$T/killed.out" 2>&1) &
unpacking() { squeue --steps --noheader --format=%j | grep -q '\.prepare$'; }
wait_until "the nodes unpack" 30 unpacking
newest stores
kill -KILL "$(jq .pid "$S/session.json")"
wait
rm "$shim/script/create.sleep"
sed -i 's/num_iterations: 1000000,/num_iterations: 3,/' "$S/scenario.yaml"
check "a session that is killed before its first trial goes on in the same nodes" \
    in_job -N2 -c1 -w"$(jq -r .slurm.nodes "$S/session.json")" -- env PATH="$shim:$PATH" timeout 60 ncbench run --resume "$S" --allow-drift --progress none
equal "… and no container is left" "$(containers)" ''
echo 1 >"$shim/script/create.rc"
echo '[ERROR] Write failed because No space left on device' >"$shim/script/create.err"
check_rc 4 "a node that cannot unpack the image" stores
match "… is told before the first trial, in the runtime's words" 'preparing runtime (enroot|named): prepare on n1,n2: srun failed: .*No space left on device' "$ERR"

# ---- the job scripts that come with ncbench -----------------------------------------------------------
check "sbatch.sh: a model from start to end on two nodes" env NANOCHAT="$(command -v nanochat)" NANOCHAT_BASE_DIR="$T/base" \
    DEVICE=cpu DEPTH=1 SEQ_LEN=32 DEVICE_BATCH=1 ROWS_PER_RANK=1 STEPS=3 RANKS_PER_NODE=1 DATA_SOURCE=synthetic VOCAB=256 \
    LEAST_SPLIT_TOKENS=100 OMP_NUM_THREADS=1 sbatch --wait --nodes=2 --cpus-per-task=1 --output="$T/plain.out" sbatch/sbatch.sh
match "… its batch follows the ranks" '^2 nodes, 2 ranks, 64 tokens a step' "$T/plain.out"
equal "… with a checkpoint of both ranks' optimizer" "$(find "$T/base" -name '*.safetensors' | grep -c rank)" 2
match "… and its evaluation" 'val' "$T/plain.out"
gate() { # in a job of so many nodes, with this band
    sbatch --wait --nodes="$1" --ntasks-per-node=1 --output="$T/gate.out" --wrap \
        "NANOCHAT=$(command -v nanochat) OMP_NUM_THREADS=1 sbatch/network-gate.sh $2 $3 -b 64KiB -e 64KiB -n 3"
}
check "network-gate.sh: two nodes within the band" gate 2 0.0000001 1000000
match "… says so" '^network gate: passed$' "$T/gate.out"
match "… after an all-reduce" '^ +all_reduce +65536 ' "$T/gate.out"
check_rc 4 "… outside of it the job ends" gate 2 100000 1000000
match "… with the figure" 'all_reduce of 65536 bytes: [0-9.]+ GB/s on the bus, expected at least 100000' "$T/gate.out"
check "… one node crosses nothing" gate 1 100000 1000000
for scenario in configs/slurm-*.yaml; do
    check "$scenario makes a script" ncbench sbatch "$scenario" -o "$T/made.sh"
    if command -v shellcheck >/dev/null; then check "… a clean one" shellcheck "$T/made.sh"; fi
done
check_rc 2 "sbatch-compare-runtimes.sh wants numbers" sbatch/sbatch-compare-runtimes.sh configs/slurm-cpu.yaml "1 two"
check "sbatch-compare-runtimes.sh submits" bash -c 'cd "$T" && ROOT=$1 && NCBENCH=ncbench "$ROOT/sbatch/sbatch-compare-runtimes.sh" "$ROOT/configs/slurm-cpu.yaml" "1 3" --run=--blocks=1 --out "$T/cmp"' bash "$PWD"
match "… a job" '^[0-9]+$' "$OUT"
match "… of three nodes" '^#SBATCH --nodes=3$' "$T/compare.sbatch"
scancel "$(cat "$OUT")"

# ---- what sbatch refuses -----------------------------------------------------------------------
check_rc 4 "sbatch's refusal is an error" ncbench sbatch "$T/compare.yaml" -D launch.slurm.partition=nowhere --submit -o "$T/bad.sh"
match "… in its own words" 'sbatch: error: .*[Pp]artition' "$ERR"
check_rc 4 "outside an allocation" ran compare
match "… with the way out" 'ncbench sbatch' "$ERR"

# ---- a node whose host has a longer name than Slurm gives it ----------------------------------------
nano domain 3 1 ''
{ cat /etc/hosts; echo "127.0.0.1 n1.cluster.example"; } >"$T/hosts" # srun looks up its own address
check "ncbench on n1.cluster.example" in_job -N1 -wn1 -c2 -- unshare --uts --mount sh -c \
    'hostname n1.cluster.example && mount --bind "$0" /etc/hosts && exec "$@"' "$T/hosts" \
    timeout 60 ncbench run "$T/domain.yaml" --out "$R" --blocks 1
S=$(tail -n 1 "$OUT")
check "… the host's own view goes by the node's name" test -s "$S/topo/n1.xml"
equal "… and the rank's is held against it" "$(field 1 '.topology.vs_host | type')" string

# ---- what Slurm left in the environment decides nothing -----------------------------------------------
nano inherited 3 1 ''
check "SLURM_CPUS_PER_TASK of another mind" in_job -N1 -c2 -- env SLURM_CPUS_PER_TASK=7 SLURM_CPU_BIND=none SLURM_NTASKS_PER_NODE=3 timeout 60 ncbench run "$T/inherited.yaml" --out "$R" --blocks 1
match "… a warning" 'SLURM_CPUS_PER_TASK=7 of the environment is not used: the scenario says 1' "$ERR"
S=$(tail -n 1 "$OUT")
equal "… the rank has one PU" "$(field 1 '.env[0].cpu.n_usable_pus')" 1
match "… the command line says it" '"--cpus-per-task=1"' "$S/trials/c00.b00.bare/launch.json"
equal "… the record too" "$(field 1 '.flags | map(select(startswith("SLURM_CPUS_PER_TASK=7"))) | length')" 1

# ---- too little -------------------------------------------------------------------------------------
nano big 3 '2, 4' ''
check_rc 4 "more nodes than the allocation has: at once" in_job -N2 -c1 -- timeout 20 ncbench run "$T/big.yaml" --out "$R"
match "… which cell, how many" 'cell c01: 4 nodes, the allocation has 2 \(n\[1-2\]\)' "$ERR"

# ---- failures -----------------------------------------------------------------------------------------
nano late 1000000 2 ''
check_rc 5 "a trial beyond its limit" in_job -N2 -c1 -- timeout 60 ncbench run "$T/late.yaml" --out "$R" --progress none --blocks 1 -D limits.trial=2s
S=$(tail -n 1 "$OUT")
equal "… is a timeout" "$(field 1 .outcome)" timeout
equal "… that wrote its last events" "$(field 1 '[.exit.codes[] != null] | all')" true
equal "… no step is left" "$(steps_left)" 0
equal "… no process" "$(survivors)" ''

cat >"$T/nosuch.yaml" <<END
version: 1
name: nosuch
baseline: bare
workload: {exec: [/nosuch/program], events: none}
runtimes: [{name: bare, kind: bare}]
launch: {scheduler: slurm, nodes: 2}
sampling: {looks: [2], discard_first_block: false}
limits: {max_failures: 1, disk_free: 64KiB}
END
check_rc 5 "a program that is not there" in_job -N2 -c1 -- timeout 60 ncbench run "$T/nosuch.yaml" --out "$R" --progress none --blocks 1
S=$(tail -n 1 "$OUT")
equal "… is not found" "$(field 1 .outcome)" not_found

# background NAME OPTIONS…: a session in an allocation; until rank 1 has made steps
background() {
    local name=$1
    shift
    rm -f "$T/rc"
    (in_job "$@" -- env --default-signal=INT,TERM ncbench run "$T/$name.yaml" --out "$R" --progress none --blocks 1 >"$OUT" 2>"$ERR" </dev/null; echo $? >"$T/rc") &
    wait_until "$name: its second rank makes three steps" 60 stepping "$name"
}
ended() {
    wait_until "the job ends" 60 test -s "$T/rc" >&2
    cat "$T/rc"
}

nano pernode 3 2 ''
sed -i 's/nodes \* 32/nodes * 64/; s/ranks_per_node: 1/ranks_per_node: 2/' "$T/pernode.yaml"
check "ranks of a node share their files" in_job -N2 -c2 -- timeout 60 ncbench run "$T/pernode.yaml" --out "$R" --progress none --blocks 1 -D output.trial_files=per-node
S=$(tail -n 1 "$OUT")
equal "… a file of each kind a node" "$(cd "$S/trials/c00.b00.bare" && echo events.* node*)" \
    'events.node00000.jsonl events.node00001.jsonl node00000.err node00000.out node00001.err node00001.out'
equal "… with all that four ranks said" "$(field 1 '"\(.outcome) \(.ranks) \(.events.files) \(.events.bad_lines) \(.exit.codes | length)"')" 'ok 4 2 0 4'

nano cancel 1000000 2 ''
sed -i 's/trial: 60s/trial: 8s/' "$T/cancel.yaml"
background cancel -N2 -c1
step=$(squeue --steps --noheader --format='%i|%j' | sed -n 's/|.*c00.b00.bare$//p')
check "the step bears the trial's name" scancel "$step"
equal "a step that is cancelled from outside: incomplete" "$(ended)" 5
equal "… is recorded as that, and its block run again" "$(jq -r .outcome "$S/trials.jsonl" | tr '\n' ' ')" 'cancelled timeout '
match "… in words" 'cancelled from outside' "$S/trials.jsonl"

nano term 1000000 2 ''
background term -N2 -c1
kill -TERM "$(jq .pid "$S/session.json")"
equal "TERM to ncbench" "$(ended)" 143
equal "… the ranks ended in good order" "$(field 1 '.outcome + " " + ([.exit.codes[] != null] | all | tostring)')" 'cancelled true'
equal "… no step is left" "$(steps_left)" 0

# ---- what a killed session left on its nodes goes before the next trial -----------------------------------
case $arms in
    *podman*)
        nano swept 1000000 2 ', {name: podman, kind: podman, image: localhost/ncbench/slurm-test:latest}'
        sed -i 's/baseline: bare/baseline: podman/; s/{name: bare, kind: bare}, //' "$T/swept.yaml"
        background swept -N2 -c1 -wn1,n2
        kill -KILL "$(jq .pid "$S/session.json")"
        ended >/dev/null
        name=$(jq -r '.processes[0] | map(select(startswith("--name")))[0] | sub("--name="; "")' "$S/trials/c00.b00.podman/launch.json")
        # salloc gave the nodes back, whose containers may outlive the step or not
        srun -N2 -wn1,n2 --ntasks-per-node=1 podman rm --force --ignore --time=0 "$name" >/dev/null 2>&1
        check "a container is left on each node" srun -N2 -wn1,n2 --ntasks-per-node=1 podman create --name "$name" localhost/ncbench/slurm-test:latest true
        sed -i 's/num_iterations: 1000000/num_iterations: 20/' "$S/scenario.yaml"
        check "the session goes on" in_job -N2 -c1 -wn1,n2 -- timeout 60 ncbench run --resume "$S" --allow-drift --progress none
        equal "… at its first attempt" "$(jq -r '.outcome + " " + (.attempt | tostring)' "$S/trials.jsonl" | tr '\n' ' ')" 'ok 1 '
        srun -N2 -wn1,n2 --ntasks-per-node=1 podman ps --all --format '{{.Names}}' >"$OUT" 2>/dev/null
        no_match "… and no container is left" "$name" "$OUT"
        ;;
    *) skip "what a killed session left on its nodes" "podman does not work on the virtual nodes" ;;
esac

# ---- a node dies in the middle, and the session goes on in the next job -----------------------------------
nano node 1000000 '4' ''
background node -N4 -c1 --no-kill
check "a node dies" tools/minislurm fail "$CLUSTER" n3
equal "the session ends, incomplete" "$(ended)" 5
equal "… the trial is unavailable, not failed" "$(field 1 .outcome)" unavailable
match "… for a reason" 'node' <(field 1 '.reasons[0]')
match "… and nothing more is tried" 'no more trials here|incomplete' "$ERR"
no_match "… which is not put down to failures" 'failed trial' "$ERR"
equal "… state" "$(jq -r .state "$S/session.json")" incomplete
check_rc 4 "a resume on too few nodes is refused" in_job -N2 -c1 -- timeout 60 ncbench run --resume "$S" --progress none
check "the node comes back" tools/minislurm revive "$CLUSTER" n3
idle() { [ "$(sinfo -h -t idle -o %D)" = 4 ]; }
wait_until "all nodes are idle" 10 idle
# as it was, but of a length that ends: the session's own copy of the scenario is what counts
sed -i 's/num_iterations: 1000000/num_iterations: 20/' "$S/scenario.yaml"
check "it goes on in the next job" in_job -N4 -c1 -- timeout 60 ncbench run --resume "$S" --allow-drift --progress none
equal "… complete" "$(jq -r .state "$S/session.json")" complete
equal "… with both attempts on record" "$(jq -r .outcome "$S/trials.jsonl" | tr '\n' ' ')" 'unavailable ok '

# ---- a job is requeued or preempted, and its session goes on -----------------------------------------------
# taken_job NAME PARTITION: a job of four blocks, until its second trial runs; sets job, S, first (its first record)
taken_job() {
    nano "$1" 300 2 ''
    check "$1: a job script" ncbench sbatch "$T/$1.yaml" -D launch.slurm.time_limit=10m -D "launch.slurm.partition=$2" --out "$R" --run=--blocks=4 -o "$T/$1.sh"
    job=$(cd "$T" && sbatch --parsable --output="$T/$1.out" "$T/$1.sh")
    wait_until "$1: its second trial runs" 90 second_trial_runs "$1"
    first=$(head -n 1 "$S/trials.jsonl")
    mkdir -p "$R/$1/29990101T000000Z-ffff" # another job's, and newer
    echo '{"slurm": {"job": "999999"}, "state": "incomplete"}' >"$R/$1/29990101T000000Z-ffff/session.json"
}
second_trial_runs() { newest "$1" && [ -s "$S/trials.jsonl" ] && grep -qs '"step"' "$S"/trials/c00.b01*/events.rank00001.jsonl; }
job_is() { [ "$(squeue -h -j "$1" -o %T 2>/dev/null)" = "$2" ]; }
# Slurm waits two minutes before it starts such a job again: now.
start_again() {
    wait_until "the job waits for its start" 60 job_is "$job" PENDING
    scontrol update jobid="$job" StartTime=now
}
goes_on() { # WHAT REASON
    wait_until "$1: the job ends" 120 job_is "$job" ''
    equal "$1: the session is complete" "$(jq -r .state "$S/session.json")" complete
    equal "$1: four trials are ok, one was taken away" "$(jq -r .outcome "$S/trials.jsonl" | sort | uniq -c | tr -s ' ' | tr '\n' ';')" ' 1 cancelled; 4 ok;'
    match "$1: … by its reason" "^job $2: " <(jq -r 'select(.outcome == "cancelled").reasons[0]' "$S/trials.jsonl")
    equal "$1: what was measured stands" "$(head -n 1 "$S/trials.jsonl")" "$first"
    equal "$1: and is not measured again" "$(jq -r 'select(.outcome == "ok").block' "$S/trials.jsonl" | sort | tr '\n' ' ')" '0 1 2 3 '
}

taken_job requeued debug
check "scontrol requeue" scontrol requeue "$job"
start_again
goes_on "a requeued job" "$job of Slurm was requeued"
match "… which said so" "job $job of Slurm was requeued: no more trials here" "$T/requeued.out"
equal "… and began no other session" "$(ls "$R/requeued" | wc -l)" 2

taken_job preempted low
check "a job that takes its nodes" sbatch --wait -p high -N4 --exclusive --output=/dev/null --wrap true
start_again
goes_on "a preempted job" "$job of Slurm was preempted"

taken_job evicted polite
check "a job that takes its nodes, after a grace time" sbatch --wait -p high -N4 --exclusive --output=/dev/null --wrap true
wait_until "it is ended" 60 job_is "$job" ''
match "within the grace time no other trial is begun" "job $job of Slurm was preempted: no more trials here" "$T/evicted.out"
match "… the last one was taken away" '^(ok )+cancelled $' <(jq -r .outcome "$S/trials.jsonl" | tr '\n' ' ')
preempted=$job
job=$(sbatch --parsable --output="$T/evicted.out" "$T/evicted.sh" "$S")
goes_on "the next job with that session" "$preempted of Slurm was preempted"

# ---- the end of the allocation is near ------------------------------------------------------------------
mkdir "$T/shim"
printf '#!/bin/sh\ncase "$*" in *%%T*) echo "RUNNING|n[1-2]|0:33" ;; *) exec %s "$@" ;; esac\n' "$(command -v squeue)" >"$T/shim/squeue"
chmod +x "$T/shim/squeue"
nano short 20 2 ''
check_rc 124 "no trial is begun that would not fit" in_job -N2 -c1 -- env PATH="$T/shim:$PATH" timeout 60 ncbench run "$T/short.yaml" --out "$R" --progress none --blocks 3
S=$(tail -n 1 "$OUT")
equal "… and the session can be resumed" "$(jq -r .state "$S/session.json")" incomplete

check "the private Slurm stops" tools/minislurm stop "$CLUSTER"
equal "nothing of it is left" "$(pgrep -f "$CLUSTER" -c)" 0
finish
