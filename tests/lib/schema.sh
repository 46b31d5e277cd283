# SPDX-License-Identifier: BSD-2-Clause
# What kvcli prints with --json held against the schema of kvcli(1); behind kit.sh.

# The schema: from the table of the manual, "COMMAND member kind" a line.
sed -n '/^\.\\" schema$/,/^\.El$/s/^\.It Cm \([a-z ]*[a-z]\) Ta Li \([][a-z_0-9.]*\) Ta \(.*\)$/\1|\2|\3/p' \
	"$KVD_SOURCE/doc/kvcli.1" >"$tmp/schema"
reached "members in the manual's schema" "$(wc -l <"$tmp/schema")" 30

# keeps NAME WORD...: what the last expected command printed is as the schema of NAME says.
keeps() {
	python3 - "$1" "$tmp/schema" "$tmp/out" <<'END' || fail "$1: $(cat "$tmp/out")"
import json, sys

name, schema, out = sys.argv[1:]
KINDS = {"string": str, "number": (int, float), "true or false": bool}
wanted = {}
for line in open(schema):
    command, member, kind = line.rstrip("\n").split("|")
    if command == name:
        optional = kind.endswith(", may be missing")
        kind = kind.removesuffix(", may be missing")
        null = kind.endswith(" or null")
        wanted[member] = (KINDS[kind.removesuffix(" or null")], null, optional)
assert wanted, f"the manual has no schema of {name}"
seen = set()


def look(value, path):
    if isinstance(value, dict):
        for member, inner in value.items():
            look(inner, f"{path}.{member}" if path else member)
        return
    if isinstance(value, list):
        for inner in value:
            look(inner, path + "[]")
        return
    path = path.replace("_base64", "")
    assert path in wanted, f"{path} is not in the manual"
    kind, null, _ = wanted[path]
    assert (value is None and null) or (isinstance(value, kind) and (kind is bool or type(value) is not bool)), f"{path} is {value!r}"
    seen.add(path)


lines = open(out, encoding="utf-8").read().splitlines()
assert lines, "nothing was printed"
for line in lines:
    seen.clear()
    look(json.loads(line), "")
    missing = {m for m, (_, _, optional) in wanted.items() if not optional} - seen
    assert not missing, f"without {missing}: {line}"
END
}
