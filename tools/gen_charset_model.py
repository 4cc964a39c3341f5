#!/usr/bin/env python3
"""Makes sextant/text/gen/charset_model.inc, the letter statistics of the charset detector.

    python3 tools/gen_charset_model.py DATA > sextant/text/gen/charset_model.inc
    python3 tools/gen_charset_model.py DATA --check sextant/text/gen/charset_model.inc

DATA is the folder of the shared test data: 300 sentences a language from lingua-rs (Apache-2.0) under
langid/lingua/<iso>/sentences.txt. Nothing of a test page goes in.

An alphabet language has classes 0 blank (everything that is no letter), 1-26 a-z, 27 other punctuation, 28 foreign letter,
29... its own letters beyond a-z, small. The table holds -8 ln P(class | class before), one printable character each, '!' = 0.
A language of many characters has its characters by falling frequency, cut into groups of equal -8 ln P.
"""
import argparse
import math
import sys
import unicodedata

ALPHABETS = ["ar", "bg", "cs", "da", "de", "el", "es", "et", "fa", "fi", "fr", "he", "hr", "hu", "is", "it", "lt", "lv", "mk",
             "nb", "nl", "pl", "pt", "ro", "ru", "sk", "sl", "sq", "sr", "sv", "th", "tr", "uk", "vi"]
CHARACTERS = ["ja", "ko", "zh"]
OWN = 29
LEVELS = 93


def sentences(data, language):
    folder = {"nb": "nb"}.get(language, language)
    for name in ("sentences.txt", "word-pairs.txt"):
        for line in open(f"{data}/langid/lingua/{folder}/{name}", encoding="utf-8"):
            yield unicodedata.normalize("NFC", line.strip())


def fold(c):
    low = c.lower()
    return low if len(low) == 1 else c


def is_letter(c):
    return unicodedata.category(c)[0] in "LM"


def alphabet_of(lines):
    count = {}
    for line in lines:
        for c in line:
            if ord(c) > 127 and is_letter(c):
                count[fold(c)] = count.get(fold(c), 0) + 1
    total = sum(count.values())
    return "".join(sorted(c for c, n in count.items() if n >= max(2, total / 4000)))


def class_of(c, own):
    low = fold(c)
    if "a" <= low <= "z":
        return ord(low) - 96
    if ord(c) < 128:
        return 0
    if low in own:
        return own[low]
    return 28 if is_letter(c) else 27


def level(p):
    return min(LEVELS, round(-8 * math.log(p)))


def bigrams(lines, letters):
    own = {c: OWN + i for i, c in enumerate(letters)}
    size = OWN + len(letters)
    count = [[0.0] * size for _ in range(size)]
    single = [0.0] * size
    for line in lines:
        before = 0
        for c in line + " ":
            here = class_of(c, own)
            count[before][here] += 1
            single[here] += 1
            before = here
    for rare in (27, 28):
        single[rare] = max(single[rare], 1)
    total = sum(single) + 0.5 * size
    rows = []
    for a in range(size):
        have = sum(count[a])
        weight = 4.0
        rows.append([level((count[a][b] + weight * (single[b] + 0.5) / total) / (have + weight)) for b in range(size)])
    return rows


def quoted(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def wide(text):
    """u"..." in lines of at most 100 columns; astral characters do not occur."""
    out = []
    for i in range(0, len(text), 14):
        out.append('    u"' + "".join(f"\\u{ord(c):04X}" for c in text[i:i + 14]) + '"')
    return "\n".join(out)


def main():
    options = argparse.ArgumentParser()
    options.add_argument("data")
    options.add_argument("--check")
    args = options.parse_args()
    out = ["// Made by tools/gen_charset_model.py from sentences of lingua-rs (Apache-2.0). Do not edit.", "// clang-format off"]
    for language in ALPHABETS:
        lines = list(sentences(args.data, language))
        letters = alphabet_of(lines)
        out.append(f'SX_ALPHABET("{language}",')
        out.append(wide(letters) + ",")
        for row in bigrams(lines, letters):
            out.append("    " + quoted("".join(chr(33 + v) for v in row)))
        out.append(")")
    for language in CHARACTERS:
        count, total = {}, 0
        for line in sentences(args.data, language):
            for c in line:
                if 127 < ord(c) < 65536:
                    count[c] = count.get(c, 0) + 1
                    total += 1
        order = sorted(count, key=lambda c: (-count[c], c))
        groups = {}
        for c in order:
            groups.setdefault(level(count[c] / total), []).append(c)
        out.append(f'SX_CHARACTERS("{language}",')
        for value, chars in sorted(groups.items()):
            out.append(f"  SX_GROUP({value},")
            out.append(wide("".join(sorted(chars))) + ")")
        out.append(")")
    text = "\n".join(out) + "\n"
    if args.check:
        if open(args.check, encoding="ascii").read() != text:
            sys.exit(f"{args.check} is not what this script makes")
        return
    sys.stdout.write(text)


main()
