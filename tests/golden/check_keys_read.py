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


def is_read(key, text, aliases):
    group, leaf = key.rsplit(".", 1)
    if re.search(rf"(?:\.|->){re.escape(key)}\b", text):
        return True
    return any(re.search(rf"\b{re.escape(name)}\.{re.escape(rest)}\b", text)
               for prefix, name in aliases if key.startswith(prefix + ".")
               for rest in [key[len(prefix) + 1:]])


def aliases_of(text, groups):
    """(group, local name) for `x = recipe.group` and parameters `const GroupKeys& x`."""
    found = []
    for group in groups:
        found += [(group, n) for n in re.findall(rf"(\w+) = [\w.>()-]*(?:\.|->){re.escape(group)};", text)]
        words = "".join(part.capitalize() for part in group.replace(".", "_").split("_"))
        found += [(group, n) for n in re.findall(rf"\b{words}Keys&? (\w+)", text)]
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
            unread = {key for key in unread if not is_read(key, text, aliases)}
    unread -= {key for key, other in TURNED_INTO.items() if other not in unread}
    for key in sorted(unread):
        print(f"{key} is in the key table and no code reads it")
    if not unread:
        print(f"{len(keys)} keys, all read")
    return 1 if unread else 0


def self_test():
    assert is_read("run.seed", "x = recipe.run.seed;", [])
    assert is_read("run.seed", "call.recipe->run.seed + 1", [])
    assert not is_read("run.seed", "recipe.run.seeds", [])
    assert aliases_of("const auto& html = recipe.crawl.html;", ["crawl.html"]) == [("crawl.html", "html")]
    assert aliases_of("f(const LrSchedulerKeys& keys)", ["lr_scheduler"]) == [("lr_scheduler", "keys")]
    assert is_read("crawl.html.max_depth", "html.max_depth", [("crawl.html", "html")])


if __name__ == "__main__":
    self_test()
    sys.exit(main(sys.argv[1]))
