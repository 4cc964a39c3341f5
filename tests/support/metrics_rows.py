"""Reads a run's metrics.jsonl for tests that run the programs."""
import json
import os


def rows(out, *keys):
    """{step: the values of `keys`} of the rows that tell of a training step; of a step done twice, the last row."""
    found = {}
    with open(os.path.join(out, "metrics.jsonl")) as file:
        for line in file:
            row = json.loads(line)
            if "loss" in row:
                found[row["step"]] = tuple(row.get(key) for key in keys)
    return found
