# topo: show, dump, diff; machines of every odd kind, by synthetic descriptions, XML and fixture trees.
. "$(dirname "$0")/lib.sh"
export LANG=C.UTF-8
unset LC_ALL LC_CTYPE HWLOC_XMLFILE HWLOC_SYNTHETIC HWLOC_FSROOT

json() { jq -c "$1" "$OUT"; }
# Is hwloc in the program? Its own word is what is tested.
if readelf -d "$(command -v ncbench)" | grep -q libhwloc; then built_with=hwloc; else built_with=affinity; fi
have_jq=$(command -v jq || true)
[ -n "$have_jq" ] || { echo "jq is not installed"; exit 77; }

check_rc 2 "no word" ncbench topo
check_rc 2 "another word" ncbench topo shew
check_rc 2 "diff of one" ncbench topo diff x.xml
check "show" ncbench topo show --json
equal "tells where it knows it from" "$(json '.source, .this_machine' | tr '\n' ' ')" \
    "\"$built_with\" true "
n=$(nproc)
equal "and the usable PUs" "$(json '[.n_usable_pus, (.usable_pus | length), .default_threads]')" "[$n,$n,$n]"
last=$(jq -r '.usable_pus[-1]' "$OUT")
check "as text" ncbench topo show
match "too" "^usable: $n of " "$OUT"

# ---- a part of the machine by affinity (ompi#7157) -------------------------------------------------
check "under taskset" taskset -c "$last" ncbench topo show --json
equal "the usable PU is the one" "$(json '[.usable_pus, .n_usable_pus, .default_threads]')" "[[$last],1,1]"
if [ $built_with = hwloc ]; then
    equal "online ones are told apart" "$(json '.n_online_pus')" "$(nproc --all)"
fi
cat >"$T/four.yaml" <<'Y'
version: 1
name: four
baseline: bare
workload: {exec: [/bin/true]}
runtimes: [{name: bare, kind: bare}]
launch: {threads_per_rank: 4, bind: cores}
Y
check_rc 4 "four pinned threads on it" taskset -c "$last" ncbench check "$T/four.yaml"
match "are too many" "4 threads, 1 usable PU \\($last\\)" "$ERR"
check "unpinned ones" taskset -c "$last" ncbench check -D launch.bind=none "$T/four.yaml"
match "only share it" "4 threads, 1 usable PU \\($last\\): they share PUs" "$ERR"

# ---- plugins of hwloc, which a host has and an image has not ---------------------------------------
check "hwloc tells of its plugins" env -u HWLOC_PLUGINS_PATH HWLOC_PLUGINS_VERBOSE=1 ncbench topo show
no_match "none is looked for" 'Starting plugin dlforeach in [^[:space:]]' "$ERR"
if grep -q 'Starting plugin dlforeach' "$ERR"; then
    check "a path that the user gives" env HWLOC_PLUGINS_PATH="$T" HWLOC_PLUGINS_VERBOSE=1 ncbench topo show
    match "is the user's" "Starting plugin dlforeach in $T" "$ERR"
else
    skip "a path for plugins that the user gives" "this hwloc has no plugins"
fi

# ---- no CPU topology in /sys (gvisor#10484) --------------------------------------------------------
mkdir "$T/empty"
check "a machine without /sys" env HWLOC_FSROOT="$T/empty" ncbench topo show --json
equal "is known by affinity" "$(json '[.source, .n_usable_pus, .numa, .caches, .cores]')" \
    "[\"affinity\",$n,null,null,null]"
match "each null has a why" '"numa_why": "[a-z/]' "$OUT"
equal "one warning" "$(grep -c . "$ERR")" 1
check "as text" env HWLOC_FSROOT="$T/empty" ncbench topo show --ranks 1 --bind numa
match "ranks go to cores, with the reason" '^note: NUMA nodes are not known' "$OUT"
check_rc 4 "there is nothing to dump" env HWLOC_FSROOT="$T/empty" ncbench topo dump

if [ $built_with != hwloc ]; then
    equal "a build without hwloc has no version of it" "$(ncbench topo show --json 2>/dev/null | jq .hwloc_api)" null
    check_rc 4 "a build without hwloc reads no descriptions" ncbench topo show "node:2 core:4 pu:2"
    match "and says so" 'built without hwloc' "$ERR"
    check_rc 4 "nor variables" env HWLOC_SYNTHETIC="node:2 core:4 pu:2" ncbench topo show
    check_rc 4 "nor compares" ncbench topo diff tests/fixtures/topo/two-gpus.xml tests/fixtures/topo/two-gpus.xml
    check "doctor tells" ncbench doctor --runtime bare
    match "it too" '^WARN +hwloc +not in this build' "$OUT"
    finish
