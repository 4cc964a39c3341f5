#!/usr/bin/env python3
"""Writes small checkpoints of torch.distributed.checkpoint: one rank, and two ranks with sharded tensors.

Run:  python3 make_dcp_reference.py DIR     needs torch with gloo
Element i (row-major) of every floating tensor is i / 2, of the integer one i. The folders under
tests/golden/reference/dcp were made so; versions.json says with which version.
"""
import json
import os
import pathlib
import sys

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor


def halves(*shape, dtype=torch.float32):
    count = 1
    for n in shape:
        count *= n
    return (torch.arange(count, dtype=torch.float64) / 2).reshape(shape).to(dtype)


def one_rank(folder):
    state = {"model": {"w": halves(3, 4), "b": halves(5, dtype=torch.bfloat16), "s": halves(), "e": halves(0, 3),
                       "tail": halves(4, 4)[2:]},
             "step": 7, "note": "text", "ids": torch.arange(6).reshape(2, 3)}
    dcp.save(state, checkpoint_id=folder, no_dist=True)


def two_ranks(rank, folder, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    place = lambda tensor, *placements: distribute_tensor(tensor, mesh, placements)
    state = {"rows": place(halves(5, 3), Shard(0)), "columns": place(halves(4, 6), Shard(1)),
             "copies": place(halves(2, 2), Replicate()), "deep": place(halves(2, 3, 4, dtype=torch.float64), Shard(1))}
    dcp.save(state, checkpoint_id=folder)
    dist.destroy_process_group()


def main():
    root = pathlib.Path(sys.argv[1])
    root.mkdir(parents=True, exist_ok=True)
    one_rank(root / "one")
    mp.spawn(two_ranks, args=(str(root / "two"), 29671), nprocs=2)
    (root / "versions.json").write_text(json.dumps({"torch": torch.__version__}) + "\n")


if __name__ == "__main__":
    main()
