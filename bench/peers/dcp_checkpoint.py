"""Save and load of the tensors of bench_checkpoint by torch.distributed.checkpoint: one Gloo process a rank, each
tensor a DTensor sharded by rows, files synced.

    python dcp_checkpoint.py [--mib 512] [--ranks 2] [--rounds 3] [--dir /var/tmp]

Prints the same JSON lines. Needs `torch` from PyPI.
"""
import argparse
import json
import os
import shutil
import tempfile
import time

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard

BLOCK = [(768,), (2304, 768), (768, 768), (768,), (3072, 768), (768, 3072)]


def shapes(mib):
    left, out = mib * (1 << 20) // 12, []
    while left > 0:
        out.append(BLOCK[len(out) % len(BLOCK)])
        left -= torch.Size(out[-1]).numel()
    return out


def drop(folder):
    for name in os.listdir(folder):
        fd = os.open(os.path.join(folder, name), os.O_RDONLY)
        os.fdatasync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


def run(rank, args, root, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=args.ranks)
    mesh = init_device_mesh("cpu", (args.ranks,))
    state = {}
    for i, shape in enumerate(shapes(args.mib)):
        for kind in ("", ".exp_avg", ".exp_avg_sq"):
            rows = shape[0] // args.ranks
            local = torch.full((rows, *shape[1:]), float(i))
            state[f"t{i}{kind}"] = DTensor.from_local(local, mesh, [Shard(0)])
    for round_number in range(args.rounds):
        folder = os.path.join(root, f"round{round_number}")
        dist.barrier()
        begin = time.perf_counter()
        dcp.save(state, storage_writer=dcp.FileSystemWriter(folder, sync_files=True, thread_count=1))
        dist.barrier()
        save_s = time.perf_counter() - begin
        sizes = [0] * args.ranks
        if rank == 0:
            for name in os.listdir(folder):
                if name.startswith("__"):
                    sizes[int(name.split("_")[2])] += os.path.getsize(os.path.join(folder, name))
            drop(folder)
        dist.barrier()
        begin = time.perf_counter()
        dcp.load(state, storage_reader=dcp.FileSystemReader(folder))
        dist.barrier()
        load_s = time.perf_counter() - begin
        begin = time.perf_counter()
        future = dcp.async_save(state, storage_writer=dcp.FileSystemWriter(folder + "a", sync_files=True, thread_count=1))
        blocked_s = time.perf_counter() - begin
        future.result()
        async_s = time.perf_counter() - begin
        if rank == 0:
            total = sum(sizes)
            print(json.dumps({"system": "dcp", "torch": torch.__version__, "round": round_number, "ranks": args.ranks,
                              "bytes": total, "save_mb_s": round(total / save_s / 1e6, 1),
                              "load_mb_s": round(total / load_s / 1e6, 1),
                              "max_over_mean": round(max(sizes) * args.ranks / total, 4), "save_s": round(save_s, 3),
                              "async_s": round(async_s, 3), "blocked_s": round(blocked_s, 4)}), flush=True)
            shutil.rmtree(folder)
            shutil.rmtree(folder + "a")
        dist.barrier()
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--mib", type=int, default=512)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dir", default="/var/tmp")
    parser.add_argument("--copies", type=int, default=0, choices=[0], help="as in the C++ program; sharded only")
    args = parser.parse_args()
    root = tempfile.mkdtemp(prefix="dcp_checkpoint.", dir=args.dir)
    try:
        mp.spawn(run, (args, root, 29500 + os.getpid() % 2000), nprocs=args.ranks)
    finally:
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
