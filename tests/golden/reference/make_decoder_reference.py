#!/usr/bin/env python3
"""Writes decoder_reference.json: logits and losses of tiny decoders, computed with numpy in double precision.

A second, independent statement of what sextant/nn computes: explicit masks and softmax, rotations as complex products,
erf and tanh GELU by formula. Weights are not stored: both sides make them from the counter-based streams, which this
script also states a second time (Philox4x32-10, XXH64 by the package xxhash, normal quantile by scipy).

Run:  pip install numpy scipy xxhash ; python3 make_decoder_reference.py
Made with numpy 2.x, scipy 1.x, xxhash 3.x; the versions in use are recorded in the file.
"""
import json
import pathlib

import numpy as np
import scipy
import xxhash
from scipy.special import erf, ndtri

SEED = 42
MASK = 0xFFFFFFFF


def philox(counter, key):
    c, k = list(counter), list(key)
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(p1 >> 32) ^ c[1] ^ k[0], p1 & MASK, (p0 >> 32) ^ c[3] ^ k[1], p0 & MASK]
        k = [(k[0] + 0x9E3779B9) & MASK, (k[1] + 0xBB67AE85) & MASK]
    return c


def normals(name, count):
    stream = xxhash.xxh64(("init:" + name).encode(), seed=0).intdigest()
    u = np.empty(count)
    for i in range(count):
        j = i >> 1
        w = philox((j & MASK, j >> 32, stream & MASK, stream >> 32), (SEED & MASK, SEED >> 32))
        x = w[2 * (i & 1)] | w[2 * (i & 1) + 1] << 32
        u[i] = ((x >> 12) + 0.5) * 2.0**-52
    return ndtri(u)


def weight(name, *shape):
    """Every parameter is 0.25 z, norm weights 1 + 0.25 z: nothing is left at a value that hides a mistake."""
    mean = 1.0 if "norm" in name and name.endswith(".weight") else 0.0
    return mean + 0.25 * normals(name, int(np.prod(shape))).reshape(shape)


def norm(x, name, kind, eps):
    g = weight(name + ".weight", x.shape[-1])
    if kind == "rms":
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * g
    centred = x - x.mean(-1, keepdims=True)
    scaled = centred / np.sqrt((centred * centred).mean(-1, keepdims=True) + eps)
    return scaled * g + weight(name + ".bias", x.shape[-1])


def linear(x, name, outputs, bias):
    y = x @ weight(name + ".weight", outputs, x.shape[-1]).T
    return y + weight(name + ".bias", outputs) if bias else y


def rope(x, positions, theta):
    """x [B, S, heads, D]: element i and i + D/2 are real and imaginary part of one number."""
    half = x.shape[-1] // 2
    z = x[..., :half] + 1j * x[..., half:]
    frequency = theta ** (-np.arange(half) / half)
    z = z * np.exp(1j * positions[:, :, None, None] * frequency)
    return np.concatenate([z.real, z.imag], -1)


def act(x, kind):
    if kind == "swiglu":
        return x / (1 + np.exp(-x))
    if kind in ("gelu", "geglu"):
        return 0.5 * x * (1 + erf(x / np.sqrt(2)))
    if kind == "gelu_tanh":
        return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    return np.maximum(x, 0)


