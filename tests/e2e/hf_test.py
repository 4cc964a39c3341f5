"""Beside transformers: python tests/e2e/hf_test.py BIN_DIR SUITE   (a Python with torch, transformers, safetensors)

Tiny random models are written at the start; logits, scores and exported weights are compared.
"""
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

BIN = os.path.abspath(sys.argv.pop(1))
ROOT = pathlib.Path(__file__).resolve().parents[2]
MODELS = ["gpt2", "llama", "llama2-linear", "llama3", "llama-bias", "mistral", "qwen2", "qwen3"]
VOCAB = 257  # bytes and an end of document


def run(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0:
        raise AssertionError(f"{command} gave {done.returncode}:\n{done.stdout}\n{done.stderr}")
    return done.stdout


def sextant(*arguments):
    return run(os.path.join(BIN, "sextant-train"), *arguments)


def tensors(folder):
    found = {}
    for path in sorted(pathlib.Path(folder).glob("*.safetensors")):
        if path.name != "logits.safetensors":
            found.update(load_file(path))
    return found


def same_bytes(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and a.contiguous().view(torch.uint8).equal(
        b.contiguous().view(torch.uint8)) if a.dim() else a.equal(b)


class WithModels(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.temporary.name)
        run(sys.executable, ROOT / "tests/golden/reference/make_hf_reference.py", cls.folder, "--hidden", 64, "--vocab",
            VOCAB)

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def our_logits(self, model, tokens):
        save_file({"tokens": tokens}, self.folder / "tokens.safetensors")
        run(os.path.join(BIN, "hf_logits"), model, self.folder / "tokens.safetensors", self.folder / "ours.safetensors")
        return load_file(self.folder / "ours.safetensors")["logits"]


class Logits(WithModels):
    def test_equal_within_1e4_of_their_spread(self):
        for name in MODELS:
            tokens = torch.randint(0, VOCAB, (1, 64), generator=torch.Generator().manual_seed(3))
            with torch.no_grad():
                theirs = AutoModelForCausalLM.from_pretrained(self.folder / name, dtype=torch.float32)(tokens).logits
            ours = self.our_logits(self.folder / name, tokens)
            worst = ((ours - theirs).abs().max() / (theirs.max() - theirs.min())).item()
            print(f"{name}: max |difference| / spread = {worst:.2e}")
            self.assertLessEqual(worst, 1e-4, name)

    def test_bf16_chooses_the_same_tokens_where_theirs_are_apart(self):
        for name in MODELS:
            half = self.folder / f"{name}-bf16"
            model = AutoModelForCausalLM.from_pretrained(self.folder / name, dtype=torch.bfloat16)
            model.save_pretrained(half)
            tokens = torch.randint(0, VOCAB, (4, 64), generator=torch.Generator().manual_seed(5))
            with torch.no_grad():
                theirs = model(tokens).logits.float()
            ours = self.our_logits(half, tokens)
            # Random models have near ties; a choice counts where bf16 can tell first and second apart.
            first, second = theirs.topk(2, dim=-1).values.unbind(-1)
            apart = first - second > 0.05 * (theirs.max() - theirs.min())
            equal = (ours.argmax(-1) == theirs.argmax(-1))[apart].float().mean().item()
            self.assertGreaterEqual(equal, 0.999, name)


class Convert(WithModels):
    def test_there_and_back_keeps_every_byte(self):
        for name in MODELS:
            checkpoint, back = self.folder / f"{name}-ckpt", self.folder / f"{name}-back"
            sextant("ckpt", "convert", self.folder / name, checkpoint, "--from", "hf", "--to", "sextant")
            sextant("ckpt", "verify", checkpoint)
            sextant("ckpt", "convert", checkpoint, back, "--from", "sextant", "--to", "hf", "--shard-bytes", "100KB")
            before, after = tensors(self.folder / name), tensors(back)
            self.assertEqual(sorted(before), sorted(after), name)
            for key in before:
                self.assertTrue(same_bytes(before[key], after[key]), f"{name} {key}")
            tokens = load_file(self.folder / name / "logits.safetensors")["tokens"]
            with torch.no_grad():
                one = AutoModelForCausalLM.from_pretrained(self.folder / name)(tokens).logits
                two = AutoModelForCausalLM.from_pretrained(back)(tokens).logits
            self.assertTrue(one.equal(two), name)
            self.assertLessEqual((self.our_logits(checkpoint, tokens) - one).abs().max().item(),
                                 1e-4 * (one.max() - one.min()).item())

    def test_files_beside_the_weights_travel(self):
        source = self.folder / "llama"
        (source / "generation_config.json").write_text('{"temperature": 0.5}\n')
        (source / "tokenizer_config.json").write_text('{"x": 1}\n')
        sextant("ckpt", "convert", source, self.folder / "c", "--from", "hf", "--to", "sextant")
        sextant("ckpt", "convert", self.folder / "c", self.folder / "d", "--from", "sextant", "--to", "hf")
        for name in ["generation_config.json", "tokenizer_config.json"]:
            self.assertEqual((self.folder / "d" / name).read_text(), (source / name).read_text())
        one, two = (json.loads((f / "config.json").read_text()) for f in (source, self.folder / "d"))
        for key in ["bos_token_id", "eos_token_id", "hidden_size", "vocab_size"]:
            self.assertEqual(one[key], two[key])

    def test_distributed_checkpoint_of_torch(self):
        import torch.distributed.checkpoint as dcp
        model = AutoModelForCausalLM.from_pretrained(self.folder / "qwen2")
        source = self.folder / "dcp"
        dcp.save({"model": model.state_dict(), "step": 3}, checkpoint_id=source, no_dist=True)
        (source / "config.json").write_text((self.folder / "qwen2" / "config.json").read_text())
        sextant("ckpt", "convert", source, self.folder / "dcp-hf", "--from", "dcp", "--to", "hf", "--prefix", "model.")
        before, after = model.state_dict(), tensors(self.folder / "dcp-hf")
        for key in before:
            self.assertTrue(same_bytes(before[key], after[key]), key)


class Evaluation(WithModels):
    LINES = [{"context": "The quick brown ", "choices": ["fox", "dog jumps", "zebra crossing"], "answer": 0},
             {"context": "2 + 2 =", "choices": [" 4", " five"], "answer": " 4"},
             {"context": "", "choices": ["alpha", "beta", "c"], "answer": 2},
             {"context": "caf\u00e9 ", "choices": ["au lait", "\u00fc"], "answer": 1}]

    def evaluate(self, name, *more, ranks=1):
        text, lines = self.folder / "text.txt", self.folder / "choices.jsonl"
        text.write_text("".join(f"line {i} of a text to be measured\n" for i in range(40)))
        lines.write_text("".join(json.dumps(line) + "\n" for line in self.LINES))
        out = self.folder / f"eval-{name}-{ranks}"
        shown = sextant("train", "--eval-only", "--set", f"checkpoint.load=hf:{self.folder / name}", "--set",
                        f"data.eval_paths={text}", "--set", "tokenizer.kind=bytes", "--set", "training.seq_len=32",
                        "--set", f"parallelism.dp_shard={ranks}", "--set", "parallelism.dp.tie=merge_units", "--choices", lines, "--out", out, "--json", "--quiet",
                        *more)
        return json.loads(shown), [json.loads(line) for line in (out / "choices.jsonl").read_text().splitlines()]

    def test_perplexity_equals_theirs(self):
        for name in MODELS:
            ours, _ = self.evaluate(name)
            ids = torch.tensor(list((self.folder / "text.txt").read_bytes()) + [256])
            model = AutoModelForCausalLM.from_pretrained(self.folder / name)
            total, count = 0.0, 0
            with torch.no_grad():
                for begin in range(0, len(ids) - 1, 32):  # each target once, context from the block's start
                    block = ids[begin:begin + 33]
                    logits = model(block[None, :-1]).logits[0].double()
                    total += torch.nn.functional.cross_entropy(logits, block[1:], reduction="sum").item()
                    count += len(block) - 1
            self.assertEqual(ours["held_out_tokens"], count, name)
            self.assertLessEqual(abs(ours["held_out_loss"] - total / count), 1e-4 * total / count, name)
            self.assertLessEqual(abs(ours["perplexity"] / math.exp(total / count) - 1), 1e-4, name)

    def test_choices_equal_theirs(self):
        for name in MODELS:
            ours, items = self.evaluate(name)
            model = AutoModelForCausalLM.from_pretrained(self.folder / name)
            acc = acc_norm = 0
            for line, item in zip(self.LINES, items):
                scores = []
                for choice in line["choices"]:
                    head = list(line["context"].rstrip().encode()) or [256]
                    tail = list((line["context"] + choice).encode())[len(line["context"].rstrip().encode()):]
                    ids = torch.tensor(head + tail)
                    with torch.no_grad():
                        log_p = model(ids[None, :-1]).logits[0].double().log_softmax(-1)
                    scores.append(sum(log_p[i - 1, ids[i]].item() for i in range(len(head), len(ids))))
                for mine, theirs in zip(item["log_likelihoods"], scores):
                    self.assertLessEqual(abs(mine - theirs), 1e-4 * abs(theirs), name)
                answer = line["answer"] if isinstance(line["answer"], int) else line["choices"].index(line["answer"])
                lengths = [len(choice) for choice in line["choices"]]
                acc += scores.index(max(scores)) == answer
                normed = [score / length for score, length in zip(scores, lengths)]
                acc_norm += normed.index(max(normed)) == answer
            self.assertAlmostEqual(ours["choices"]["acc"], acc / len(self.LINES))
            self.assertAlmostEqual(ours["choices"]["acc_norm"], acc_norm / len(self.LINES))

    def test_the_same_bits_on_more_ranks(self):
        one, two = self.evaluate("llama3", ranks=1), self.evaluate("llama3", ranks=2)
        self.assertEqual(one, two)


class Start(WithModels):
    def train(self, name, out, *more):
        run(os.path.join(BIN, "sextant-train"), "train", "--set", f"checkpoint.load=hf:{self.folder / name}", "--set",
            "data.paths=demo", "--set", "tokenizer.kind=bytes", "--set", "training.seq_len=32", "--set",
            "training.steps=3", "--set", "training.global_batch_size=4", "--out", self.folder / out, "--quiet", *more)
        rows = [json.loads(line) for line in (self.folder / out / "metrics.jsonl").read_text().splitlines()]
        return {row["step"]: row["loss"] for row in rows if "loss" in row}

    def test_training_begins_where_their_model_stands_on_any_mesh(self):
        for name in ["gpt2", "qwen3"]:
            one = self.train(name, f"{name}-1")
            two = self.train(name, f"{name}-2", "--set", "parallelism.dp_shard=2", "--set",
                             "parallelism.dp.tie=merge_units")
            self.assertEqual(sorted(one), [1, 2, 3])
            for step in one:
                self.assertAlmostEqual(one[step], two[step], delta=1e-4 * one[step], msg=f"{name} step {step}")
            scratch = math.log(VOCAB)
            self.assertNotAlmostEqual(one[1], scratch, delta=0.05)  # not initial weights
            # The checkpoint goes back, and is read by transformers.
            sextant("ckpt", "convert", self.folder / f"{name}-2", self.folder / f"{name}-out", "--from", "sextant", "--to",
                    "hf")
            model = AutoModelForCausalLM.from_pretrained(self.folder / f"{name}-out")
            self.assertEqual(model.config.vocab_size, VOCAB)

    def test_samples_come_from_their_folder(self):
        shown = sextant("sample", f"hf:{self.folder / 'llama'}", "--prompt", "ab", "--max-tokens", 5, "--temperature", 0,
                        "--json")
        tokens = json.loads(shown)["tokens"]
        model = AutoModelForCausalLM.from_pretrained(self.folder / "llama")
        ids = list(b"ab")
        with torch.no_grad():
            for token in tokens:
                self.assertEqual(token, model(torch.tensor([ids])).logits[0, -1].argmax().item())
                ids.append(token)


if __name__ == "__main__":
    unittest.main()
