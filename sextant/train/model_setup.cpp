#include "sextant/train/model_setup.h"

#include <fmt/format.h>

#include "sextant/base/diagnostic.h"
#include "sextant/recipe/model_shape.h"

namespace sx {

namespace {

Diagnostic shape_diagnostic(const ShapeFault& fault) {
  const bool heads = fault.key.find("head") != std::string::npos;
  return user_fault(heads ? 13 : 3, fault.what, "model." + fault.key, fault.rule,
                    "sextant train --help-recipe");
}

}  // namespace

ModelShape model_shape_of(const Recipe& recipe, std::int64_t vocab_size) {
  const ModelShape shape = to_model_shape(recipe, vocab_size);
  std::vector<Diagnostic> faults;
  for (const ShapeFault& fault : shape.validate()) faults.push_back(shape_diagnostic(fault));
  if (shape.vocab_size < vocab_size) {
    faults.push_back(
        user_fault(16,
                   fmt::format("model.vocab_size = {} is smaller than the tokenizer's {}",
                               shape.vocab_size, vocab_size),
                   "model.vocab_size", "every token id has a row in the embedding",
                   "leave model.vocab_size at \"auto\""));
  }
  if (!faults.empty()) throw ConfigError(std::move(faults));
  return shape;
}

c10::ScalarType param_dtype(Dtype dtype) {
  return dtype == Dtype::kFp64 ? c10::kDouble : c10::kFloat;
}

DecoderOptions decoder_options(Dtype dtype) {
  DecoderOptions options;
  if (dtype == Dtype::kBf16) options.compute_dtype = c10::kBFloat16;
  if (dtype == Dtype::kFp16) options.compute_dtype = c10::kHalf;
  return options;
}

}  // namespace sx
