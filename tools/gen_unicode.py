#!/usr/bin/env python3
"""Makes sextant/token/gen/unicode_classes.inc from UnicodeData.txt and PropList.txt.

    python3 tools/gen_unicode.py [--ucd /usr/share/unicode] [--check FILE]

The Unicode Character Database comes with Debian's package unicode-data (12 bookworm: 15.0.0). The table is data of a
vocabulary: another Unicode version changes fingerprints. With --check the file is compared instead of printed; exit 1
when it differs, exit 0 with a note when the installed database has another version.
"""
import argparse
import sys

VERSION = "15.0.0"
LETTER, NUMBER, SPACE, UPPER, LOWER, OTHER_LETTER, MARK, NEWLINE = (1 << i for i in range(8))
BLOCK = 128


def categories(path):
    """General category of every assigned code point; ranges come as First/Last lines."""
    table, first = {}, None
    for line in open(path, encoding="ascii"):
        field = line.split(";")
        code, name, category = int(field[0], 16), field[1], field[2]
        if name.endswith(", First>"):
            first = code
        elif name.endswith(", Last>"):
            table.update((c, category) for c in range(first, code + 1))
        else:
            table[code] = category
    return table


def white_space(path):
    found, version = set(), ""
    for line in open(path, encoding="utf-8"):
        if not version and line.startswith("# PropList-"):
            version = line.strip()[len("# PropList-"):-len(".txt")]
        text = line.split("#")[0]
        if ";" in text and text.split(";")[1].strip() == "White_Space":
            low, _, high = text.split(";")[0].strip().partition("..")
            found.update(range(int(low, 16), int(high or low, 16) + 1))
    return found, version


def class_of(code, category, spaces):
    bits = 0
    if category[0] == "L":
        bits |= LETTER | {"Lu": UPPER, "Lt": UPPER, "Ll": LOWER}.get(category, OTHER_LETTER)
    elif category[0] == "N":
        bits |= NUMBER
    elif category[0] == "M":
        bits |= MARK
    if code in spaces:
        bits |= SPACE
    if code in (0x0A, 0x0D):
        bits |= NEWLINE
    return bits


def rows(values):
    return "\n".join(",".join(map(str, values[i:i + 64])) + "," for i in range(0, len(values), 64))


def generate(ucd):
    spaces, version = white_space(f"{ucd}/PropList.txt")
    table = categories(f"{ucd}/UnicodeData.txt")
    blocks, index = {}, []
    for start in range(0, 0x110000, BLOCK):
        block = tuple(class_of(c, table.get(c, "Cn"), spaces) for c in range(start, start + BLOCK))
        index.append(blocks.setdefault(block, len(blocks)))
    assert len(blocks) < 65536
    flat = [value for block in blocks for value in block]
    return version, (
        f"// Made by tools/gen_unicode.py from the Unicode Character Database {version}; do not edit.\n"
        f'constexpr const char kUnicodeVersion[] = "{version}";\n'
        f"constexpr std::uint16_t kUnicodeIndex[{len(index)}] = {{\n{rows(index)}\n}};\n"
        f"constexpr std::uint8_t kUnicodeBlocks[{len(flat)}] = {{\n{rows(flat)}\n}};\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ucd", default="/usr/share/unicode")
    parser.add_argument("--check")
    options = parser.parse_args()
    version, text = generate(options.ucd)
    if not options.check:
        sys.stdout.write(text)
        return 0
    if version != VERSION:
        print(f"installed Unicode data is {version}, the table is of {VERSION}: not compared")
        return 0
    same = open(options.check, encoding="ascii").read() == text
    print("equal" if same else f"{options.check} differs from what this script makes")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
