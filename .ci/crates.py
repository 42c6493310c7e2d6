#!/usr/bin/env python3
"""What the program is made of, from Cargo.lock to the binary, held against what is written down.

    .ci/crates.py BUILT [--write]

BUILT is the folder of a release build (`target/release`) of packaging/build. Looks that

- supply-chain/tollgate.cdx.json (CycloneDX) names the crates of the program, and no others,
- the list within BUILT/tollgate (cargo-auditable) is the same,
- each crate has an audit of its version in supply-chain/audits.toml,
- the table in docs/supply-chain.md has their lines and their `unsafe`.

`--write` writes the first and the last anew.
"""

import json
import re
import struct
import subprocess
import sys
import tomllib
import zlib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BILL = ROOT / "supply-chain/tollgate.cdx.json"
PAGE = ROOT / "docs/supply-chain.md"
AUDITS = ROOT / "supply-chain/audits.toml"
TARGET = "x86_64-unknown-linux-gnu"

# Comments, and what could be taken for one; lifetimes are no characters.
PIECES = re.compile(
    r'//[^\n]*|/\*.*?\*/|b?r(#*)".*?"\1|b?"(?:\\.|[^"\\])*"|b?\'(?:\\[^\n]*?|[^\'\\\n])\'',
    re.S,
)


def metadata():
    """The packages of the program by their ids, and what each needs of the others."""
    command = ["cargo", "metadata", "--format-version=1", "--locked", "--offline"]
    said = json.loads(
        subprocess.check_output([*command, f"--filter-platform={TARGET}"], cwd=ROOT)
    )
    packages = {package["id"]: package for package in said["packages"]}
    # Without what only tests and benches need.
    needs = {
        node["id"]: sorted(
            dep["pkg"]
            for dep in node["deps"]
            if any(kind["kind"] is None for kind in dep["dep_kinds"])
        )
        for node in said["resolve"]["nodes"]
    }
    found, waiting = {}, [said["resolve"]["root"]]
    while waiting:
        one = waiting.pop()
        if one not in found:
            found[one] = needs[one]
            waiting += needs[one]
    return said["resolve"]["root"], packages, found


def runs(root, packages, needs):
    """Those that are in the program: macros and what these need are there while it is built."""
    found, waiting = set(), [root]
    while waiting:
        one = waiting.pop()
        is_macro = any("proc-macro" in target["kind"] for target in packages[one]["targets"])
        if one not in found and not is_macro:
            found.add(one)
            waiting += needs[one]
    return found


def bill(root, packages, needs):
    """As CycloneDX 1.5 has it. Nothing in it depends on when or where it was made."""
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text())
    sums = {(one["name"], one["version"]): one.get("checksum") for one in lock["package"]}
    in_program = runs(root, packages, needs)

    def reference(one):
        return f"pkg:cargo/{packages[one]['name']}@{packages[one]['version']}"

    def component(one):
        package = packages[one]
        row = {
            "type": "application" if one == root else "library",
            "bom-ref": reference(one),
            "name": package["name"],
            "version": package["version"],
            "description": " ".join((package["description"] or "").split()),
            "scope": "required" if one in in_program else "excluded",
            "licenses": [{"expression": package["license"].replace("/", " OR ")}],
            "purl": reference(one),
        }
        checksum = sums[package["name"], package["version"]]
        if checksum:
            row["hashes"] = [{"alg": "SHA-256", "content": checksum}]
        if package["repository"]:
            row["externalReferences"] = [{"type": "vcs", "url": package["repository"]}]
        return row

    rest = sorted((one for one in needs if one != root), key=reference)
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": component(root)},
        "components": [component(one) for one in rest],
        "dependencies": [
            {"ref": reference(one), "dependsOn": [reference(need) for need in needs[one]]}
            for one in [root, *rest]
        ],
    }


def within(program):
    """The list that cargo-auditable put into a program."""
    data = program.read_bytes()
    assert data[:5] == b"\x7fELF\x02", f"{program} is no 64-bit ELF file"
    (sections,) = struct.unpack_from("<Q", data, 0x28)
    size, count, names = struct.unpack_from("<HHH", data, 0x3A)
    header = lambda index: struct.unpack_from("<IIQQQQ", data, sections + index * size)
    names_at = header(names)[4]
    for index in range(count):
        name, _, _, _, at, length = header(index)
        if data[names_at + name :].startswith(b".dep-v0\0"):
            return json.loads(zlib.decompress(data[at : at + length]))
    sys.exit(f"{program} has no list: it was not built by packaging/build")


