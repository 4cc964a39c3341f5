"""check_errors.py ROOT: docs/errors.md and the numbers in the sources agree, in both directions.

A number is used where a Diagnostic is made: `.exit = ExitCode::kIo, .number = 3` (exit 2 when none is named), a table
row `{ExitCode::kIo, 3, ...}`, the recipe's `fault(3, ...)` and `number = 3`, the program's `defect(1, ...)`, or where
a source names it whole.
"""
import pathlib
import re
import sys

EXITS = {"kContract": 1, "kUser": 2, "kIo": 3, "kPeer": 4, "kVerdict": 5, "kData": 6, "kNumeric": 7, "kMemory": 8}


def numbers_in(text):
    """(exit, number) pairs that a source makes."""
    found = {(int(e), int(n)) for e, n in re.findall(r"\bSX(\d+)-(\d{3})\b", text)}
    found |= {(EXITS[e], int(n)) for e, n in re.findall(r"\{ExitCode::(k\w+),\s*(\d+)\s*,", text) if e in EXITS}
    found |= {(2, int(n)) for n in re.findall(r"\bfault\((\d+),", text)}
    found |= {(1, int(n)) for n in re.findall(r"\bdefect\((\d+),", text)}
    for match in re.finditer(r"(?:\.|\bone\.)number = (\d+)\b", text):
        before = text[max(0, match.start() - 120):match.start()]
        before = before[before.rfind("{") + 1:]
        named = re.findall(r"\.exit = ExitCode::(k\w+)", before)
        found.add((EXITS[named[-1]] if named else 2, int(match.group(1))))
    return found


def main(root):
    root = pathlib.Path(root)
    used = {}
    for folder in ("sextant", "apps"):
        for path in sorted((root / folder).rglob("*.cpp")) + sorted((root / folder).rglob("*.h")):
            if path.name.endswith("_test.cpp"):
                continue
            for number in numbers_in(path.read_text()):
                used.setdefault(number, path.relative_to(root))
    headings = re.findall(r"^### SX(\d+)-(\d{3})$", (root / "docs/errors.md").read_text(), re.M)
    listed = [(int(e), int(n)) for e, n in headings]
    faults = [f"SX{e}-{n:03} of {used[e, n]} has no paragraph in docs/errors.md" for e, n in sorted(used) if (e, n) not in listed]
    faults += [f"SX{e}-{n:03} of docs/errors.md is made nowhere" for e, n in sorted(set(listed)) if (e, n) not in used]
    faults += [f"SX{e}-{n:03} stands twice in docs/errors.md" for e, n in sorted(set(listed)) if listed.count((e, n)) > 1]
    if len(used) < 20:
        faults.append(f"only {len(used)} numbers were found in the sources: the search is broken")
    print("\n".join(faults) or f"{len(used)} numbers, all in docs/errors.md")
    return 1 if faults else 0


def self_test():
    assert numbers_in("{.exit = ExitCode::kIo,\n .number = 3}") == {(3, 3)}
    assert numbers_in("Diagnostic{.number = 7, .what = x}") == {(2, 7)}
    assert numbers_in("{.exit = ExitCode::kIo, .number = 3}; Diagnostic{.number = 9}") == {(3, 3), (2, 9)}
    assert numbers_in("return {ExitCode::kIo, 12, \"x\"};") == {(3, 12)}
    assert numbers_in("fault(26, a); defect(2, b)") == {(2, 26), (1, 2)}
    assert numbers_in("/// SX4-005 schedule") == {(4, 5)}


if __name__ == "__main__":
    self_test()
    sys.exit(main(sys.argv[1]))
