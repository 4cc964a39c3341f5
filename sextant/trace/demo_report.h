#pragma once

#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "sextant/trace/page.h"

namespace sx {

/// A report page of one stage, for the table of links: relative path and what it tells.
struct DemoLink {
  std::string path;
  std::string text;
};

/// The front page of `./sx demo` from its summary.json. Read from `summary` (absent = left out):
/// pages, documents, dropped {reason: count}, languages {code: count}, tokens, vocab_size,
/// first_loss, last_loss, held_out_loss, unigram_entropy, bigram_entropy, tokens_per_s, stages
/// [{name, seconds}] or seconds {name: s}, sample.
Page make_demo_page(const PageFacts& facts, const nlohmann::ordered_json& summary,
                    const std::vector<DemoLink>& links);

}  // namespace sx
