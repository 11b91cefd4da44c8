#!/usr/bin/env bash
# NCCL between two GPUs: tests/gpu/nccl.sh [NANOCHAT]. TAP, then "N passed, N failed". Builds nothing;
# a few minutes. Tables, events and NCCL's own logs stay in $OUT where that is set.
# Where there is one GPU, both ranks share it: NCCL refuses that within a host, so each rank is a node of its own whose
# host NCCL_HOSTID names, and the data go through sockets. Everything but the transport and the speed is the real thing.
# NCCL_TEST_DEVICE=cpu runs the same script over shared memory, to try it without a GPU.
# shellcheck source=tests/gpu/lib.sh
. "$(dirname "$0")/lib.sh"
DEVICE=${NCCL_TEST_DEVICE:-cuda}
DTYPES="float32 bfloat16"
BACKEND=nccl
[ "$DEVICE" = cuda ] || { DTYPES=float32 BACKEND=shm; }
SHARED=
if [ "$DEVICE" = cuda ] && [ "$(nvidia-smi -L | grep -c '^GPU')" -lt 2 ]; then SHARED=1; fi

match() { # WHAT REGEX FILE
    if grep -qE -- "$2" "$3"; then ok "$1"; else not_ok "$1" "no /$2/ in $3:" "$(tail -n 5 "$3")"; fi
}
# Whether A < B; what is no number (empty, nan) is below nothing.
below() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a ~ /^[0-9.]+([eE][-+]?[0-9]+)?$/ && a + 0 < b + 0) }'; }

# For ranks that are started apart; guessed only where there is no Python.
free_port() {
    python3 -c 'import socket; s = socket.socket(); s.bind(("", 0)); print(s.getsockname()[1])' 2>/dev/null ||
        echo $((20000 + RANDOM % 12000))
}

# NCCL may lie where the loader does not look (Python's packages).
if [ "$DEVICE" = cuda ] && [ -z "${NANOCHAT_NCCL_LIB:-}" ]; then
    for f in /usr/local/cuda/lib64 /usr/lib/x86_64-linux-gnu $(python3 -c \
        'import site; print(*[p + "/nvidia/nccl/lib" for p in site.getsitepackages()])' 2>/dev/null); do
        [ -e "$f/libnccl.so.2" ] && { export NANOCHAT_NCCL_LIB=$f/libnccl.so.2; break; }
    done
fi
echo "# NCCL: ${NANOCHAT_NCCL_LIB:-by the loader}; NCCL_NVLS_ENABLE=${NCCL_NVLS_ENABLE-not set}"
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-4} # the device may have few cores
launch() { # RANKS ARGUMENTS...
    local ranks=$1
    shift
    if [ -n "$SHARED" ] && [ "$ranks" -gt 1 ]; then launch_nodes "$@"; else
        timeout -k 5 100 "$NANOCHAT" launch --nproc-per-node="$ranks" "$@" </dev/null
    fi
}
launch_nodes() { # two nodes of one rank on one GPU
    local port
    port=$(free_port)
    launch_node 1 "$@" &
    launch_node 0 "$@"
    local rc=$?
    wait $! && return $rc
}
launch_node() {
    local node=$1
    shift
    NCCL_HOSTID=node$node timeout -k 5 100 "$NANOCHAT" launch --nnodes=2 --node-rank="$node" \
        --master-addr=127.0.0.1 --master-port="$port" "$@" </dev/null
}

# ---- comm-perf ---------------------------------------------------------------------------------
most=256MiB
[ "$DEVICE" = cuda ] || most=1MiB
NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,GRAPH,ENV,NET,TUNING NCCL_DEBUG_FILE=$T/nccl.%h.%p.log \
    NCCL_TOPO_DUMP_FILE=$T/nccl-topo.xml launch 2 -- comm-perf --device-type="$DEVICE" -b 4KiB -e $most \
    -f 8 -n 20 -w 5 >"$T/perf.txt" 2>"$T/perf.err"
judge "comm-perf: every sum exact" $? -eq 0
cat "$T/perf.txt" "$T/perf.err" | sed 's/^/# /'
match "comm-perf: between GPUs by NCCL" "^# $BACKEND, 2 ranks" "$T/perf.txt"
rows=$(grep -c '^  [a-z]' "$T/perf.txt")
judge "comm-perf: nothing wrong" "$rows" -gt 0 -a "$(grep -cE '^  [a-z_]+ .* 0$' "$T/perf.txt")" = "$rows"
launch 2 -- comm-perf --device-type="$DEVICE" -b 12B -e 100000012B -f 997 -n 3 -w 1 --json \
    >"$T/uneven.json" 2>"$T/uneven.err"
judge "comm-perf: segments of unequal length exact" $? -eq 0
if [ "$DEVICE" = cuda ]; then
    match "NCCL's own log: ranks" 'Init COMPLETE' <(cat "$T"/nccl.*.log)
    match "NCCL's topology" '<system' "$T/nccl-topo.xml"
