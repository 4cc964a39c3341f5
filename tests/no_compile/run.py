#!/usr/bin/env python3
"""run.py ROOT COMPILER FLAG...: the snippets of this folder must compile as they are, and none with -DBREAK.

The first line of a snippet is `// error: <regular expression>`, which the compiler's words must match, so that a snippet
that fails for another reason does not count.
"""
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys


def compiles(command, text):
    run = subprocess.run([*command, '-fsyntax-only', '-x', 'c++', '-'], input=text, capture_output=True, text=True)
    return run.returncode == 0, run.stderr


def fault_of(command, snippet):
    text = snippet.read_text()
    expected = re.match(r'// error: (.*)', text).group(1)
    good, words = compiles([*command, '-DBREAK'], text)
    if good:
        return 'compiles with -DBREAK'
    if not re.search(expected, words):
        return f'fails for another reason than /{expected}/:\n{words}'
    return None


def main():
    root, command = pathlib.Path(sys.argv[1]), [*sys.argv[2:], '-std=c++20', '-I', sys.argv[1]]
    snippets = sorted((root / 'tests/no_compile').glob('*.cpp'))
    # As they are, all in one go: a snippet that never compiles would prove nothing.
    good, words = compiles(command, ''.join(f'#include "{snippet}"\n' for snippet in snippets))
    print('control:', 'ok' if good else words)
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        faults = list(pool.map(lambda snippet: fault_of(command, snippet), snippets))
    for snippet, fault in zip(snippets, faults):
        print(f'{snippet.name}: {fault or "ok"}')
    return 0 if good and snippets and not any(faults) else 1


if __name__ == '__main__':
    sys.exit(main())