fi

# ---- CPU 0 offline, ids with holes (hwloc#450) -----------------------------------------------------
root=$PWD/tests/fixtures/fsroot/cpu0-offline
check "CPU 0 offline" env HWLOC_FSROOT="$root" NCBENCH_FSROOT="$root" ncbench topo show --json --ranks 4
equal "its PUs keep their numbers" "$(json .usable_pus)" "[1,2,3,6]"
equal "ranks use them" "$(json '[.ranks[].pus]')" "[[1],[2],[3],[6]]"
check_rc 4 "a fifth rank" env HWLOC_FSROOT="$root" ncbench topo show --ranks 5
match "has no place" 'cannot bind 5 ranks to cores: 4 usable PUs \(1-3,6\)' "$ERR"

# ---- nodes without memory, malformed descriptions (hwloc#438) --------------------------------------
check "nodes without memory" ncbench topo show 'pack:2 [numa(memory=0)] core:2 pu:2' --ranks 2 --bind numa
match "are drawn" 'NUMA node 1: no memory$' "$OUT"
match "and skipped" '^note: no NUMA node has memory and usable PUs: bound to cores' "$OUT"
check "one of two without memory" ncbench topo show tests/fixtures/topo/half-memory.xml --ranks 2 --bind numa
equal "all ranks go to the other" "$(grep -c '^rank [01] .*PUs 4-7  (NUMA node 1)' "$OUT")" 2
for bad in 'node:2 core' 'node:2 core:' 'pu:0' '[' 'node:2 core:4 pu:2 x'; do
    check_rc 4 "malformed: $bad" ncbench topo show "$bad"
    match "is named" "$(printf '%s' "$bad" | sed 's/[[]/\\[/g')" "$ERR"
    check_rc 4 "also in the environment" env HWLOC_SYNTHETIC="$bad" ncbench topo dump
    match "with the variable" 'HWLOC_SYNTHETIC=' "$ERR"
done
head -c 600 tests/fixtures/topo/two-gpus.xml >"$T/torn.xml"
echo '<topology version="2.0"><object type="Machine"/></topology>' >"$T/poor.xml"
for bad in "$T/torn.xml" "$T/poor.xml" /dev/null "$T" "$T/nosuch.xml" Makefile; do
    check_rc 4 "no topology: ${bad#"$T"/}" ncbench topo show "$bad"
    check_rc 4 "nor to compare" ncbench topo diff "$bad" tests/fixtures/topo/two-gpus.xml
done

# ---- trees -----------------------------------------------------------------------------------------
check "two packages with GPUs" ncbench topo show tests/fixtures/topo/two-gpus.xml --ranks 3 --bind gpu-local
match "head" '2 packages, 8 cores, 8 PUs, 2 NUMA nodes, 128.0 GiB$' "$OUT"
match "branches" '^├─ Package 0' "$OUT"
match "cores and PUs" 'core 4: 4   core 5: 5' "$OUT"
match "a GPU" '0000:1b:00.0  GPU 10de:2335 \(card1\)' "$OUT"
match "a console is none" '0000:02:00.0  display 1a03:2000' "$OUT"
match "InfiniBand" 'InfiniBand 15b3:1021 \(mlx5_0,ib0\)' "$OUT"
match "rank 0 goes near the first GPU" '^rank 0 +PUs 4-7  \(GPU 0000:1b:00.0\)$' "$OUT"
match "ranks with one neighbourhood share it" '^rank 2 +PUs 2-3  \(GPU 0000:5b:00.0\)$' "$OUT"
check "GPUs that are chosen" env CUDA_VISIBLE_DEVICES=1 ncbench topo show tests/fixtures/topo/two-gpus.xml \
    --ranks 1 --bind gpu-local
match "are the ranks'" '^rank 0 +PUs 0-3  \(GPU 0000:3b:00.0\)$' "$OUT"
check "no GPU" ncbench topo show 'node:2 core:2 pu:1' --ranks 2 --bind gpu-local
match "falls back with a word" '^note: no GPU is to be seen' "$OUT"
check "without UTF-8" env LANG=C ncbench topo show tests/fixtures/topo/two-gpus.xml
no_match "plain characters" '├|│|└' "$OUT"
match "draw it" '^`- Package 1' "$OUT"
check "a big one" ncbench topo show 'pack:8 core:128 pu:2' --ranks 2 --bind cores
match "cores are ranges" 'cores 0-127: PUs 0-255$' "$OUT"
match "PUs beyond 1024" '^rank 1 +PUs 1024-2047$' "$OUT"
check "and not so with --all" ncbench topo show 'pack:1 core:32 pu:2' --all
match "each by itself" 'core 31: 62 63' "$OUT"
if [ "$n" -gt 1 ]; then
    taskset -c "$last" ncbench topo show >"$OUT" 2>"$ERR"
    match "what is not ours is marked" '\([0-9]+\)' "$OUT"
    match "and the mark explained" "^\\(n\\) not in this process's affinity" "$OUT"
