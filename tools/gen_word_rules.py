#!/usr/bin/env python3
"""Makes sextant/text/gen/word_rules.inc: the character sets and exceptions of English word splitting as spaCy does it, and
the punctuation that datatrove's rules name.

    python3 tools/gen_word_rules.py > sextant/text/gen/word_rules.inc

Needs the peers: spacy (3.8; MIT) and datatrove (0.10; Apache-2.0) from PyPI. What is taken are facts that a document's
verdict depends on: which characters count as what, and which words are cut where.
"""
import re
import sys

import spacy
from datatrove.utils import text as peer_text
from spacy.lang import char_classes as classes


def text_literal(text):
    out = ""
    for c in text:
        if c in '"\\':
            out += "\\" + c
        elif c == "?":
            out += "\\?"
        elif 32 <= ord(c) < 127:
            out += c
        else:
            out += "".join(f"\\{byte:03o}" for byte in c.encode("utf-8"))
    return f'"{out}"'


def ranges(pattern):
    """Runs of characters of the basic and the first supplementary planes that match one-character `pattern`."""
    match = re.compile(pattern).fullmatch
    out, begin = [], None
    for c in range(0x20000):
        hit = not 0xD800 <= c <= 0xDFFF and match(chr(c)) is not None
        if hit and begin is None:
            begin = c
        if not hit and begin is not None:
            out.append((begin, c - 1))
            begin = None
    return out


def print_ranges(name, pattern):
    rows = [f"{{0x{a:X}, 0x{b:X}}}" for a, b in ranges(pattern)]
    print(f"SX_RANGES({name},")
    for i in range(0, len(rows), 6):
        print("    " + ", ".join(rows[i:i + 6]) + ("," if i + 6 < len(rows) else ""))
    print(")")


def print_texts(name, texts):
    print(f"SX_TEXTS({name},")
    line = "   "
    for text in texts:
        literal = text_literal(text) + ","
        if len(line) + len(literal) > 99:
            print(line)
            line = "   "
        line += " " + literal
    print(line.rstrip(",") + ")")


def unescaped(pieces):
    return [re.sub(r"\\(.)", r"\1", piece) for piece in pieces]


def main():
    english = spacy.blank("en")
    print("// Made by tools/gen_word_rules.py from spaCy's English rules (MIT) and datatrove's lists (Apache-2.0). Do not edit.")
    print("// clang-format off")
    print_ranges("kSpacyAlpha", f"[{classes.ALPHA}]")
    print_ranges("kSpacyLower", f"[{classes.ALPHA_LOWER}]")
    print_ranges("kSpacyUpper", f"[{classes.ALPHA_UPPER}]")
    print_ranges("kSpacyIcons", f"[{classes.ICONS}]")
    print_texts("kSpacyPunctuation", unescaped(classes.LIST_PUNCT))
    print_texts("kSpacyQuotes", unescaped(classes.LIST_QUOTES))
    print_texts("kSpacyCurrency", unescaped(classes.LIST_CURRENCY))
    print_texts("kSpacyUnits", unescaped(classes.LIST_UNITS))
    print_texts("kSpacyHyphens", unescaped(classes.LIST_HYPHENS))
    rules = english.tokenizer.rules
    print_texts("kSpacyExceptions", ["\x1f".join(token[65] for token in rules[word])
                                     for word in sorted(rules, key=lambda w: w.encode("utf-8")) if word.strip()])
    print_texts("kSentenceEnds", sorted(english.add_pipe("sentencizer").punct_chars))
    print_texts("kTerminalPunctuation", sorted(peer_text.TERMINAL_PUNCTUATION))
    print_texts("kPeerPunctuation", sorted(c for c in peer_text.PUNCTUATION if c != "\0"))


main()
