#!/usr/bin/env python3
"""Compares the ids of `sextant tokenize encode` with tiktoken's and Hugging Face tokenizers', over text of many kinds.

    python3 bench/peers/compare_ids.py --program build/release/bin/sextant --vocabularies DIR --work DIR \
        [--megabytes 300] [--hf-megabytes 20] [--text FILE...] [--families r50k_base cl100k_base o200k_base]

DIR of --vocabularies holds NAME.tiktoken and NAME.json; --work is filled with the corpus and tokenizer.json files. The
corpus: the files of --text, source code and documentation below /usr, text of CJK and other scripts made from code points
of Unicode 14.0, random Unicode, random bytes (as U+FFFD where they are not UTF-8). Needs the packages tiktoken and
tokenizers. Prints one JSON line a part; exit 5 when an id differs.
"""
import argparse
import array
import json
import pathlib
import random
import subprocess
import sys
import unicodedata

from bench_tiktoken import load as load_tiktoken
from bench_tiktoken import parts

SUFFIXES = {".py", ".h", ".c", ".cpp", ".hpp", ".rs", ".js", ".pl", ".pm", ".sh", ".txt", ".md", ".rst", ".html", ".xml",
            ".json", ".css", ".tex", ".po", ".cmake", ".el", ".rb", ".go"}
SCRIPTS = [(0x4E00, 0x9FA5), (0x3041, 0x3096), (0x30A1, 0x30FA), (0xAC00, 0xD7A3), (0x0410, 0x044F), (0x0905, 0x0939),
           (0x0621, 0x064A), (0x05D0, 0x05EA), (0x0E01, 0x0E3A), (0x0391, 0x03C9), (0x1F300, 0x1F5FF), (0x3000, 0x3002)]


def source_code(limit):
    """Files below /usr, in the order of their names, until the limit is reached; only what is UTF-8."""
    size = 0
    for root in ("/usr/include", "/usr/lib/python3", "/usr/lib/python3.11", "/usr/share/perl", "/usr/share/doc", "/usr/lib",
                 "/usr/share"):
        for path in sorted(pathlib.Path(root).rglob("*")):
            if size >= limit:
                return
            if path.suffix not in SUFFIXES or path.is_symlink() or not path.is_file():
                continue
            data = path.read_bytes()
            if not data or len(data) > 4_000_000:
                continue
            try:
                data.decode()
            except UnicodeDecodeError:
                continue
            size += len(data)
            yield data + b"\n"


def scripts(limit, draw):
    size = 0
    while size < limit:
        low, high = draw.choice(SCRIPTS)
        words = ["".join(chr(draw.randint(low, high)) for _ in range(draw.randint(1, 12))) for _ in range(60)]
        text = "".join(word + draw.choice(["", " ", "\u3002", "\uff0c", " 12", "abc", "\n", "'s ", "\u3000"]) for word in words)
        data = (text + ".\nx").encode()
        size += len(data)
        yield data


def assigned():
    """Code points that were assigned by Unicode 14.0 (the database of Python 3.11), without surrogates."""
    return [c for c in range(0x110000) if not 0xD800 <= c < 0xE000 and unicodedata.category(chr(c)) != "Cn"]


def random_unicode(limit, draw):
    points = assigned()
    common = [ord(c) for c in " \n\r\t'\"/.,sStTmdDlLrReEvV019aZ\u00a0\u3000\u2028\u017f\u2019\u0301"]
    size = 0
    while size < limit:
        share = draw.random()
        text = "".join(chr(draw.choice(common if draw.random() < share else points)) for _ in range(2000))
        data = (text + ".\nx").encode()
        size += len(data)
        yield data


def random_bytes(limit, draw):
    size = 0
    while size < limit:
        data = draw.randbytes(4000) + ".\nx".encode()
        size += len(data)
        yield data


def collect(chunks, limit):
    data = bytearray()
    for chunk in chunks:
        data += chunk
        if len(data) >= limit:
            break
    return bytes(data)


def our_ids(program, vocabulary, path, *more):
    result = subprocess.run([program, "tokenize", "encode", str(path), "--tokenizer", str(vocabulary), "--format", "u32", *more],
                            stdout=subprocess.PIPE, check=True)
    return array.array("I", result.stdout)


def first_difference(ours, theirs):
    for i, (a, b) in enumerate(zip(ours, theirs)):
        if a != b:
            return i
    return None if len(ours) == len(theirs) else min(len(ours), len(theirs))


def compare(name, peer, family, ours, theirs, size):
    at = None if ours == theirs else first_difference(ours, theirs)
    row = {"part": name, "peer": peer, "family": family, "bytes": size, "ids": len(theirs), "equal": at is None}
    if at is not None:
        row["first_difference"] = {"at": at, "ours": list(ours[at:at + 8]), "theirs": list(theirs[at:at + 8])}
    print(json.dumps(row), flush=True)
    return at is None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    parser.add_argument("--vocabularies", type=pathlib.Path, required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--megabytes", type=int, default=300)
    parser.add_argument("--hf-megabytes", type=int, default=20)
    parser.add_argument("--text", type=pathlib.Path, nargs="*", default=[])
    parser.add_argument("--families", nargs="*", default=["r50k_base", "cl100k_base", "o200k_base"])
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    draw = random.Random(options.seed)
    limit = options.megabytes * 1_000_000
    pages = b"".join(path.read_bytes() for path in options.text)[:limit // 2]
    made = {"pages": pages,
            "scripts": collect(scripts(limit // 20, draw), limit // 20),
            "random_unicode": collect(random_unicode(limit // 20, draw), limit // 20),
            "random_bytes": collect(random_bytes(limit // 20, draw), limit // 20)}
    left = limit - sum(len(data) for data in made.values())
    made["source_code"] = collect(source_code(left), left)
    made = {name: data for name, data in made.items() if data}
    good = True
    for family in options.families:
        vocabulary = options.vocabularies / f"{family}.tiktoken"
        encoding = load_tiktoken(vocabulary)
        exported = options.work / f"{family}.json"
        subprocess.run([options.program, "tokenize", "convert", str(vocabulary), str(exported), "--overwrite"], check=True,
                       stdout=subprocess.DEVNULL)
        from tokenizers import Tokenizer
        peer = Tokenizer.from_file(str(exported))
        for name, data in made.items():
            text = data.decode(errors="replace")
            path = options.work / f"{name}.txt"
            path.write_bytes(data)
            ours = our_ids(options.program, vocabulary, path, "--set", "tokenizer.invalid=replace")
            theirs = array.array("I")
            for part in parts(text.encode(), 1 << 20):
                theirs.extend(encoding.encode_ordinary(part))
            good &= compare(name, "tiktoken", family, ours, theirs, len(data))
            few = text.encode()[:options.hf_megabytes * 1_000_000 // len(made)].decode(errors="ignore")
            path.write_bytes(few.encode())
            ours = our_ids(options.program, exported, path)
            theirs = array.array("I")
            for part in parts(few.encode(), 1 << 14):
                theirs.extend(peer.encode(part, add_special_tokens=False).ids)
            good &= compare(name, "tokenizers", family, ours, theirs, len(few.encode()))
    sys.exit(0 if good else 5)


if __name__ == "__main__":
    main()