fi
sed 's/allowed_cpuset="0x000000ff"/allowed_cpuset="0x0000000f"/' tests/fixtures/topo/two-gpus.xml >"$T/half.xml"
check "disallowed PUs" ncbench topo show "$T/half.xml"
match "are crossed out" 'core 4: x4' "$OUT"
match "with a word" 'xn not allowed by the cgroup' "$OUT"

# ---- dump ------------------------------------------------------------------------------------------
check "dump" ncbench topo dump
match "an hwloc topology" '<topology version="2' "$OUT"
cp "$OUT" "$T/stdout.xml"
check "to a file" ncbench topo dump -o "$T/file.xml"
if command -v xmllint >/dev/null; then
    check "well-formed" xmllint --noout --nonet "$T/file.xml"
else
    skip "well-formed" "xmllint is not installed"
fi
check "it reads its own output" env HWLOC_XMLFILE="$T/file.xml" ncbench topo dump
match "and says that this is no measurement" "not of this machine" "$ERR"
check "a synthetic one" env HWLOC_SYNTHETIC="node:2 core:4 pu:2" ncbench topo dump
equal "has its PUs" "$(grep -c 'type="PU"' "$OUT")" 16
check_rc 8 "a full disk" sh -c 'ncbench topo dump >/dev/full'
check_rc 8 "of show too" sh -c 'ncbench topo show >/dev/full'
check_rc 8 "a directory that is not there" ncbench topo dump -o "$T/nosuch/x.xml"

# ---- diff ------------------------------------------------------------------------------------------
two=tests/fixtures/topo/two-gpus.xml
check "this machine twice" ncbench topo diff "$T/stdout.xml" "$T/file.xml"
match "is the same" 'are the same$' "$OUT"
sed -e 's/<topology version[^>]*>/&/' -e 's|<info name="Backend" value="Synthetic"/>|&<info name="HostName" value="c0ffee"/><info name="DMIProductSerial" value="1"/><info name="ProcessName" value="nanochat"/>|' \
    "$two" >"$T/named.xml"
check "names do not count" ncbench topo diff "$two" "$T/named.xml"
check_rc 7 "allowed PUs do" ncbench topo diff "$two" "$T/half.xml"
match "as lists" 'allowed PUs: 0-7 in .*two-gpus.xml, 0-3 in .*half.xml' "$OUT"
sed 's/local_memory="68719476736"/local_memory="34359738368"/' "$two" >"$T/memory.xml"
check_rc 7 "memory does" ncbench topo diff --json "$two" "$T/memory.xml"
equal "by its node" "$(json '[.verdict, .differences[0].what]')" '["differs","NUMANode 0: size"]'
sed 's/local_memory="68719476736"/local_memory="68719000000"/' "$two" >"$T/reserved.xml"
check "but not by less than 1 %" ncbench topo diff "$two" "$T/reserved.xml"
sed '/"card3"/d; s/name="eth0"/name="eno1"/' "$two" >"$T/hidden.xml"
check_rc 7 "devices do" ncbench topo diff --json "$two" "$T/hidden.xml"
equal "each of them" "$(json '[.verdict, (.differences | map(.what) | sort)]')" \
    '["differs",["device 0000:5b:00.0","device 0000:6a:00.0"]]'
HWLOC_SYNTHETIC="node:2 core:4 pu:2" ncbench topo dump >"$T/a.xml" 2>/dev/null
HWLOC_SYNTHETIC="node:4 core:2 pu:2" ncbench topo dump >"$T/b.xml" 2>/dev/null
check_rc 7 "another structure" ncbench topo diff "$T/a.xml" "$T/b.xml"
match "is told, not an error" 'have different structures: look at the two trees' "$OUT"
match "with what each is" 'structure: 8 cores, 16 PUs, 2 NUMA nodes' "$OUT"
a=$(ncbench topo show --json "$two" | jq -r .fingerprint)
equal "names, allowed sets and memory are no part of the fingerprint" \
    "$(for f in named half reserved memory; do ncbench topo show --json "$T/$f.xml" | jq -r .fingerprint; done | sort -u)" "$a"
