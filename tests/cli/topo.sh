# topo dump: hwloc's XML, of this machine or of a stand-in.
. "$(dirname "$0")/lib.sh"

check "to standard output" ncbench topo dump
match "an hwloc topology" '<topology version="2' "$OUT"
match "of a machine" '<object type="Machine"' "$OUT"
cp "$OUT" "$T/stdout.xml"
check "to a file" ncbench topo dump -o "$T/file.xml"
equal "the same, but for the process's own name" \
    "$(grep -c '<object' "$T/file.xml")" "$(grep -c '<object' "$T/stdout.xml")"
if command -v xmllint >/dev/null; then
    check "well-formed" xmllint --noout --nonet "$T/file.xml"
else
    skip "well-formed" "xmllint is not installed"
fi
check "it reads its own output" env HWLOC_XMLFILE="$T/file.xml" ncbench topo dump
match "and says that this is no measurement" "not of this machine" "$ERR"
check "a synthetic one" env HWLOC_SYNTHETIC="node:2 core:4 pu:2" ncbench topo dump
equal "has its PUs" "$(grep -c 'type="PU"' "$OUT")" 16
check_rc 4 "a malformed one" env HWLOC_SYNTHETIC="node:2 core" ncbench topo dump
match "is named" 'HWLOC_SYNTHETIC=node:2 core' "$ERR"
check_rc 4 "an XML that is not there" env HWLOC_XMLFILE="$T/nosuch.xml" ncbench topo dump
check_rc 2 "no word" ncbench topo
check_rc 2 "another word" ncbench topo show
check_rc 8 "a full disk" sh -c 'ncbench topo dump >/dev/full'
check_rc 8 "a directory that is not there" ncbench topo dump -o "$T/nosuch/x.xml"
finish
