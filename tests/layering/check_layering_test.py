#!/usr/bin/env python3
"""Feeds the checks with small trees: each bad line must be found by its rule, and the good tree by none."""
import pathlib
import tempfile
import unittest

from check_docs import event_breaches, link_breaches, map_breaches, table_breaches
from check_layering import RULES, breaches

LISTS = {
    'base': 'sx_library(NAME base LAYER 0 SOURCES a.cpp)',
    'text': 'sx_library(NAME text LAYER 1 SOURCES a.cpp DEPS base)\nsx_test(NAME text SOURCES a_test.cpp DEPS text extra)',
    'extra': 'sx_library(NAME extra LAYER 1 SOURCES a.cpp DEPS base)',
    'crawl': 'sx_library(NAME crawl LAYER 2 SOURCES a.cpp DEPS text)',
    'tensor': 'sx_library(\n  NAME tensor\n  LAYER 4\n  TORCH\n  SOURCES a.cpp # comment\n  DEPS base)',
}

# (rule, file, text)
BAD = [
    ('include_needs_dependency', 'sextant/text/a.cpp', '#include "sextant/crawl/a.h"'),
    ('include_needs_dependency', 'sextant/base/a.h', '#include "sextant/text/a.h"'),
    ('include_needs_dependency', 'sextant/crawl/a.cpp', '#include "sextant/extra/a.h"'),
    ('include_needs_dependency', 'sextant/base/a_test.cpp', '#include "sextant/text/a.h"'),
    ('include_needs_dependency', 'sextant/base/a.cpp', '#include "apps/program/program.h"'),
    ('include_needs_dependency', 'sextant/base/a.cpp', '#include "tests/support/test_data.h"'),
    ('detail_folder_is_private', 'sextant/crawl/a.cpp', '#include "sextant/text/detail/x.h"'),
    ('environment_only_in_env', 'sextant/base/a.cpp', 'auto x() { return std::getenv("HOME"); }'),
    ('environment_only_in_env', 'apps/sextant/main.cpp', 'void x() { setenv("A", "b", 1); }'),
    ('printing_only_in_apps', 'sextant/base/a.cpp', 'void x() { printf("x"); }'),
    ('printing_only_in_apps', 'sextant/base/a.cpp', 'void x() { std::fprintf(stderr, "x"); }'),
    ('printing_only_in_apps', 'sextant/base/a.cpp', 'void x() { std::cerr << 1; }'),
    ('printing_only_in_apps', 'sextant/base/a.cpp', 'void x() { fmt::print("x"); }'),
    ('no_umbrella_headers', 'sextant/tensor/a.cpp', '#include <torch/torch.h>'),
    ('no_umbrella_headers', 'sextant/tensor/a.h', '#include <ATen/ATen.h>'),
    ('no_umbrella_headers', 'sextant/tensor/a.h', '#include <torch/csrc/distributed/c10d/Store.hpp>'),
    ('no_umbrella_headers', 'sextant/base/a.h', '#include <iostream>'),
    ('torch_only_in_torch_libraries', 'sextant/text/a.cpp', '#include <ATen/core/Tensor.h>'),
    ('torch_only_in_torch_libraries', 'apps/sextant/main.cpp', '#include <c10/util/Half.h>'),
    ('random_numbers_from_streams_only', 'sextant/tensor/a.cpp', 'auto x() { return at::randn({2}); }'),
    ('random_numbers_from_streams_only', 'sextant/tensor/a.cpp', 'void x() { torch::manual_seed(1); }'),
    ('random_numbers_from_streams_only', 'sextant/tensor/a.cpp', 'void x(at::Tensor t) { t.normal_(0, 1); }'),
    ('random_numbers_from_streams_only', 'sextant/text/a.cpp', 'std::uint32_t x() { return std::random_device{}(); }'),
    ('random_numbers_from_streams_only', 'sextant/text/a.cpp', 'int x() { return rand(); }'),
    ('no_mutable_globals', 'sextant/text/a.cpp', 'int counter = 0;'),
    ('no_mutable_globals', 'sextant/text/a.cpp', 'namespace sx {\nnamespace {\nstd::vector<int> cache{1, 2};\n}\n}'),
    ('no_mutable_globals', 'sextant/text/a.cpp', 'namespace sx { const char* name = "x"; }'),
    ('no_mutable_globals', 'sextant/text/a.cpp', 'static std::map<std::string, const int*> table;'),
    ('no_mutable_globals', 'sextant/text/a.h', 'namespace sx { inline std::atomic<int> num{0}; }'),
    ('no_mutable_globals', 'sextant/text/a.h', 'struct A {\n  int f() { return 1; }\n  static int count;\n};'),
    ('no_mutable_globals', 'sextant/text/a.cpp', 'int x() {\n  static int calls = 0;\n  return ++calls;\n}'),
    ('no_mutable_globals', 'sextant/text/a.cpp', 'int x() { static Cache cache(5); return cache.size(); }'),
    ('no_mutable_globals', 'sextant/text/a.cpp', 'thread_local int depth = 0;'),
    ('no_names_without_a_concept', 'sextant/text/utils.h', ''),
    ('no_names_without_a_concept', 'sextant/text/string_helpers.cpp', ''),
    ('no_names_without_a_concept', 'tests/support/common.h', ''),
    ('tests_do_not_skip', 'sextant/text/a_test.cpp', 'TEST(A, B) { GTEST_SKIP(); }'),
    ('tests_do_not_skip', 'sextant/text/a_test.cpp', 'TEST(A, DISABLED_B) {}'),
    ('no_todo', 'sextant/text/a.cpp', '// TODO: later'),
]