for f in a b; do
    b=$(ncbench topo show --json "$T/$f.xml" | jq -r .fingerprint)
    if [ "$a" != "$b" ] && [ "${#b}" -eq 64 ]; then ok "another machine has another: $f"; else not_ok "another fingerprint: $f"; fi
done

# ---- in a session ----------------------------------------------------------------------------------
if [ -n "${TEST_NO_SESSION:-}" ]; then
    skip "topologies in a session" "$TEST_NO_SESSION"
    finish
fi
cat >"$T/s.yaml" <<'Y'
version: 1
name: s
baseline: bare
workload:
  command: base-train
  model: {depth: 1, max_seq_len: 32, vocab_size: 256}
  train: {device_batch_size: 1, total_batch_size: 32, num_iterations: 4, eval_every: -1, sample_every: -1, save_every: 0}
  data: {source: synthetic}
  args: [--peak-time=0s]
runtimes:
  - {name: bare, kind: bare}
  - {name: liar, kind: command, prefix: [env, "HWLOC_SYNTHETIC=node:2 core:4 pu:2", "{argv}"]}
  - {name: env, kind: command, prefix: [env, "{argv}"]}
launch: {bind: none}
sampling: {looks: [2], order: sequential, discard_first_block: false, stop: never, warmup: {steps: 1, detect: false}}
limits: {disk_free: 1MiB}
output: {plots: [], report: []}
Y
check "a session" ncbench run --progress none --out "$T/r" "$T/s.yaml"
S=$(cat "$OUT")
of() { jq -c "select(.trial == \"$1\") | $2" "$S/trials.jsonl"; }
equal "the baseline's record" "$(of c00.b01.bare '.topology | [(.fingerprint | length), .vs_host, .vs_baseline]')" \
    '[64,"same",null]'
equal "another arm's" "$(of c00.b01.env '.topology | [.xml, .vs_host, .vs_baseline, .differences]')" \
    "[\"topo/env/$(hostname).xml\",\"same\",\"same\",[]]"
equal "a rank that sees another machine exports nothing" \
    "$(of c00.b01.liar '[.topology, .topology_why]')" '[null,"HWLOC_SYNTHETIC stands for another machine"]'
equal "one file a runtime is kept" "$(cd "$S" && find . -name '*.xml' | sort)" \
    "$(printf './topo/%s.xml\n' "$(hostname)" "bare/$(hostname)" "env/$(hostname)" | sort)"
check "diff by name" ncbench topo diff --session "$T/r/s" bare env
check "and with the host" ncbench topo diff --session "$S" host env
check_rc 8 "a runtime without one" ncbench topo diff --session "$S" bare liar
# ---- a binding that silently fails -----------------------------------------------------------------
cat >"$T/liar.c" <<'C'
int sched_setaffinity(int pid, unsigned long size, const void *set)
{
    (void)pid, (void)size, (void)set;
    return 0;
}
C
if [ "$n" -gt 1 ] && [ "${CONFIG:-release}" = release ] && cc -shared -fPIC -o "$T/liar.so" "$T/liar.c" 2>/dev/null; then
    sed -e 's/bind: none/bind: cores, ranks_per_node: 2/' -e 's/total_batch_size: 32/total_batch_size: 64/' \
        -e "s|\"HWLOC_SYNTHETIC=[^\"]*\"|\"LD_PRELOAD=$T/liar.so\"|" "$T/s.yaml" >"$T/liar.yaml"
    check "a session in which one arm's binding fails without a word" \
        ncbench run --progress none --out "$T/r3" "$T/liar.yaml"
    S=$(cat "$OUT")
    equal "the others' holds" "$(of c00.b01.env '[.bind[].held]')" '[true,true]'
    equal "its does not" "$(of c00.b01.liar '[(.bind[].held), (.bind[].requested != .bind[].effective)] | unique')" '[false,true]'
    match "the trial is flagged" '"bind_not_held: rank 0 was to run on 0' "$S/trials.jsonl"
    check_rc 7 "compare" ncbench compare "$S"
    match "finds it" 'liar +CPU binding  ' "$OUT"
    match "and names it" 'liar +binding held as asked for +yes +no ' "$OUT"
else
    skip "a binding that silently fails" "one PU, a sanitizer, or no compiler"
fi
S=
check "none when not asked for" ncbench run --progress none --out "$T/r2" -D measure.topology=false "$T/s.yaml"
equal "with the reason" "$(jq -c '[.topology, .topology_why]' "$(cat "$OUT")/trials.jsonl" | sort -u)" \
    '[null,"measure.topology is false"]'
finish
