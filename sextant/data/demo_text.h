#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sx {

/// Document `index` of the built-in text: a short page of plain English sentences made by a small
/// grammar, with facts that are told early and asked for again later, counting and lists. UTF-8
/// (ASCII), 300 to 1500 bytes, a pure function of (seed, index). It lets a first run learn
/// something without any download; it is no training data.
std::string demo_document(std::uint64_t seed, std::uint64_t index);

/// Documents 0, 1, ... of the built-in text until at least `num_bytes` bytes.
std::vector<std::string> demo_documents(std::uint64_t seed, std::uint64_t num_bytes);

}  // namespace sx
