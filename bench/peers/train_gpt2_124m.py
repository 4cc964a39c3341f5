"""Training steps of GPT-2 124M in PyTorch, eager or compiled, as JSON lines: model, batch and settings of bench_train_step.

    python train_gpt2_124m.py [--mode eager|compile] [--dtype fp32|bf16] [--steps 6] [--threads N] [--batch 4] [--seq 256]

bf16 is autocast over fp32 parameters. AdamW is the fused one, clipping is torch's. The first two steps are not counted
(compilation among them). Needs `torch` and `numpy` from PyPI; --mode compile also a C++ compiler.
"""
import argparse
import json
import math
import statistics
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

LAYERS, HIDDEN, HEADS, VOCAB, PADDED, POSITIONS = 12, 768, 12, 50257, 50304, 1024


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(HIDDEN), nn.LayerNorm(HIDDEN)
        self.qkv, self.out = nn.Linear(HIDDEN, 3 * HIDDEN), nn.Linear(HIDDEN, HIDDEN)
        self.up, self.down = nn.Linear(HIDDEN, 4 * HIDDEN), nn.Linear(4 * HIDDEN, HIDDEN)

    def forward(self, x):
        batch, seq, _ = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, seq, 3, HEADS, HIDDEN // HEADS).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, seq, HIDDEN))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(PADDED, HIDDEN), nn.Embedding(POSITIONS, HIDDEN)
        self.blocks, self.norm = nn.ModuleList(Block() for _ in range(LAYERS)), nn.LayerNorm(HIDDEN)
        for name, p in self.named_parameters():
            if p.dim() > 1:
                std = 0.02 / math.sqrt(2 * LAYERS) if name.endswith(("out.weight", "down.weight")) else 0.02
                nn.init.normal_(p, std=std)
            elif name.endswith("bias"):
                nn.init.zeros_(p)

    def forward(self, tokens, targets):
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.norm(x), self.tokens.weight)
        return F.cross_entropy(logits.view(-1, PADDED).float(), targets.view(-1))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--mode", choices=["eager", "compile"], default="eager")
    parser.add_argument("--dtype", choices=["fp32", "bf16"], default="fp32")
    for name, value in (("steps", 6), ("threads", 0), ("batch", 4), ("seq", 256)):
        parser.add_argument(f"--{name}", type=int, default=value)
    args = parser.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    torch.set_flush_denormal(True)
    torch.manual_seed(1234)
    model = Gpt2()
    run = torch.compile(model) if args.mode == "compile" else model
    decay = [p for p in model.parameters() if p.dim() > 1]
    plain = [p for p in model.parameters() if p.dim() <= 1]
    optimizer = torch.optim.AdamW([{"params": decay, "weight_decay": 0.1}, {"params": plain, "weight_decay": 0.0}],
                                  lr=3e-4, betas=(0.9, 0.95), fused=True)
    count = args.batch * args.seq

    def tokens(step):
        return ((torch.arange(count) * 2654435761 + step * 40503 + 12345) % VOCAB).view(args.batch, args.seq)

    times = []
    for step in range(args.steps + 2):
        start = time.perf_counter()
        with torch.autocast("cpu", torch.bfloat16, enabled=args.dtype == "bf16"):
            loss = run(tokens(step), tokens(step + 1))
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        seconds = time.perf_counter() - start
        print(f"step {step}  loss {loss.item():.5f}  gnorm {norm.item():.5f}  {seconds:.3f} s", file=sys.stderr)
        if step >= 2:
            times.append(seconds)
    median = statistics.median(times)
    print(json.dumps({"bench": "train_step", "system": f"torch-{args.mode}", "dtype": args.dtype,
                      "threads": torch.get_num_threads(), "tokens_per_s": round(count / median, 1),
                      "step_s": round(median, 4), "torch": torch.__version__}))


if __name__ == "__main__":
    main()