GOOD = {
    'sextant/base/env.cpp': 'auto x() { return std::getenv("HOME"); }',
    'sextant/base/a.h': '''// printf("in a comment"); int global = 1;
namespace sx {
/* std::cout << getenv("X") */
constexpr int kOne = 1;
inline constexpr std::array<int, 2> kTwo{1, 2};
const std::string& name();
extern const char* const kName;
template <class T> struct Box { T value{}; static Box make(int x); static constexpr int kSize = 3; static const Box kEmpty; };
enum class Kind { kA, kB };
using Names = std::vector<std::string>;
__extension__ using Wide = unsigned __int128;
int add(int a, int b = 2);
class Reader;
struct Options { int depth = 3; std::string path; } ;
bool operator==(const Options&, const Options&) = default;
}
''',
    'sextant/base/a.cpp': '''#include "sextant/base/a.h"
#define SX_COUNTER static int count = 0;
namespace sx {
namespace {
const std::map<std::string, int> kTable = {{"a", 1}, {"{", 2}};
constexpr auto kRows = std::to_array<int>({1, 2});
const char* const kText = R"(static int x; printf("x");)";
struct Parser { int at = 0; void run() { at = 1'000; char c = '{'; (void)c; } };
}  // namespace
const std::string& name() { static const std::string kName = "a"; return kName; }
int local() { int x = 3; auto f = [x] { return x; }; return f() + snprintf(nullptr, 0, "x"); }
void save(std::FILE* file) { std::fputs("x", file); }
}  // namespace sx
''',
    'sextant/text/a.cpp': '#include "sextant/base/a.h"\n#include <vector>\n',
    'sextant/text/a_test.cpp': '#include "sextant/extra/a.h"\n#include "tests/support/test_data.h"\nint num_calls = 0;\n',
    'sextant/crawl/a.cpp': '#include "sextant/base/a.h"\n#include "sextant/text/a.h"\n',
    'sextant/tensor/a.cpp': '#include <ATen/core/Tensor.h>\n#include <ATen/ops/add.h>\n',
    'apps/sextant/main.cpp': 'int main() { std::printf("x"); }',
    'apps/sextant-train/main.cpp': '#include <ATen/core/Tensor.h>\n',
    'tests/e2e/demo_test.cpp': 'auto x() { return std::getenv("HOME"); }',
}


class Tree:
    def __init__(self, test, files):
        self.folder = tempfile.TemporaryDirectory()
        test.addCleanup(self.folder.cleanup)
        self.root = pathlib.Path(self.folder.name)
        for name, lists in LISTS.items():
            self.add(f'sextant/{name}/CMakeLists.txt', lists)
        for path, text in files.items():
            self.add(path, text)

    def add(self, path, text):
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)


