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

/// The front page of `./sx demo`; its data block is `summary` itself (summary.json).
///
/// Keys that are read, all optional:
/// - records, pages, documents: counts; records and dropped {reason: count} make the funnel if
///   documents + drops = records
/// - languages {code: count}: documents by language
/// - tokens, vocab_size: of the packed training text
/// - first_loss, last_loss, held_out_loss, unigram_entropy, bigram_entropy: nats per token
/// - tokens_per_s
/// - stages [{name, seconds}], or stage_seconds {name: seconds}
/// - sample_prompt, sample
Page make_demo_page(const PageFacts& facts, const nlohmann::ordered_json& summary,
                    const std::vector<DemoLink>& links);

}  // namespace sx
