#include "sextant/ckpt/diff.h"

#include <ATen/ops/from_blob.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "sextant/ckpt/safetensors.h"

namespace sx {
namespace {

constexpr std::int64_t kBlock = std::int64_t{1} << 18;  // elements

std::string form_of(const StoredTensor& tensor) {
  return fmt::format("{} [{}]", safetensors::to_string(tensor.dtype),
                     fmt::join(tensor.shape, ", "));
}

void compare_block(std::vector<std::byte>& a, std::vector<std::byte>& b, const StoredTensor& stored,
                   std::int64_t begin, std::int64_t count, TensorDifference& found) {
  if (std::memcmp(a.data(), b.data(), a.size()) == 0) return;
  const auto element = static_cast<std::size_t>(safetensors::size_bytes(stored.dtype));
  const auto values = [&](std::vector<std::byte>& bytes) {
    return at::from_blob(bytes.data(), {count}, at::TensorOptions(to_scalar_type(stored.dtype)))
        .to(at::kDouble);
  };
  const at::Tensor va = values(a), vb = values(b);
  const double* x = va.const_data_ptr<double>();
  const double* y = vb.const_data_ptr<double>();
  for (std::int64_t i = 0; i < count; ++i) {
    const std::size_t at = static_cast<std::size_t>(i) * element;
    if (std::memcmp(a.data() + at, b.data() + at, element) == 0) continue;
    if (found.count++ == 0) found.first = begin + i;
    const double delta = std::abs(x[i] - y[i]);
    if (std::isnan(delta) || delta > found.max_abs) found.max_abs = delta;
  }
}

Result<TensorDifference> compare_tensor(const std::string& name, const Checkpoint& a,
                                        const Checkpoint& b) {
  TensorDifference found{.name = name};
  const StoredTensor& in_a = a.manifest().tensors.at(name);
  const StoredTensor& in_b = b.manifest().tensors.at(name);
  if (in_a.dtype != in_b.dtype || in_a.shape != in_b.shape) {
    found.form = fmt::format("{} and {}", form_of(in_a), form_of(in_b));
    return found;
  }
  const std::int64_t total = num_elements(in_a.shape);
  std::vector<std::byte> x, y;
  for (std::int64_t begin = 0; begin < total; begin += kBlock) {
    const std::int64_t count = std::min(kBlock, total - begin);
    x.resize(static_cast<std::size_t>(count * safetensors::size_bytes(in_a.dtype)));
    y.resize(x.size());
    SX_TRY_VOID(a.read_range(name, begin, count, x));
    SX_TRY_VOID(b.read_range(name, begin, count, y));
    compare_block(x, y, in_a, begin, count, found);
  }
  return found;
}

}  // namespace

Result<CheckpointDifference> diff_checkpoints(const Checkpoint& a, const Checkpoint& b) {
  CheckpointDifference difference;
  for (const auto& [name, stored] : a.manifest().tensors) {
    if (b.manifest().tensors.count(name) == 0) {
      difference.only_a.push_back(name);
      continue;
    }
    SX_TRY(TensorDifference found, compare_tensor(name, a, b));
    if (found.form.empty() && found.count == 0) {
      ++difference.equal;
    } else {
      difference.tensors.push_back(std::move(found));
    }
  }
  for (const auto& [name, stored] : b.manifest().tensors) {
    if (a.manifest().tensors.count(name) == 0) difference.only_b.push_back(name);
  }
  std::set<std::string> states;
  for (const Checkpoint* side : {&a, &b}) {
    for (const auto& [name, file] : side->manifest().states) states.insert(name);
  }
  for (const std::string& name : states) {
    const auto x = a.state(name), y = b.state(name);
    if (!x.ok() && x.error().kind != ErrorKind::kNotFound) return x.error();
    if (!y.ok() && y.error().kind != ErrorKind::kNotFound) return y.error();
    if (!x.ok() || !y.ok() || *x != *y) difference.states.push_back(name);
  }
  return difference;
}

std::string CheckpointDifference::to_text() const {
  std::string text;
  for (const std::string& name : only_a) text += fmt::format("{}: only in the first\n", name);
  for (const std::string& name : only_b) text += fmt::format("{}: only in the second\n", name);
  for (const TensorDifference& tensor : tensors) {
    text += tensor.form.empty()
                ? fmt::format("{}: {} elements differ, the first at {}, by {:.6g} at most\n",
                              tensor.name, tensor.count, tensor.first, tensor.max_abs)
                : fmt::format("{}: {}\n", tensor.name, tensor.form);
  }
  for (const std::string& name : states) text += fmt::format("state {}: differs\n", name);
  return text + fmt::format("{} tensors equal, {} differ\n", equal,
                            tensors.size() + only_a.size() + only_b.size());
}

nlohmann::ordered_json CheckpointDifference::to_json() const {
  nlohmann::ordered_json out{
      {"same", same()}, {"equal", equal}, {"only_a", only_a}, {"only_b", only_b}};
  out["tensors"] = nlohmann::ordered_json::array();
  for (const TensorDifference& tensor : tensors) {
    nlohmann::ordered_json row{{"name", tensor.name}};
    if (tensor.form.empty()) {
      row["count"] = tensor.count;
      row["first"] = tensor.first;
      row["max_abs"] = tensor.max_abs;
    } else {
      row["form"] = tensor.form;
    }
    out["tensors"].push_back(std::move(row));
  }
  out["states"] = states;
  return out;
}

}  // namespace sx
