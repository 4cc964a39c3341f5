#!/usr/bin/env python3
"""Megatron-LM's index helpers and blend, as JSON lines in the form of bench_data, on the same sizes.

    python3 bench/peers/megatron_indices.py [--sequences 10000000]

Needs the packages megatron-core (with its compiled helpers), numpy and torch.
"""
import argparse
import json
import time

import numpy as np
from megatron.core.datasets import gpt_dataset, helpers
from megatron.core.datasets.utils import normalize


def report(what, of, amount, unit, seconds):
    print(json.dumps({"bench": "peer." + what, "of": of, "amount": amount, "unit": unit, "seconds": seconds,
                      "per_s": amount / seconds}), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--sequences", type=int, default=10000000)
    n = parser.parse_args().sequences
    array = np.zeros(n, np.int32)
    start = time.perf_counter()
    np.random.RandomState(1234).shuffle(array)
    report("megatron_shuffle", "int32", n, "elements", time.perf_counter() - start)

    lengths = (1 + np.arange(n, dtype=np.uint64) * np.uint64(2654435761) % np.uint64(1999)).astype(np.int32)
    tokens, seq_len = int(lengths.sum(dtype=np.int64)), 2048
    wanted = tokens // seq_len * 3 // 2
    start = time.perf_counter()
    state = np.random.RandomState(1234)
    before = (tokens - 1) // seq_len
    separate = wanted - before < int(0.8 * before)
    documents = gpt_dataset._build_document_index(np.arange(n, dtype=np.int32), 2, state, separate)
    samples = helpers.build_sample_idx(lengths, documents, seq_len, 2, tokens, True, 1)
    count = samples.shape[0] - 1
    gpt_dataset._build_shuffle_index(before if separate else count, count, state)
    report("megatron_index", f"epochs=2 samples={count}", 2 * n, "sequences", time.perf_counter() - start)

    size = 2000000
    for datasets in (3, 10, 100):
        weights = normalize([1 / (i + 1.7) for i in range(datasets)])
        d, s = np.zeros(size, np.int16), np.zeros(size, np.int64)
        start = time.perf_counter()
        helpers.build_blending_indices(d, s, weights, datasets, size, False)
        report("megatron_blend", f"datasets={datasets} last={d[-1]}", size, "samples", time.perf_counter() - start)


main()
