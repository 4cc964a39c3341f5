// update_golden SOURCE_DIR: writes every pinned text.
#include <fmt/format.h>

#include <cstdio>

#include "sextant/base/fs.h"
#include "tests/golden/golden_texts.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  for (const auto& [path, text] : sx::golden_texts()) {
    const sx::fs::path target = sx::fs::path(argv[1]) / path;
    const auto made = sx::make_dirs(target.parent_path());
    const auto written = sx::write_file_atomic(target, text);
    if (!made.ok() || !written.ok()) {
      std::fprintf(stderr, "cannot write %s\n", target.c_str());
      return 3;
    }
  }
  return 0;
}
