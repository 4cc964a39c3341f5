#!/usr/bin/env python3
"""check_layering.py ROOT: the rules of docs/architecture.md that a compiler does not check. Prints each breach as
`file:line: rule: text` and ends with 1 if there is one. Each rule is a function that yields breaches of one file."""
import pathlib
import re
import sys

from source_text import blank, declarations, includes

HEADERS = {'.h', '.cuh', '.hpp'}
SOURCES = HEADERS | {'.cpp', '.cu', '.cc'}
SKIPPED_FOLDERS = {'build', '.git', '.deps', 'runs', '.cache'}

# Function-local state of the process, each with the reason why it cannot be passed.
ALLOWED_STATICS = {
    'sextant/base/console.cpp': 'standard error is one per process',
    'sextant/base/log.cpp': 'the sink of SX_LOG, configured by main; the rank of a rank thread',
    'sextant/base/log.h': 'SX_LOG_EVERY_S remembers its last time',
    'sextant/text/html_arena.cpp': 'memory functions of lexbor take no context; one arena is in force per thread',
    'sextant/nn/recompute.cpp': 'how deep backward passes of a thread are nested; LibTorch shows its own count to nobody',
    'sextant/tensor/memory_tracker.cpp': 'LibTorch has one CPU allocator, which is told nothing but a size',
    'sextant/tensor/block_cache.cpp': 'the same allocator: LibTorch frees blocks by their address alone',
    'sextant/base/signals.cpp': 'a signal handler reaches static storage only',
}


class Library:
    def __init__(self, name, torch, deps, test_deps):
        self.name, self.torch, self.deps, self.test_deps = name, torch, deps, test_deps


def cmake_calls(text, function):
    """Arguments of every call of `function`, comments removed."""
    text = re.sub(r'#[^\n]*', '', text)
    for call in re.finditer(r'\b' + function + r'\s*\(([^()]*)\)', text):
        yield call.group(1).split()


def keyword_values(arguments, keyword, keywords):
    values, active = [], False
    for argument in arguments:
        if argument in keywords:
            active = argument == keyword
        elif active:
            values.append(argument)
    return values


LIBRARY_WORDS = {'NAME', 'LAYER', 'TORCH', 'SOURCES', 'DEPS', 'LINK', 'PRIVATE_LINK'}
TEST_WORDS = {'NAME', 'SOURCES', 'DEPS', 'TORCH', 'LINK', 'LABELS', 'DATA', 'TIMEOUT'}


def read_libraries(root):
    libraries = {}
    for lists in sorted((root / 'sextant').glob('*/CMakeLists.txt')):
        text = lists.read_text()
        test_deps = set()
        for arguments in cmake_calls(text, 'sx_test'):
            test_deps.update(keyword_values(arguments, 'DEPS', TEST_WORDS))
        for arguments in cmake_calls(text, 'sx_library'):
            name = keyword_values(arguments, 'NAME', LIBRARY_WORDS)[0]
            libraries[name] = Library(name, 'TORCH' in arguments,
                                      keyword_values(arguments, 'DEPS', LIBRARY_WORDS), test_deps)
    return libraries


def closure(libraries, names):
    reached, waiting = set(), list(names)
    while waiting:
        name = waiting.pop()
        if name not in reached and name in libraries:
            reached.add(name)
            waiting.extend(libraries[name].deps)
    return reached


class File:
    def __init__(self, root, path, libraries):
        self.path = path.relative_to(root).as_posix()
        self.raw = path.read_text(errors='replace')
        self.text = blank(self.raw)
        self.is_header = path.suffix in HEADERS
        parts = self.path.split('/')
        self.library = libraries.get(parts[1]) if parts[0] == 'sextant' and len(parts) > 2 else None
        self.in_sextant = parts[0] == 'sextant'
        self.in_apps = parts[0] == 'apps'
        self.is_test = parts[0] in ('tests', 'bench', 'examples') or path.stem.endswith('_test')
        self.libraries = libraries

    def matches(self, pattern):
        for found in re.finditer(pattern, self.text):
            yield self.text.count('\n', 0, found.start()) + 1, found.group(0)


def rule_include_needs_dependency(file):
    if file.library is None:
        return
    names = [file.library.name] + (list(file.library.test_deps) if file.is_test else [])
    allowed = closure(file.libraries, names)
    for line, target, _ in includes(file.raw):
        parts = target.split('/')
        if parts[0] == 'sextant' and len(parts) > 2 and parts[1] not in allowed:
            yield line, f'{target}: sx_{parts[1]} is not among the dependencies of sx_{file.library.name}'
        if parts[0] == 'apps' or (parts[0] == 'tests' and not file.is_test):
            yield line, f'{target}: a library includes libraries only'


def rule_detail_folder_is_private(file):
    own = file.library.name if file.library else None
    for line, target, _ in includes(file.raw):
        found = re.match(r'sextant/([^/]+)/detail/', target)
        if found and found.group(1) != own:
            yield line, f'{target} belongs to sx_{found.group(1)} alone'


def rule_environment_only_in_env(file):
    if file.is_test or file.path == 'sextant/base/env.cpp':
        return
    yield from file.matches(r'\b(secure_)?getenv\s*\(|\b(setenv|putenv|unsetenv)\s*\(|\benviron\b')


