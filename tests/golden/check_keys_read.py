"""check_keys_read.py ROOT: every key of the table is read by code outside sextant/recipe.

A key `training.seq_len` counts as read where a source says `.training.seq_len` or `->training.seq_len`, or names a
group by reference (`const auto& optimizer = recipe.optimizer`) and then says `optimizer.seq_len`; the keys of `model`
are read where `to_model_shape` is called.
"""
import pathlib
import re
import sys

# Keys that mean another key: sextant/recipe turns them into it, and that one is read.
TURNED_INTO = {"training.tokens": "training.steps"}


def keys_of(root):
    table = (root / "tests/golden/keys.txt").read_text()
    return [line.split(" | ")[0] for line in table.splitlines() if line]


def keys_read(text, keys, aliases):
    """The keys among `keys` that the member accesses of a source name."""
    found = set()
    for chain in set(re.findall(r"\w*(?:\)?(?:\.|->)\w+)+", text)):
        parts = re.split(r"\.|->", chain.replace(")", ""))
        for begin in range(1, len(parts)):
            found |= {".".join(parts[begin:begin + size]) for size in (2, 3)}
        for group, name in aliases:
            if parts[0] == name:
                found |= {f"{group}." + ".".join(parts[1:1 + size]) for size in (1, 2)}
    return found & keys


def aliases_of(text, groups):
    """(group, local name) for `x = recipe.group` and parameters `const GroupKeys& x`."""
    words = {"".join(part.capitalize() for part in re.split(r"[._]", group)): group for group in groups}
    found = [(words[word], name) for word, name in re.findall(r"\b(\w+)Keys&? (\w+)", text) if word in words]
    for name, value in re.findall(r"\b(\w+) = ([^;=\n]*);", text):
        found += [(group, name) for group in groups if value.endswith(("." + group, ">" + group))]
    return found


def main(root):
    root = pathlib.Path(root)
    keys = keys_of(root)
    groups = sorted({key.rsplit(".", 1)[0] for key in keys} | {key.split(".")[0] for key in keys})
    unread = set(keys)
    for folder in ("sextant", "apps"):
        for path in sorted((root / folder).rglob("*.cpp")) + sorted((root / folder).rglob("*.h")):
            if path.name.endswith("_test.cpp") or "sextant/recipe/" in path.as_posix():
                continue
            text = path.read_text()
            aliases = aliases_of(text, groups)
            if "to_model_shape(" in text:
                unread -= {key for key in keys if key.startswith("model.")}
            unread -= keys_read(text, unread, aliases)
    unread -= {key for key, other in TURNED_INTO.items() if other not in unread}
    for key in sorted(unread):
        print(f"{key} is in the key table and no code reads it")
    if not unread:
        print(f"{len(keys)} keys, all read")
    return 1 if unread else 0


def self_test():
    assert keys_read("x = recipe.run.seed;", {"run.seed"}, []) == {"run.seed"}
    assert keys_read("call.recipe->run.seed + 1", {"run.seed"}, []) == {"run.seed"}
    assert keys_read("loaded.recipe.get().run.seed", {"run.seed"}, []) == {"run.seed"}
    assert keys_read("recipe.run.seeds", {"run.seed"}, []) == set()
    assert aliases_of("const auto& html = recipe.crawl.html;", ["crawl.html"]) == [("crawl.html", "html")]
    assert aliases_of("f(const LrSchedulerKeys& keys)", ["lr_scheduler"]) == [("lr_scheduler", "keys")]
    depth = {"crawl.html.max_depth"}
    assert keys_read("html.max_depth", depth, [("crawl.html", "html")]) == depth
    assert keys_read("crawl.html.max_depth", depth, [("crawl", "crawl")]) == depth


if __name__ == "__main__":
    self_test()
    sys.exit(main(sys.argv[1]))
