"""docs/formats.md: its tables, a section a schema or a shared object, and objects held to them."""
# SPDX-License-Identifier: Apache-2.0
import re

failures = []


def fail(text):
    if text not in failures:
        failures.append(text)


class Row:
    def __init__(self, kind, when):
        self.kind, self.when, self.seen = kind, when, False


def read_document(text):
    """{section: {path: Row}}, {section: [example]}, [header of a CSV]"""
    tables, examples, headers, section, fence = {}, {}, [], "", None
    for line in text.splitlines():
        heading = re.match(r"##+ (.*)", line)
        if line.startswith("```"):
            if fence == "json":
                examples.setdefault(section, []).append("\n".join(block))
            elif fence == "csv":
                headers += block
            fence, block = (None if fence else line[3:]), []
        elif fence:
            block.append(line)
        elif heading:
            section = heading[1]
        elif line.startswith("| `"):
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            if len(cells) == 5:  # key, type, unit, when, meaning
                tables.setdefault(section, {})[cells[0].strip("`")] = Row(cells[1], cells[3])
    return tables, examples, headers


PLAIN = {
    "text": lambda v: isinstance(v, str),
    "boolean": lambda v: isinstance(v, bool),
    "integer": lambda v: isinstance(v, int) and not isinstance(v, bool),
    "number": lambda v: isinstance(v, (int, float)) and not isinstance(v, bool),
    "object": lambda v: isinstance(v, dict),
    "any": lambda v: True,
}


class Checker:
    def __init__(self, tables):
        self.tables = tables

    def value(self, value, kind, section, path, table):
        """`value` is of `kind`; objects are held to the rows below `path` of the table."""
        if " or " in kind:
            kinds = kind.split(" or ")
            if value is None and "null" in kinds:
                return
            kinds = [k for k in kinds if k != "null"]
            if len(kinds) > 1:
                if not any(PLAIN[k](value) for k in kinds):
                    fail(f"{section}: {path}: {value!r} is not {kind}")
                return
            kind = kinds[0]
        if kind.startswith("list of "):
            if not isinstance(value, list):
                return fail(f"{section}: {path}: {value!r} is not a list")
            of = kind[len("list of "):]
            of = of if of.startswith("`") else of.rstrip("s")
            for item in value:
                self.value(item, of, section, path + "[]", table)
            return
        if kind.startswith("`"):
            named = kind.strip("`")
            if named not in self.tables:
                return fail(f"{section}: {path}: no section {named}")
            beside = {p for p in table if p.startswith(path + ".")}  # keys added to a shared object
            self.object(
                value, named, "", self.tables[named], {p[len(path) + 1 :]: table[p] for p in beside}
            )
        elif not PLAIN[kind](value):
            fail(f"{section}: {path}: {value!r} is not {kind}")
        elif kind == "object":
            self.object(value, section, path, table)

    def object(self, value, section, path, table, added=None):
        if not isinstance(value, dict):
            return fail(f"{section}: {path}: {value!r} is not an object")
        prefix = path + "." if path else ""
        rows = {p[len(prefix):]: row for p, row in table.items()
                if p.startswith(prefix) and re.fullmatch(r"[^.\[\]]+", p[len(prefix):])}
        rows.update(added or {})
        for key, inner in value.items():
            name = key if key in rows else "*"
            if name not in rows:
                fail(f"{section}: {prefix}{key} is written and not documented")
                continue
            rows[name].seen = True
            self.value(inner, rows[name].kind, section, prefix + name, table)
        for key, row in rows.items():
            if row.when == "always" and key != "*" and key not in value:
                fail(f"{section}: {prefix}{key} is documented as always there and is not")

    def document(self, value):
        schema = value.get("schema") or value["weir"]["schema"]
        if schema not in self.tables:
            return fail(f"{schema} has no section")
        self.object(value, schema, "", self.tables[schema])