fi

# ---- training ------------------------------------------------------------------------------------
TRAIN="base-train --device-type=$DEVICE --data-source=synthetic --vocab-size=4096 --depth=4 --max-seq-len=256
 --device-batch-size=4 --total-batch-size=4096 --eval-every=-1 --sample-every=-1 --save-every=0
 --core-metric-every=-1 --peak-time=0s --seed=7"
losses() { grep -h '"event":"step"' "$1" | sed 's/.*"loss":\([^,]*\),.*/\1/'; }
train() { # NAME RANKS OPTIONS...
    local name=$1 ranks=$2
    shift 2
    rm -rf "${T:?}/$name" && mkdir -p "$T/$name"
    # shellcheck disable=SC2086
    NCBENCH_TRIAL_DIR=$T/$name launch "$ranks" -- $TRAIN "$@" >"$T/$name/log" 2>&1
    local rc=$?
    [ $rc -eq 0 ] || { sed 's/^/# /' "$T/$name"/rank*.err "$T/$name/log" | tail -n 8; }
    return $rc
}
# WHAT STEPS RUN RUN, the second as NAME or NAME:RANK; that many losses in both, the same digits.
same_losses() {
    local a b
    a=$(losses "$T/$3/events.rank00000.jsonl")
    b=$(losses "$T/${4%:*}/events.rank0000$([ "${4#*:}" = "$4" ] && echo 0 || echo "${4#*:}").jsonl")
    if [ "$(grep -cE '^[0-9]' <<<"$a")" -eq "$2" ] && [ "$a" = "$b" ]; then ok "$1"; else
        not_ok "$1" "of $2 losses:" "$a" "against:" "$b"
    fi
}
distance() { # largest relative difference of the losses of two runs
    paste <(losses "$T/$1/events.rank00000.jsonl") <(losses "$T/$2/events.rank00000.jsonl") |
        awk 'NF != 2 || $1 !~ /^[0-9]/ || $2 !~ /^[0-9]/ || $2 + 0 <= 0 { bad = 1; next }
             { d = ($1 - $2) / $2; d = d < 0 ? -d : d; if (d > m) m = d }
             END { print NR && !bad ? m + 0 : "nan" }'
}
for dtype in $DTYPES; do
    train "one-$dtype" 1 --dtype="$dtype" --num-iterations=8
    judge "$dtype: one rank, accumulating" $? -eq 0
    train "two-$dtype" 2 --dtype="$dtype" --num-iterations=8
    judge "$dtype: two ranks" $? -eq 0
    train "again-$dtype" 2 --dtype="$dtype" --num-iterations=8 --grad-clip=1.0
    judge "$dtype: two ranks with the norm" $? -eq 0
    tolerance=1e-4
    [ "$dtype" = float32 ] || tolerance=1e-2
    d=$(distance "one-$dtype" "two-$dtype")
    if below "$d" $tolerance; then ok "$dtype: two ranks learn what one does ($d)"; else
        not_ok "$dtype: two ranks learn what one does" "losses differ by $d, expected below $tolerance"
    fi
done
events=$T/two-float32/events.rank00001.jsonl
match "the run says who connects it" "\"comm\":\\{\"backend\":\"$BACKEND\"" "$events"
# three gathers; reductions of head, matrices (on GPUs each of the four layers), embedding
expected=6
[ "$DEVICE" = cpu ] || expected=9
judge "all $expected collectives of a step are timed" "$(grep '"event":"comm","step":5' "$events" | grep -cE '"(reduce_scatter|all_gather)","bytes":[0-9]+,"time_us":[0-9.]+')" -eq $expected
grep '"event":"comm","step":5' "$events" | sed 's/^/# /'
grep '"event":"step","step":5' "$events" | sed 's/^/# /'
match "comm_s is a number" '"event":"step","step":5.*"comm_s":[0-9.e-]+,' "$events"
same_losses "both ranks: the same losses" 8 two-float32 two-float32:1
for i in 1 2; do
    train "repeat$i" 2 --dtype="${DTYPES##* }" --deterministic --num-iterations=8
    judge "--deterministic: run $i" $? -eq 0
done
same_losses "run to run the same bits with --deterministic" 8 repeat1 repeat2

if [ "$DEVICE" = cuda ]; then
    train graphs 2 --dtype="${DTYPES##* }" --deterministic --num-iterations=8 --cuda-graphs=on
    judge "graphs: two ranks" $? -eq 0
    match "graphs: forward and update were launched as such" \
        '"cuda_graphs":\{.*"micro_step_launches":[1-9].*"update_launches":[1-9]' "$T/graphs/events.rank00000.jsonl"
    same_losses "graphs: the same bits as without" 8 graphs repeat1
    train profile 2 --dtype="${DTYPES##* }" --deterministic --num-iterations=8 --nccl-profile
    judge "--nccl-profile: two ranks" $? -eq 0
    events=$T/profile/events.rank00001.jsonl
    match "--nccl-profile: NCCL called the plugin" '"event":"nccl_profile".*"communicators":1,' "$events"
    match "--nccl-profile: it saw collectives end" '"name":"[A-Za-z]+","calls":[1-9][0-9]*,"enqueue_us":[0-9.e+-]+,"complete":[1-9]' "$events"
    match "--nccl-profile: none lost" '"event":"nccl_profile".*"overwritten":0,"stale":0,"unknown":0' "$events"
    grep '"event":"nccl_profile"' "$events" | sed 's/^/# /'
    same_losses "--nccl-profile: the same bits as without" 8 profile repeat1
fi

# ---- losses of a peer: ranks started apart, so that no launcher ends them -----------------------------
rank() { # RANK NAME EXTRA_ENV... -- OPTIONS... ; in the background, pid in $!
    local r=$1 name=$2 env=()
    shift 2
    while [ "$1" != -- ]; do env+=("$1") && shift; done
    shift
    mkdir -p "$T/$name"
    # shellcheck disable=SC2086
    env RANK=$r WORLD_SIZE=2 LOCAL_RANK=$r LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port \
        NCBENCH_TRIAL_DIR="$T/$name" "${env[@]}" timeout -k 5 60 "$NANOCHAT" $TRAIN --dtype=float32 "$@" \
        >"$T/$name/rank$r.log" 2>&1 </dev/null &
}
wait_for_step() { # NAME: until rank 0 has made a few
    for _ in $(seq 400); do
        grep -q '"event":"step","step":5' "$T/$1/events.rank00000.jsonl" 2>/dev/null && return 0
        sleep 0.1
    done
    return 1
}
survivor() { # WHAT NAME PID REGEX
    wait "$3"
    local rc=$?
    judge "$1: exit 8" $rc -eq 8
    match "$1: says who" "$4" "$T/$2/rank0.log"
    match "$1: an event says who" '"event":"peer_lost".*"rank":1' "$T/$2/events.rank00000.jsonl"
}
lose() { # WHAT NAME SIGNAL TIMEOUT REGEX EXTRA_ENV-OF-RANK-0 … of rank 1
    local what=$1 name=$2 signal=$3 limit=$4 regex=$5
    rm -rf "${T:?}/$name"
    port=$(free_port)
    # shellcheck disable=SC2086
    rank 0 "$name" $6 -- --num-iterations=1000000 --comm-timeout="$limit"
    local first=$!
    # shellcheck disable=SC2086
    rank 1 "$name" $7 -- --num-iterations=1000000 --comm-timeout="$limit"
    local second=$! victim
    wait_for_step "$name" || { not_ok "$what: starts" "$(tail -n 3 "$T/$name/rank0.log")"; }
    read -r victim _ <"/proc/$second/task/$second/children" # below timeout(1)
    kill -"$signal" "$victim"
    survivor "$what" "$name" $first "$regex"
    kill -KILL "$victim" 2>/dev/null
    wait $second 2>/dev/null
}
if [ -z "$SHARED" ]; then
    lose "killed peer" killed KILL 60s 'lost rank 1 in .*step [0-9]+: its process [0-9]+ is dead' "" ""
    lose "stopped peer" stopped STOP 5s 'lost rank 1 in .*step [0-9]+: process [0-9]+ did not arrive within 5 s' "" ""
fi

port=$(free_port)
rank 0 absent -- --num-iterations=5 --comm-timeout=3s
wait $!
judge "a rank that never comes: exit 8" $? -eq 8
match "it is named" 'lost rank 1' "$T/absent/rank0.log"

# ---- two nodes, played by one -------------------------------------------------------------------------
if [ "$DEVICE" = cuda ]; then
    node() {
        local gpu=$1
        [ -z "$SHARED" ] || gpu="0 NCCL_HOSTID=node$1"
        echo "LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 CUDA_VISIBLE_DEVICES=$gpu"
    }
    port=$(free_port)
    # shellcheck disable=SC2046
    rank 0 nodes $(node 0) -- --num-iterations=8
    first=$!
    # shellcheck disable=SC2046
    rank 1 nodes $(node 1) -- --num-iterations=8
    second=$!
    wait $first
    judge "several nodes: rank 0" $? -eq 0
    wait $second
    judge "several nodes: rank 1" $? -eq 0
    tail -n 2 "$T/nodes/rank0.log" | sed 's/^/# /'
    d=$(distance nodes two-float32)
    if below "$d" 1e-6; then ok "several nodes learn the same ($d)"; else not_ok "several nodes learn the same" "$d"; fi
    lose "killed peer of another node" apart KILL 60s 'lost rank 1 in .*step [0-9]+' "$(node 0)" "$(node 1)"
fi

echo "# $SECONDS s"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
