#!/usr/bin/env python3
"""check_docs.py ROOT: what docs/architecture.md says of the tree is true: every file of its map exists, its table of
targets equals CMake's, no relative link of any page is dead, and every event of the log is listed."""
import pathlib
import re
import sys

from check_layering import LIBRARY_WORDS, SKIPPED_FOLDERS, cmake_calls, keyword_values


def architecture(root):
    return (pathlib.Path(root) / 'docs/architecture.md').read_text()


def map_breaches(root):
    """Rows `| 7 | question | `path`, `path` |`: each path of the last cell exists; one with a `*` matches something."""
    rows = re.findall(r'^\|\s*(\d+)\s*\|[^|\n]+\|([^|\n]+)\|\s*$', architecture(root), re.M)
    rows = [(number, re.findall(r'`([\w./*-]+/[\w./*-]*)`', cell)) for number, cell in rows]
    if not any(paths for _, paths in rows):
        yield 'no map of files found'
    for number, paths in rows:
        for path in paths:
            if not list(pathlib.Path(root).glob(path.rstrip('/'))):
                yield f'question {number}: {path} does not exist'


def table_breaches(root):
    """Rows `| `sx_base` | 0 | ... | no |` against the sx_library calls."""
    in_table = {}
    for name, layer, torch in re.findall(r'^\|\s*`sx_(\w+)`\s*\|\s*(\d+)\s*\|.*\|\s*(yes|no)\s*\|\s*$', architecture(root), re.M):
        in_table[name] = (layer, torch)
    in_cmake = {}
    for lists in (pathlib.Path(root) / 'sextant').glob('*/CMakeLists.txt'):
        for arguments in cmake_calls(lists.read_text(), 'sx_library'):
            name = keyword_values(arguments, 'NAME', LIBRARY_WORDS)[0]
            layer = keyword_values(arguments, 'LAYER', LIBRARY_WORDS)[0]
            in_cmake[name] = (layer, 'yes' if 'TORCH' in arguments else 'no')
    for name in sorted(in_table.keys() | in_cmake.keys()):
        if name not in in_cmake:
            yield f'sx_{name} is in the table, not in CMake'
        elif name not in in_table:
            yield f'sx_{name} is in CMake, not in the table'
        else:
            for what, table, cmake in zip(('layer', 'torch'), in_table[name], in_cmake[name]):
                if table != cmake:
                    quoted = (table, cmake) if what == 'layer' else (f'"{table}"', f'"{cmake}"')
                    yield f'sx_{name}: {what} {quoted[0]} in the table, {quoted[1]} in CMake'


def link_breaches(root):
    root = pathlib.Path(root)
    for page in sorted(root.rglob('*.md')):
        if SKIPPED_FOLDERS & set(page.relative_to(root).parts):
            continue
        text = re.sub(r'```.*?```|`[^`\n]*`', '', page.read_text(), flags=re.S)
        for target in re.findall(r'\]\(([^)\s]+)\)', text):
            path = target.split('#')[0]
            if path and not re.match(r'[a-z]+:', path) and not (page.parent / path).exists():
                yield f'{page.relative_to(root)}: {path} does not exist'


def event_breaches(root):
    """Every event name given to SX_LOG stands in a row of docs/events.md."""
    root = pathlib.Path(root)
    listed = set(re.findall(r'^\| `([a-z]+\.[a-z_]+)` \|', (root / 'docs/events.md').read_text(), re.M))
    for path in sorted([*(root / 'sextant').rglob('*.cpp'), *(root / 'apps').rglob('*.cpp')]):
        if path.stem.endswith('_test'):
            continue
        for call in re.findall(r'\bSX_LOG(?:_EVERY_S)?\s*\(([^;]*)\);', path.read_text()):
            for event in re.findall(r'"([a-z]+\.[a-z_]+)"', call):
                if event not in listed:
                    yield f'{path.relative_to(root)}: event {event} is not in docs/events.md'


def main():
    root = sys.argv[1]
    found = [*map_breaches(root), *table_breaches(root), *link_breaches(root), *event_breaches(root)]
    for text in found:
        print(text)
    print(f'{len(found)} faults in the pages')
    return 1 if found else 0


if __name__ == '__main__':
    sys.exit(main())
