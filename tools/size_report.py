#!/usr/bin/env python3
"""size_report.py ROOT: files, lines, longest file, longest function and share of comment lines, per folder. Nothing fails
on it; it is for reading beside a change."""
import pathlib
import sys

ROOT = pathlib.Path(sys.argv[1])
sys.path.insert(0, str(ROOT / 'tests/layering'))
from source_text import blank, functions  # noqa: E402


class Sizes:
    def __init__(self):
        self.files = self.lines = self.comments = self.code = self.tests = 0
        self.header_comments = self.header_lines = 0
        self.longest_file = self.longest_function = (0, '')

    def add(self, path):
        text = path.read_text(errors='replace')
        lines = text.splitlines()
        if path.stem.endswith('_test'):
            self.tests += len(lines)
            return
        bare = blank(text).splitlines()
        filled = [(line, code) for line, code in zip(lines, bare) if line.strip()]
        comments = sum(not code.strip() for _, code in filled)
        self.files += 1
        self.lines += len(lines)
        if path.suffix == '.h':
            self.header_comments += comments
            self.header_lines += len(filled)
        else:
            self.comments += comments
            self.code += len(filled)
        self.longest_file = max(self.longest_file, (len(lines), path.name))
        for start, length in functions(text):
            self.longest_function = max(self.longest_function, (length, f'{path.name}:{start}'))


def share(part, whole):
    return f'{100 * part // whole} %' if whole else '-'


def main():
    folders = sorted(path for top in ('sextant', 'apps') for path in (ROOT / top).iterdir() if path.is_dir())
    row = '{:22} {:>5} {:>6} {:>6}  {:34} {:36} {:>8} {:>8}'.format
    print(row('folder', 'files', 'lines', 'tests', 'longest file', 'longest function', 'comm. .h', 'comm. .cpp'))
    total = Sizes()
    for folder in folders:
        sizes = Sizes()
        for path in sorted(folder.rglob('*')):
            if path.suffix in ('.h', '.cpp', '.cu'):
                sizes.add(path)
                total.add(path)
        if sizes.files:
            print_row(row, folder.relative_to(ROOT).as_posix(), sizes)
    print_row(row, 'all', total)


def print_row(row, name, sizes):
    print(row(name, sizes.files, sizes.lines, sizes.tests, '{} {}'.format(*sizes.longest_file),
              '{} {}'.format(*sizes.longest_function), share(sizes.header_comments, sizes.header_lines),
              share(sizes.comments, sizes.code)))


if __name__ == '__main__':
    main()
