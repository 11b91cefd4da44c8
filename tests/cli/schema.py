"""Validate JSON or JSON Lines against one of our schemas: schema.py SCHEMA FILE…

Only what results/schemas/ uses: type, required, properties, items, enum, pattern, minimum. A key of a
schema that is not known here is an error, so that no rule is silently not checked."""
import json
import re
import sys

KNOWN = {"$schema", "title", "description", "type", "required", "properties", "items", "enum", "pattern", "minimum"}
TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}


def is_type(value, name):
    if name == "number":
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if name == "integer":
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, TYPES[name])


def check(value, schema, path, faults):
    if set(schema) - KNOWN:
        faults.append(f"{path}: schema keys {set(schema) - KNOWN} are not known")
    types = schema.get("type", [])
    types = [types] if isinstance(types, str) else types
    if types and not any(is_type(value, t) for t in types):
        faults.append(f"{path}: {value!r:.60} is no {'/'.join(types)}")
        return
    if "enum" in schema and value not in schema["enum"]:
        faults.append(f"{path}: {value!r:.60} is none of {schema['enum']}")
    if isinstance(value, str) and not re.search(schema.get("pattern", ""), value):
        faults.append(f"{path}: {value!r:.60} does not match {schema['pattern']}")
    if is_type(value, "number") and value < schema.get("minimum", float("-inf")):
        faults.append(f"{path}: {value} is below {schema['minimum']}")
    if isinstance(value, dict):
        faults += [f"{path}.{k}: missing" for k in schema.get("required", []) if k not in value]
        for key, part in value.items():
            check(part, schema.get("properties", {}).get(key, {}), f"{path}.{key}", faults)
    if isinstance(value, list):
        for i, part in enumerate(value):
            check(part, schema.get("items", {}), f"{path}[{i}]", faults)


def main():
    schema = json.load(open(sys.argv[1], encoding="utf-8"))
    faults, checked = [], 0
    for name in sys.argv[2:]:
        text = open(name, encoding="utf-8").read()
        for n, part in enumerate(text.splitlines() if name.endswith(".jsonl") else [text], 1):
            check(json.loads(part), schema, f"{name}:{n}", faults)
            checked += 1
    print("\n".join(faults), file=sys.stderr)
    return 1 if faults or not checked else 0


sys.exit(main())
