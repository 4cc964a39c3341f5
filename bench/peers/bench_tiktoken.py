#!/usr/bin/env python3
"""tiktoken over a text file, as JSON lines in the form of bench_token.

    python3 bench/peers/bench_tiktoken.py --tokenizer r50k_base.tiktoken --text FILE [--repeat 3] [--ids OUT]

Needs the package tiktoken. The rank file and the JSON beside it are read from disk, so nothing is downloaded. The text is
cut where bench_token cuts it (parts of at least 4 KiB). --ids writes all ids as u32 little-endian, to compare with
`sextant tokenize encode --format u32`.
"""
import argparse
import array
import base64
import json
import pathlib
import time

import tiktoken


def load(path):
    side = json.loads(path.with_suffix(".json").read_text())
    ranks = {}
    for line in path.read_bytes().splitlines():
        token, rank = line.split()
        ranks[base64.b64decode(token)] = int(rank)
    return tiktoken.Encoding(path.stem, pat_str=side["pat_str"], mergeable_ranks=ranks,
                             special_tokens=side["special_tokens"])


def visible(byte):
    return 0x20 < byte < 0x7F


def alnum(byte):
    return chr(byte).isalnum() and byte < 0x80


def parts(data, smallest):
    start = 0
    while start < len(data):
        end = start + smallest
        while end + 1 < len(data) and not (data[end] == 10 and visible(data[end - 1]) and alnum(data[end + 1])):
            end += 1
        end = len(data) if end + 1 >= len(data) else end + 1
        yield data[start:end].decode()
        start = end


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tokenizer", type=pathlib.Path, required=True)
    parser.add_argument("--text", type=pathlib.Path, required=True)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--ids", type=pathlib.Path)
    options = parser.parse_args()
    encoding = load(options.tokenizer)
    data = options.text.read_bytes()
    texts = list(parts(data, 4096))
    for number in range(1, options.repeat + 1):
        start = time.perf_counter()
        tokens = sum(len(encoding.encode_ordinary(text)) for text in texts)
        seconds = time.perf_counter() - start
        print(json.dumps({"bench": "token.encode", "peer": f"tiktoken {tiktoken.__version__}",
                          "tokenizer": str(options.tokenizer), "pass": number, "threads": 1, "bytes": len(data),
                          "tokens": tokens, "seconds": round(seconds, 4),
                          "mb_per_s": round(len(data) / 1e6 / seconds, 2)}), flush=True)
    if options.ids:
        ids = array.array("I")
        for text in texts:
            ids.extend(encoding.encode_ordinary(text))
        options.ids.write_bytes(ids.tobytes())


if __name__ == "__main__":
    main()