def rule_printing_only_in_apps(file):
    if file.is_test or not file.in_sextant:
        return
    yield from file.matches(r'\bv?printf\s*\(|\bputs\s*\(|\bputchar\s*\(|\bstd(out|err)\b|\bstd::(cout|cerr|clog)\b|\bfmt::print\b')


def rule_no_umbrella_headers(file):
    for line, target, _ in includes(file.raw):
        if target in ('torch/torch.h', 'torch/all.h', 'torch/extension.h', 'ATen/ATen.h'):
            yield line, target
        if file.is_header and 'c10d' in target:
            yield line, f'{target} in a header'
        if file.is_header and target in ('iostream', 'regex', 'ranges'):
            yield line, f'<{target}> in a header'


def rule_torch_only_in_torch_libraries(file):
    free_app = file.in_apps and not file.path.startswith('apps/sextant-train/')
    if not free_app and (file.library is None or file.library.torch):
        return
    for line, target, _ in includes(file.raw):
        if re.match(r'(torch|ATen|c10|caffe2)/', target):
            yield line, target


def rule_random_numbers_from_streams_only(file):
    if file.is_test:
        return
    yield from file.matches(r'\b(at|torch)::(rand|randn|randint|randperm|rand_like|randn_like|randint_like|manual_seed|bernoulli'
                            r'|multinomial|normal|dropout|native_dropout|default_rng)\b')
    yield from file.matches(r'(\.|->)(uniform_|normal_|random_|bernoulli_|exponential_|geometric_|cauchy_|log_normal_)\s*\(')
    yield from file.matches(r'\bstd::(random_device|mt19937(_64)?|default_random_engine|minstd_rand0?)\b|\bsrand\s*\(|\bdrand48\s*\('
                            r'|(?<![\w:.>])rand\s*\(\s*\)')


def is_mutable_variable(statement):
    """A variable that may change, by its declaration. Headings of functions and types are not variables."""
    words = re.sub(r'\[\[.*?\]\]|\balignas\s*\([^)]*\)|\b__extension__\b', ' ', statement).strip()
    if re.match(r'(using|typedef|template|friend|static_assert|namespace|return|public|private|protected|extern\s+template'
                r'|class|struct|union|enum|concept|requires|operator|SX_\w+|asm|goto|case|default|throw|delete|co_\w+)\b', words):
        return False
    if re.search(r'\b(constexpr|consteval)\b', words):
        return False
    head = re.split(r'=', words, maxsplit=1)[0]
    if '(' in head or re.search(r'\boperator\b', head):
        return False  # a function
    plain = re.sub(r'<[^<>]*>', '', re.sub(r'<[^<>]*>', '', re.sub(r'<[^<>]*>', '', head)))
    if re.search(r'\bconst\b', plain.split('*')[-1]):
        return False  # `T* const x`; without a pointer the whole is the last part
    return bool(re.match(r'[\w:\s*&\[\]]*[\w\]]\s*$', plain)) and len(re.findall(r'\w+', plain)) >= 2


def rule_no_mutable_globals(file):
    if file.is_test:
        return
    for line, scope, statement in declarations(file.raw):
        if scope == 'namespace' and is_mutable_variable(statement):
            yield line, f'{statement[:80]} at namespace scope'
        elif re.match(r'(inline\s+)?(static|thread_local)\b', statement) and file.path not in ALLOWED_STATICS:
            # `static T x(arguments)` in a function is a variable, in a class a function.
            text = re.sub(r'\([^()]*\)\s*$', '', statement) if scope == 'function' else statement
            if is_mutable_variable(text):
                yield line, f'{statement[:80]} lives as long as the process'


def rule_no_names_without_a_concept(file):
    stem = pathlib.PurePosixPath(file.path).stem
    if re.fullmatch(r'.*(^|_)(utils?|helpers?|misc|common)(_test)?', stem):
        yield 1, f'{stem} says nothing; name the concept'


def rule_tests_do_not_skip(file):
    yield from file.matches(r'\bGTEST_SKIP\b|\bDISABLED_\w+')


def rule_no_todo(file):
    for number, line in enumerate(file.raw.splitlines(), 1):
        if re.search(r'\b(TODO|FIXME|XXX)\b(?!\(#\d+\))', line):
            yield number, line.strip()[:80]


RULES = [value for name, value in sorted(globals().items()) if name.startswith('rule_')]


def breaches(root):
    root = pathlib.Path(root)
    libraries = read_libraries(root)
    for top in ('sextant', 'apps', 'tests', 'bench', 'examples'):
        for path in sorted((root / top).rglob('*')):
            if path.suffix not in SOURCES or SKIPPED_FOLDERS & set(path.relative_to(root).parts):
                continue
            file = File(root, path, libraries)
            for rule in RULES:
                for line, text in rule(file):
                    yield file.path, line, rule.__name__[len('rule_'):], text
    for name in libraries:
        readme = root / 'sextant' / name / 'README.md'
        if readme.exists() and len(readme.read_text().splitlines()) > 40:
            yield f'sextant/{name}/README.md', 41, 'readme_fits_a_screen', 'more than 40 lines'


def main():
    found = list(breaches(sys.argv[1]))
    for path, line, rule, text in found:
        print(f'{path}:{line}: {rule}: {text}')
    print(f'{len(found)} breaches of the layering rules')
    return 1 if found else 0


if __name__ == '__main__':
    sys.exit(main())
