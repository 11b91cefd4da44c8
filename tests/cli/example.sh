# results/example: what the README shows, made by tools/update-example without traces of a machine.
# shellcheck source=tests/cli/lib.sh
. tests/cli/lib.sh

check "the example can be judged" ncbench compare results/example
match "podman's verdict is in its report" 'podman.*(equivalent|inconclusive|slower|faster)' results/example/report.md
run ncbench export results/example
match "its records can be read" '^example,c01\.b06\.podman,.*,ok,step_time_s,0\.' "$OUT"

if ! command -v jq >/dev/null; then
    ok "tools/update-example # SKIP jq not found"
    finish
fi

# A session as another machine would leave it.
tree=$T/tree session=$T/tree/results/quickstart/s1
mkdir -p "$tree/tools" "$session"
cp tools/update-example "$tree/tools/"
cp -r results/example/. "$session/"
rm "$session/README.md"
sed -i -E 's#/src/ncbench([/"])#/opt/my+src/ncbench\1#g; s#/home/user([/"])#/home/alice\1#g; s#"/session"#"/user.slice/s-77.scope"#g
    s#"node1"#"big-iron"#g; s# on node1\.# on big-iron.#; s#>node1<#>big-iron<#g; s#/node1\.xml#/big-iron.xml#g
    s#"00000000-0000-0000-0000-000000000000"#"c0ffee00-1111-2222-3333-444444444444"#' \
    "$session"/*.json* "$session"/report.* "$session"/topo/*.xml "$session"/topo/*/*.xml
for file in "$session"/topo/node1.xml "$session"/topo/*/node1.xml; do mv "$file" "${file%node1.xml}big-iron.xml"; done
traces='my\+src|alice|s-77\.scope|big-iron|c0ffee00'
run grep -rEl "$traces" "$session"
match "the session tells where it ran" 'trials\.jsonl' "$OUT"

check "update-example" env HOME=/home/alice "$tree/tools/update-example"
run grep -rEl "$traces" "$tree/results/example"
equal "no trace of that machine is left" "$(cat "$OUT")" ""
run diff -r "$tree/results/example" results/example
equal "and the rest is as it was" "$(cat "$OUT")" ""
check "what is left can be judged" ncbench compare "$tree/results/example"
finish
