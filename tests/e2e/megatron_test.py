"""megatron_test.py BIN [CASES]: orders, caches and samples of Sextant beside those of megatron-core, for random settings.

Needs the packages megatron-core (with its compiled helpers), numpy and torch. Prints one line; exit 1 at the first case that
differs, with its settings.
"""
import collections
import hashlib
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import warnings

warnings.filterwarnings("ignore")
import numpy as np  # noqa: E402
import torch  # noqa: E402
from megatron.core import __version__ as megatron_version  # noqa: E402
from megatron.core.datasets import helpers  # noqa: E402
from megatron.core.datasets.blended_megatron_dataset_builder import BlendedMegatronDatasetBuilder  # noqa: E402
from megatron.core.datasets.gpt_dataset import GPTDataset, GPTDatasetConfig  # noqa: E402
from megatron.core.datasets.indexed_dataset import DType, IndexedDataset, IndexedDatasetBuilder  # noqa: E402
from megatron.core.datasets.utils import normalize  # noqa: E402

SPLITS = ["1,0,0", "90,8,2", "969,30,1", "1,1,1", "0.7 0.2 0.1", "99.5,0.5", "1/3/3", "0,1,0", "50,50", "5,0,5"]
HASHED = 40
PAD = 69999


class Tokenizer:
    vocab_size, eod, eos, pad = 70000, 0, 0, PAD
    unique_identifiers = collections.OrderedDict([("class", "Tok"), ("vocab", "70000")])


def md5(data):
    return hashlib.md5(np.ascontiguousarray(data).tobytes()).hexdigest()


def write_files(rng):
    """Prefixes with their numbers of sequences: short and long documents, empty ones, several sequences each."""
    prefixes = {}
    for i in range(6):
        prefix = f"d/f{i}"
        builder = IndexedDatasetBuilder(prefix + ".bin", dtype=DType.optimal_dtype(rng.choice([1000, 70000])))
        longest = rng.choice([3, 40, 400])
        for _ in range(rng.randint(20, 300)):
            for _ in range(rng.choice([0, 1, 1, 1, 2, 3])):
                length = rng.choice([0, rng.randint(1, longest), rng.randint(1, longest)])
                builder.add_item(torch.tensor([rng.randrange(1, 999) for _ in range(length)], dtype=torch.int64))
            builder.end_document()
        builder.finalize(prefix + ".idx")
        dataset = IndexedDataset(prefix)  # its arrays live as long as it does
        prefixes[prefix] = dataset.sequence_lengths.copy()
    return prefixes


def parts_hold_tokens(case, prefixes, matrix):
    """Without tokens Megatron-LM's count of epochs never ends."""
    for s, bounds in enumerate(matrix):
        if bounds is None:
            continue
        blend = case["per_split"][s] if case["per_split"] else case["blend"]
        for prefix in blend[0]:
            lengths = prefixes[prefix]
            low, high = (int(round(b * float(len(lengths)))) for b in bounds)
            if lengths[low:high].sum() <= case["extra_token"]:
                return False
    return True


def random_blend(rng, prefixes):
    kind = rng.randrange(4)
    paths = [rng.choice(list(prefixes)) for _ in range(1 if kind == 0 else rng.randint(1, 5))]
    weights = [round(rng.uniform(0.01, 9), rng.randint(0, 3)) + 0.001 for _ in paths] if kind > 1 else None
    return [paths, weights]


def random_case(rng, prefixes, cache):
    while True:
        per_split = rng.random() < 0.25
        case = {"kind": "datasets", "seed": rng.choice([0, 1234, rng.randrange(2**32)]), "seq_len": rng.randint(1, 120),
                "extra_token": rng.random() < 0.8, "drop_last_valid": rng.random() < 0.7, "surplus": rng.choice([0.005, 0.0, 0.3]),
                "tokenizer": Tokenizer.unique_identifiers, "cache": cache, "hashed": HASHED, "pad": PAD,
                "blend": None, "split": None, "per_split": None}
        if per_split:
            case["per_split"] = [random_blend(rng, prefixes) if s == 0 or rng.random() < 0.7 else None for s in range(3)]
        else:
            case["blend"], case["split"] = random_blend(rng, prefixes), rng.choice(SPLITS)
        case["sizes"] = []
        for s in range(3):
            blend = case["per_split"][s] if per_split else case["blend"]
            weighted = blend and blend[1] and (len(blend[0]) > 1 or not per_split)
            case["sizes"].append(rng.randint(1, 400) if weighted or not blend or rng.random() < 0.7 else None)
        config = config_of(case)
        matrix = [(0, 1) if b else None for b in case["per_split"]] if per_split else config.split_matrix
        if parts_hold_tokens(case, prefixes, matrix):
            return case