def code(path):
    """A file's text without comments, strings, and the tests at its end."""
    blank = lambda piece: "\n" * piece[0].count("\n") if piece[0].startswith("/") else '""'
    text = PIECES.sub(blank, path.read_text())
    return re.split(r"#\[cfg\(test\)\]\s*mod \w+ \{", text)[0]


def measure(package, built):
    """Lines of code and `unsafe` in the files that the compiler read for this build; lines in all."""
    lines = lambda text: sum(1 for line in text.splitlines() if line.strip())
    folder = Path(package["manifest_path"]).parent
    source = folder / "src"
    stem = next(
        target["name"].replace("-", "_")
        for target in package["targets"]
        if {"lib", "proc-macro"} & set(target["kind"])
    )
    files = set()
    for notes in built.glob(f"deps/{stem}-*.d"):
        for word in re.findall(r"(?:\\ |\S)+", notes.read_text()):
            path = Path(word.replace("\\ ", " ").rstrip(":"))
            inner = str(path).partition(f"/{package['name']}-{package['version']}/")[2]
            if inner.endswith(".rs"):
                files.add(folder / inner)
    assert files, f"{built} has no notes of what {stem} was compiled from"
    texts = [code(path) for path in files]
    return {
        "all": sum(lines(code(path)) for path in source.rglob("*.rs")),
        "here": sum(lines(text) for text in texts),
        "unsafe": sum(len(re.findall(r"\bunsafe\b(?!_)", text)) for text in texts),
        "script": (folder / "build.rs").exists(),
    }


def table(root, packages, needs, built):
    """For the page, in Markdown."""
    audits = tomllib.loads(AUDITS.read_text())["audits"]
    in_program = runs(root, packages, needs)
    rows = ["| crate | version | lines | of these compiled | `unsafe` in these | build script | audit |"]
    rows += ["|---|---|---|---|---|---|---|"]
    sums = {"here": 0, "unsafe": 0}
    order = lambda one: (one not in in_program, packages[one]["name"])
    for one in sorted((one for one in needs if one != root), key=order):
        package = packages[one]
        version = package["version"]
        audit = [row for row in audits.get(package["name"], []) if row["version"] == version]
        if not audit:
            sys.exit(f"{AUDITS} says nothing of {package['name']} {version}")
        found = measure(package, built)
        name = package["name"] if one in in_program else f"{package['name']} (while it is built)"
        if one in in_program:
            sums = {key: sums[key] + found[key] for key in sums}
        cells = [name, version, f"{found['all']:,}", f"{found['here']:,}", f"{found['unsafe']:,}"]
        cells += ["yes" if found["script"] else "no", audit[0]["criteria"]]
        rows.append(f"| {' | '.join(cells)} |")
    rows += ["", f"In the program: {sums['here']:,} lines, and {sums['unsafe']:,} times `unsafe`."]
    return "\n".join(rows)


def hold(path, text, writes):
    if writes:
        path.write_text(text)
    elif path.read_text() != text:
        sys.exit(f"{path.relative_to(ROOT)} is not what there is: .ci/crates.py BUILT --write")


def main():
    built, writes = Path(sys.argv[1]), "--write" in sys.argv
    root, packages, needs = metadata()
    listed = bill(root, packages, needs)
    hold(BILL, json.dumps(listed, indent=1, ensure_ascii=False) + "\n", writes)

    names = lambda rows: {(row["name"], row["version"]) for row in rows}
    inside = within(built / "tollgate")["packages"]
    ours = [listed["metadata"]["component"], *listed["components"]]
    if names(inside) != names(ours):
        sys.exit(f"within the program: {names(inside) ^ names(ours)} is there or here alone")

    front, mark, rest = PAGE.read_text().partition("<!-- crates -->\n")
    _, end, back = rest.partition("\n<!-- /crates -->")
    assert mark and end, f"{PAGE} has no place for the table"
    rows = table(root, packages, needs, built)
    hold(PAGE, f"{front}{mark}{rows}{end}{back}", writes)
    print(f"{len(inside)} crates, ours among them: in the program, in the bill, audited, measured")


if __name__ == "__main__":
    main()
