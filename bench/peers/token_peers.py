#!/usr/bin/env python3
"""Peers of bench_token over the same text, as JSON lines in its form: gigatoken, tiktoken, quicktok, tokenizers.

    python3 bench/peers/token_peers.py --peer gigatoken --tokenizer r50k_base.tiktoken --text FILE [--repeat 3] [--ids OUT]

Needs the package of the peer. The rank file and the JSON beside it are read from disk, so nothing is downloaded; peer
"tokenizers" reads the tokenizer.json that `sextant tokenize convert` makes of them. The text is cut where bench_token cuts
it (parts of at least 4 KiB). One thread. `mb_per_cpu_s` counts processor time of the process, so that other programs on
the machine do not decide. --ids writes all ids as u32 little-endian, to compare with `sextant tokenize encode --format u32`.
"""
import argparse
import array
import json
import pathlib
import time

from bench_tiktoken import load as load_tiktoken
from bench_tiktoken import parts


def encoder(peer, path):
    """A function from a list of texts to a list of id sequences, and the peer's version."""
    from importlib.metadata import version
    if peer == "tiktoken":
        encoding = load_tiktoken(path)
        return lambda texts: [encoding.encode_ordinary(text) for text in texts], version("tiktoken")
    if peer == "gigatoken":
        import gigatoken
        tokenizer = gigatoken.Tokenizer.from_tiktoken(str(path))
        return lambda texts: tokenizer.encode_batch(texts, parallel=False), version("gigatoken")
    if peer == "quicktok":
        import quicktok
        tokenizer = quicktok.get_encoding(path.stem)
        return lambda texts: [tokenizer.encode_ordinary(text) for text in texts], version("quicktok-v1")
    from tokenizers import Tokenizer
    tokenizer = Tokenizer.from_file(str(path))
    return (lambda texts: [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]), version("tokenizers")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--peer", choices=["gigatoken", "tiktoken", "quicktok", "tokenizers"], required=True)
    parser.add_argument("--tokenizer", type=pathlib.Path, required=True)
    parser.add_argument("--text", type=pathlib.Path, required=True)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--ids", type=pathlib.Path)
    options = parser.parse_args()
    encode, version = encoder(options.peer, options.tokenizer)
    data = options.text.read_bytes()
    texts = list(parts(data, 4096))
    for number in range(1, options.repeat + 1):
        start, cpu_start = time.perf_counter(), time.process_time()
        ids = encode(texts)
        seconds, cpu = time.perf_counter() - start, time.process_time() - cpu_start
        print(json.dumps({"bench": "token.encode", "peer": f"{options.peer} {version}", "tokenizer": str(options.tokenizer),
                          "pass": number, "threads": 1, "bytes": len(data), "tokens": sum(len(one) for one in ids),
                          "seconds": round(seconds, 4), "cpu_seconds": round(cpu, 4),
                          "mb_per_s": round(len(data) / 1e6 / seconds, 2),
                          "mb_per_cpu_s": round(len(data) / 1e6 / cpu, 2)}), flush=True)
    if options.ids:
        flat = array.array("I")
        for one in ids:
            flat.extend(one)
        options.ids.write_bytes(flat.tobytes())


if __name__ == "__main__":
    main()
