# tools/quickstart around programs that only say what they are told to: every verdict is exit 0.
. tests/cli/lib.sh
unset MAKEFLAGS MAKELEVEL

tree=$T/tree
mkdir -p "$tree/tools" "$tree/bin" "$tree/session/plots"
cp tools/quickstart "$tree/tools/"
printf '#!/bin/sh\n' >"$tree/tools/install-deps"
printf 'all:\n' >"$tree/Makefile"
printf '#!/bin/sh\n' >"$tree/bin/nanochat"
echo '{"runtime":"podman","kind":"podman","outcome":"ok"}' >"$tree/session/trials.jsonl"
cat >"$tree/bin/ncbench" <<'END'
#!/bin/sh
case $1 in
run) echo session; exit "${RUN:-0}" ;;
compare | report) exit "${VERDICT:-0}" ;;
esac
END
chmod +x "$tree/tools/install-deps" "$tree/bin/nanochat" "$tree/bin/ncbench"
export QUICKSTART_DATA=$tree/Makefile NANOCHAT_BASE_DIR=$T

check 'a verdict that holds' "$tree/tools/quickstart"
VERDICT=7 check 'not comparable or untrustworthy' "$tree/tools/quickstart"
match 'the report is named to the end' '^report +session/report.html' "$OUT"
match 'and the plots' '^plots +session/plots/' "$OUT"
VERDICT=8 check_rc 8 'a session that cannot be read is an error' "$tree/tools/quickstart"
RUN=5 check_rc 5 'a session that failed is one' "$tree/tools/quickstart"
: >"$tree/session/trials.jsonl"
check_rc 5 'so is one without a good Podman trial' "$tree/tools/quickstart"
finish