def attention(x, prefix, m, positions, documents):
    b, s, _ = x.shape
    n, g, d = m["num_heads"], m["num_heads_kv"], m["head_dim"]
    q = linear(x, prefix + "wq", n * d, m["qkv_bias"]).reshape(b, s, n, d)
    k = linear(x, prefix + "wk", g * d, m["qkv_bias"]).reshape(b, s, g, d)
    v = linear(x, prefix + "wv", g * d, m["qkv_bias"]).reshape(b, s, g, d)
    if m["qk_norm"]:
        q = norm(q, prefix + "q_norm", "rms", m["norm_eps"])
        k = norm(k, prefix + "k_norm", "rms", m["norm_eps"])
    if m["positions"] == "rope":
        q, k = rope(q, positions, m["rope_theta"]), rope(k, positions, m["rope_theta"])
    k, v = np.repeat(k, n // g, axis=2), np.repeat(v, n // g, axis=2)
    scores = np.einsum("bqnd,bknd->bnqk", q, k) / np.sqrt(d)
    allowed = np.tril(np.ones((s, s), bool)) & (documents[:, :, None] == documents[:, None, :])
    scores = np.where(allowed[:, None], scores, -np.inf)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    out = np.einsum("bnqk,bknd->bqnd", p, v).reshape(b, s, n * d)
    return linear(out, prefix + "wo", m["hidden"], m["linear_bias"])


def feed_forward(x, prefix, m):
    up = linear(x, prefix + "up", m["ffn_hidden"], m["linear_bias"])
    if m["activation"] in ("swiglu", "geglu"):
        up = act(linear(x, prefix + "gate", m["ffn_hidden"], m["linear_bias"]), m["activation"]) * up
    else:
        up = act(up, m["activation"])
    return linear(up, prefix + "down", m["hidden"], m["linear_bias"])


def forward(m, tokens, positions, documents):
    padded = -(-m["vocab_size"] // m["vocab_pad_to"]) * m["vocab_pad_to"]
    table = weight("tok_embeddings.weight", padded, m["hidden"])
    x = table[tokens]
    if m["positions"] == "learned":
        x = x + weight("pos_embeddings.weight", m["max_positions"], m["hidden"])[positions]
    for i in range(m["num_layers"]):
        p = f"layers.{i}."
        x = x + attention(norm(x, p + "attention_norm", m["norm"], m["norm_eps"]), p + "attention.", m, positions,
                          documents)
        x = x + feed_forward(norm(x, p + "ffn_norm", m["norm"], m["norm_eps"]), p + "feed_forward.", m)
    x = norm(x, "norm", m["norm"], m["norm_eps"])
    head = table if m["tie_embeddings"] else weight("output.weight", padded, m["hidden"])
    return (x @ head.T)[..., : m["vocab_size"]]


def loss_sum(logits, targets, mask):
    z = logits - logits.max(-1, keepdims=True)
    log_p = z - np.log(np.exp(z).sum(-1, keepdims=True))
    picked = np.take_along_axis(log_p, np.maximum(targets, 0)[..., None], -1)[..., 0]
    return float(-(picked * mask).sum())


def case(name, arch, **changes):
    m = dict(arch=arch, num_layers=2, hidden=16, ffn_hidden=24, num_heads=4, num_heads_kv=2, head_dim=6, vocab_size=19,
             vocab_pad_to=8, max_positions=16, positions="rope", rope_theta=10000.0, norm="rms", norm_eps=1e-5,
             activation="swiglu", linear_bias=False, qkv_bias=False, qk_norm=False, tie_embeddings=False)
    m.update(changes)
    rng = np.random.default_rng(len(name))
    tokens = rng.integers(0, m["vocab_size"], (2, 9))
    documents = np.array([[0, 0, 0, 0, 1, 1, 2, 2, 2], [5, 5, 5, 5, 5, 5, 5, 5, 5]])
    positions = np.array([[0, 1, 2, 3, 0, 1, 0, 1, 2], [0, 1, 2, 3, 4, 5, 6, 7, 8]])
    targets = rng.integers(0, m["vocab_size"], (2, 9))
    mask = rng.integers(0, 2, (2, 9))
    logits = forward(m, tokens, positions, documents)
    return dict(name=name, model=m, tokens=tokens.tolist(), positions=positions.tolist(), documents=documents.tolist(),
                targets=targets.tolist(), mask=mask.tolist(), logits=logits.reshape(-1).tolist(),
                loss_sum=loss_sum(logits, targets, mask))


def main():
    cases = [
        case("llama", "llama"),
        case("llama-tied-no-groups", "llama", num_heads_kv=4, tie_embeddings=True),
        case("gpt2", "gpt2", positions="learned", norm="layer", activation="gelu_tanh", linear_bias=True, qkv_bias=True,
             num_heads_kv=4, head_dim=4, tie_embeddings=True),
        case("qwen3", "qwen3", qk_norm=True, norm_eps=1e-6, rope_theta=1e6, head_dim=8),
        case("custom-geglu", "custom", activation="geglu", qkv_bias=True, num_heads_kv=1),
        case("custom-gelu-none", "custom", activation="gelu", positions="none", norm="layer"),
        case("custom-relu", "custom", activation="relu", linear_bias=True),
    ]
    out = dict(seed=SEED, versions=dict(numpy=np.__version__, scipy=scipy.__version__, xxhash=xxhash.VERSION),
               cases=cases)
    path = pathlib.Path(__file__).with_name("decoder_reference.json")
    path.write_text(json.dumps(out) + "\n")


if __name__ == "__main__":
    main()