def config_of(case):
    blend = lambda b: b and (b[0], b[1])
    return GPTDatasetConfig(
        random_seed=case["seed"], sequence_length=case["seq_len"], blend=blend(case["blend"]), split=case["split"],
        blend_per_split=case["per_split"] and [blend(b) for b in case["per_split"]], tokenizer=Tokenizer(),
        reset_position_ids=False, reset_attention_mask=False, eod_mask_loss=False, create_attention_mask=False,
        path_to_cache=case["cache"] + ".theirs", add_extra_token_to_sequence=case["extra_token"],
        drop_last_partial_validation_sequence=case["drop_last_valid"], mid_level_dataset_surplus=case["surplus"])


def tokens_of(dataset, k):
    if hasattr(dataset, "datasets"):
        return tokens_of(dataset.datasets[dataset.dataset_index[k]], dataset.dataset_sample_index[k])
    return dataset._query_document_sample_shuffle_indices(k)[0]


def theirs(case):
    if case["kind"] == "greedy":
        weights, size = normalize(case["weights"]), case["size"]
        d, s = np.zeros(size, np.int16), np.zeros(size, np.int64)
        helpers.build_blending_indices(d, s, weights, len(weights), size, False)
        return {"datasets": md5(d), "samples": md5(s)}
    if case["kind"] == "exhaustive":
        total = sum(case["sizes"])
        d, s = np.zeros(total, np.int16), np.zeros(total, np.int64)
        helpers.build_exhaustive_blending_indices(d, s, case["sizes"], len(case["sizes"]))
        return {"datasets": md5(d), "samples": md5(s)}
    try:
        built = BlendedMegatronDatasetBuilder(GPTDataset, case["sizes"], lambda: True, config_of(case)).build()
    except IndexError:
        return {"error": "oversampled"}
    except AssertionError:  # an empty last document behind a kept sample that is not full: its helper stops there
        return {"error": "assertion"}
    out = []
    for dataset in built:
        out.append(dataset and {
            "length": len(dataset), "description": dataset.unique_description_hash,
            "tokens": md5(np.concatenate([tokens_of(dataset, k) for k in range(min(HASHED, len(dataset)))] or
                                         [np.zeros(0, np.int64)]))})
    return {"splits": out}


def files_of(folder):
    if not os.path.isdir(folder):
        return {}
    return {p.name: p.read_bytes() for p in pathlib.Path(folder).iterdir() if not p.name.endswith(("sextant.json", ".lock"))}


def differing(case, own, peer):
    if peer.get("error") == "assertion":
        return []
    if "error" in peer:
        return [] if "error" in own and "surplus" in own["error"] else ["they refuse it: " + peer["error"]]
    if own != peer:
        return [f"{own} instead of {peer}"]
    if case["kind"] != "datasets":
        return []
    mine, other = files_of(case["cache"]), files_of(case["cache"] + ".theirs")
    return [name for name in sorted(mine.keys() | other.keys()) if mine.get(name) != other.get(name)]


def main():
    program = os.path.abspath(os.path.join(sys.argv[1], "megatron_orders"))
    cases = int(sys.argv[2]) if len(sys.argv) > 2 else 300
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 20261130
    rng = random.Random(seed)
    counted = collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        os.makedirs("d")
        torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
        prefixes = write_files(rng)
        ours = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for i in range(cases):
            kind = rng.choice(["datasets", "datasets", "greedy", "exhaustive"])
            if kind == "greedy":
                n = rng.choice([1, 2, 3, 7, 8, 9, 30, 129, 300])
                case = {"kind": kind, "weights": [rng.uniform(0.01, 5) for _ in range(n)], "size": rng.randint(1, 5000)}
            elif kind == "exhaustive":
                case = {"kind": kind, "sizes": [rng.randint(1, 300) for _ in range(rng.randint(1, 40))]}
            else:
                case = random_case(rng, prefixes, f"cache{i}")
            ours.stdin.write(json.dumps(case) + "\n")
            ours.stdin.flush()
            peer = theirs(case)
            own = json.loads(ours.stdout.readline())
            faults = differing(case, own, peer)
            if faults:
                print(f"case {i} of seed {seed} differs: {faults[:5]}\n{json.dumps(case)}\nown {own}\npeer {peer}")
                return 1
            counted[kind] += 1
            counted["oversampled, refused by both"] += peer.get("error") == "oversampled"
            counted["refused there only"] += peer.get("error") == "assertion"
            counted["files equal"] += len(files_of(case["cache"])) if kind == "datasets" else 0
        ours.stdin.close()
        ours.wait()
        os.chdir("/")
    print(f"megatron-core {megatron_version}, numpy {np.__version__}: {cases} settings of seed {seed} agree: {dict(counted)}")
    return 0


sys.exit(main())