class LayeringTest(unittest.TestCase):
    def test_good_tree_has_no_breach(self):
        tree = Tree(self, GOOD)
        self.assertEqual(list(breaches(tree.root)), [])

    def test_each_bad_line_is_found_once_by_its_rule(self):
        for rule, path, text in BAD:
            with self.subTest(rule=rule, text=text):
                tree = Tree(self, {path: text})
                found = list(breaches(tree.root))
                self.assertEqual([(where, what) for where, _, what, _ in found], [(path, rule)], found)

    def test_every_rule_is_proved(self):
        self.assertEqual({rule.__name__[len('rule_'):] for rule in RULES}, {rule for rule, _, _ in BAD})

    def test_line_numbers(self):
        tree = Tree(self, {'sextant/text/a.cpp': '\n/* two\nlines */\n\nint counter = 0;\n'})
        self.assertEqual([line for _, line, _, _ in breaches(tree.root)], [5])

    def test_long_readme(self):
        tree = Tree(self, {'sextant/text/README.md': 'x\n' * 41})
        self.assertEqual([rule for _, _, rule, _ in breaches(tree.root)], ['readme_fits_a_screen'])


class DocsTest(unittest.TestCase):
    MAP = '| # | question | file |\n|---|---|---|\n| 1 | Where is a? | `sextant/base/a.h` |\n'
    TABLE = '| target | layer | holds | torch? |\n|---|---|---|---|\n| `sx_base` | 0 | a | no |\n'

    def test_map(self):
        tree = Tree(self, {**GOOD, 'docs/architecture.md': self.MAP})
        self.assertEqual(list(map_breaches(tree.root)), [])
        tree.add('docs/architecture.md', self.MAP + '| 2 | And b? | `sextant/base/b.h`, `sextant/text/` |\n')
        self.assertEqual(list(map_breaches(tree.root)), ['question 2: sextant/base/b.h does not exist'])
        tree.add('docs/architecture.md', '# nothing\n')
        self.assertEqual(list(map_breaches(tree.root)), ['no map of files found'])

    def test_table_of_targets(self):
        rest = ''.join(f'| `sx_{name}` | {layer} | x | {torch} |\n' for name, layer, torch in
                       (('text', 1, 'no'), ('extra', 1, 'no'), ('crawl', 2, 'no'), ('tensor', 4, 'yes')))
        tree = Tree(self, {**GOOD, 'docs/architecture.md': self.TABLE + rest})
        self.assertEqual(list(table_breaches(tree.root)), [])
        tree.add('docs/architecture.md', self.TABLE + rest.replace('| 2 |', '| 3 |').replace('yes', 'no') + '| `sx_gone` | 5 | x | no |\n')
        self.assertEqual(list(table_breaches(tree.root)),
                         ['sx_crawl: layer 3 in the table, 2 in CMake', 'sx_gone is in the table, not in CMake',
                          'sx_tensor: torch "no" in the table, "yes" in CMake'])
        tree.add('docs/architecture.md', self.TABLE)
        self.assertIn('sx_text is in CMake, not in the table', list(table_breaches(tree.root)))

    def test_links(self):
        tree = Tree(self, {**GOOD, 'README.md': '[a](docs/x.md) [b](https://example.org) [c](#part) [d](docs/x.md#part)\n', 'docs/x.md': '[up](../README.md)'})
        self.assertEqual(list(link_breaches(tree.root)), [])
        tree.add('docs/x.md', '```\n[in code](nothing.md)\n```\n[gone](gone.md)')
        self.assertEqual(list(link_breaches(tree.root)), ['docs/x.md: gone.md does not exist'])

    def test_events(self):
        call = 'void f(bool x) {\n  SX_LOG(kInfo, x ? "run.start" : "run.resume",\n         "out", 1);\n}\n'
        tree = Tree(self, {**GOOD, 'docs/events.md': '| `run.start` | info | `out` | x |\n', 'sextant/text/b.cpp': call})
        self.assertEqual(list(event_breaches(tree.root)), ['sextant/text/b.cpp: event run.resume is not in docs/events.md'])
        tree.add('docs/events.md', '| `run.start` | info | `out` | x |\n| `run.resume` | info | `out` | x |\n')
        self.assertEqual(list(event_breaches(tree.root)), [])


if __name__ == '__main__':
    unittest.main()
