#!/usr/bin/env python3
"""Writes folders of tiny random models as huggingface/transformers saves them, with the logits it computes.

Run:  python3 make_hf_reference.py DIR [--hidden 8] [--vocab 37]     needs torch, transformers, safetensors
Each folder holds config.json, model.safetensors and logits.safetensors (tokens [2, 24], logits [2, 24, V], and
losses [2], the mean cross entropy of each row). The folders under tests/golden/reference/hf were made so; versions.json
beside them says with which versions.
"""
import argparse
import json
import pathlib

import torch
import transformers
from safetensors.torch import save_file
from transformers import (GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM,
                          Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM)

POSITIONS = 64


def llama_like(hidden, vocab, **changes):
    heads = 4 if hidden >= 32 else 2
    sizes = dict(vocab_size=vocab, hidden_size=hidden, intermediate_size=hidden * 3 // 2, num_hidden_layers=2,
                 num_attention_heads=heads, num_key_value_heads=heads // 2, max_position_embeddings=POSITIONS,
                 head_dim=hidden // heads,
                 bos_token_id=1, eos_token_id=2)
    sizes.update(changes)
    return sizes


def models(hidden, vocab):
    rope3 = dict(rope_type="llama3", rope_theta=10000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                 original_max_position_embeddings=16)
    wide = 2 * hidden // (4 if hidden >= 32 else 2)
    linear = dict(rope_type="linear", rope_theta=10000.0, factor=2.0)
    qwen2 = llama_like(hidden, vocab)
    qwen2.pop("head_dim")
    yield "gpt2", GPT2LMHeadModel, GPT2Config(vocab_size=vocab, n_embd=hidden, n_layer=2, n_head=2,
                                              n_positions=POSITIONS, bos_token_id=1, eos_token_id=2)
    yield "llama", LlamaForCausalLM, LlamaConfig(**llama_like(hidden, vocab, attention_bias=False))
    yield "llama2-linear", LlamaForCausalLM, LlamaConfig(**llama_like(hidden, vocab, rope_parameters=linear))
    yield "llama3", LlamaForCausalLM, LlamaConfig(**llama_like(hidden, vocab, rope_parameters=rope3,
                                                               tie_word_embeddings=True))
    yield "llama-bias", LlamaForCausalLM, LlamaConfig(**llama_like(hidden, vocab, attention_bias=True, mlp_bias=True))
    yield "mistral", MistralForCausalLM, MistralConfig(**llama_like(hidden, vocab, sliding_window=None))
    yield "qwen2", Qwen2ForCausalLM, Qwen2Config(**qwen2)
    yield "qwen3", Qwen3ForCausalLM, Qwen3Config(**llama_like(hidden, vocab, head_dim=wide, tie_word_embeddings=True))


def randomize(model):
    """Nothing stays at a value that hides a mistake: norms near 1, biases near 0, all random."""
    generator = torch.Generator().manual_seed(7)
    for name, parameter in sorted(model.named_parameters()):
        centre = 1.0 if parameter.dim() == 1 and name.endswith("weight") else 0.0
        parameter.data.copy_(centre + 0.3 * torch.randn(parameter.shape, generator=generator))


def write(folder, cls, config, dtype=torch.float32):
    model = cls(config).eval()
    randomize(model)
    model.to(dtype).save_pretrained(folder, safe_serialization=True)
    (folder / "generation_config.json").unlink(missing_ok=True)
    generator = torch.Generator().manual_seed(11)
    tokens = torch.randint(0, config.vocab_size, (2, 24), generator=generator)
    with torch.no_grad():
        logits = model(tokens).logits.float()
    losses = torch.stack([torch.nn.functional.cross_entropy(row[:-1], ids[1:]) for row, ids in zip(logits, tokens)])
    save_file({"tokens": tokens, "logits": logits.contiguous(), "losses": losses}, folder / "logits.safetensors")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("dir", type=pathlib.Path)
    parser.add_argument("--hidden", type=int, default=8)
    parser.add_argument("--vocab", type=int, default=37)
    arguments = parser.parse_args()
    for name, cls, config in models(arguments.hidden, arguments.vocab):
        config.dtype = "float32"
        write(arguments.dir / name, cls, config)
    versions = dict(torch=torch.__version__, transformers=transformers.__version__)
    (arguments.dir / "versions.json").write_text(json.dumps(versions) + "\n")


if __name__ == "__main__":
    main()
