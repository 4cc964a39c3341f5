#pragma once

#include <vector>

#include "sextant/crawl/extract/html_blocks.h"

namespace sx {

/// Numbers about each block for the block model: its own, its elements', its neighbours' and the
/// page's. A row a block.
std::size_t num_block_features();
std::vector<float> block_features(const HtmlBlocks& page);

/// The second look: every number of the first and what the first model thought of the block, its
/// neighbours, its elements and the page.
std::size_t num_context_features();
std::vector<float> context_features(const HtmlBlocks& page, const std::vector<float>& first,
                                    const std::vector<double>& first_guess);

}  // namespace sx
