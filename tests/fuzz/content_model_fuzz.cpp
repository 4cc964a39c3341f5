// Any bytes as a content model: refused, or a model that predicts and writes itself as it was read.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "sextant/crawl/extract/main_content.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto trees = sx::BoostedTrees::from_text(text);
  if (trees.ok()) {
    const std::vector<float> row(trees->num_features(), 0.5F);
    const double p = trees->predict(row);
    if (!(p >= 0 && p <= 1)) std::abort();
    if (!sx::BoostedTrees::from_text(trees->to_text()).ok()) std::abort();
  }
  const auto model = sx::ContentModel::from_text(text);
  if (model.ok() && !sx::ContentModel::from_text(model->to_text()).ok()) std::abort();
  return 0;
}
