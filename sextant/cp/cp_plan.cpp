#include "sextant/cp/cp_plan.h"

#include <algorithm>

#include "sextant/base/check.h"

namespace sx {
namespace {

/// `tokens` ascending; pieces end where the tokens or the document do.
std::vector<SeqPiece> pieces_of(std::span<const std::int64_t> tokens,
                                std::span<const SeqPiece> documents) {
  std::vector<SeqPiece> pieces;
  std::size_t document = 0;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const std::int64_t token = tokens[i];
    while (token >= documents[document].index + documents[document].length) ++document;
    const bool joins = !pieces.empty() && pieces.back().document == documents[document].document &&
                       tokens[i - 1] + 1 == token;
    if (joins) {
      ++pieces.back().length;
    } else {
      pieces.push_back({documents[document].document, token - documents[document].index,
                        static_cast<std::int64_t>(i), 1});
    }
  }
  return pieces;
}

}  // namespace

CpPlan::CpPlan(SeqPartitionKind kind, std::span<const std::int64_t> documents, std::int64_t degree,
               AttentionMask mask)
    : mask_(mask) {
  SX_CHECK(mask.left >= 0 && mask.right >= 0, "a mask from -{} to +{}", mask.left, mask.right);
  for (std::size_t i = 0; i < documents.size(); ++i) {
    if (documents[i] > 0) {
      row_pieces_.push_back({static_cast<std::int64_t>(i), 0, num_tokens_, documents[i]});
    }
    num_tokens_ += documents[i];
  }
  for (const std::vector<SeqRange>& ranges : partition_sequence(kind, documents, degree)) {
    tokens_.push_back(token_indices(ranges));
  }
  finish();
}

void CpPlan::finish() {
  pieces_.clear();
  for (const std::vector<std::int64_t>& tokens : tokens_) {
    pieces_.push_back(pieces_of(tokens, row_pieces_));
  }
  ring_steps_ = {0};
  for (std::int64_t i = 1; i < degree(); ++i) {
    bool needed = false;
    for (std::int64_t r = 0; r < degree() && !needed; ++r) {
      needed = any_visible(pieces(r), pieces((r - i + degree()) % degree()), mask_);
    }
    if (needed) ring_steps_.push_back(i);
  }
}

std::vector<std::int64_t> CpPlan::positions(std::int64_t coord) const {
  std::vector<std::int64_t> out;
  for (const SeqPiece& piece : pieces(coord)) {
    for (std::int64_t i = 0; i < piece.length; ++i) out.push_back(piece.position + i);
  }
  return out;
}

std::vector<AttentionBlock> CpPlan::blocks(std::int64_t query_coord, std::int64_t key_coord) const {
  return visible_blocks(pieces(query_coord), pieces(key_coord), mask_);
}

std::vector<AttentionBlock> CpPlan::row_blocks(std::int64_t query_coord) const {
  return visible_blocks(pieces(query_coord), row_pieces_, mask_);
}

std::vector<AttentionBlock> CpPlan::all_blocks() const {
  return visible_blocks(row_pieces_, row_pieces_, mask_);
}

std::int64_t CpPlan::max_tokens() const {
  std::int64_t most = 0;
  for (std::int64_t r = 0; r < degree(); ++r) most = std::max(most, num_tokens(r));
  return most;
}

CpPlan CpPlan::joined(std::int64_t inner) const {
  SX_CHECK(inner >= 1 && degree() % inner == 0, "inner degree {} does not divide {}", inner,
           degree());
  CpPlan plan;
  plan.mask_ = mask_;
  plan.num_tokens_ = num_tokens_;
  plan.row_pieces_ = row_pieces_;
  for (std::int64_t o = 0; o < degree() / inner; ++o) {
    std::vector<std::int64_t> tokens;
    for (std::int64_t r = o * inner; r < (o + 1) * inner; ++r) {
      tokens.insert(tokens.end(), this->tokens(r).begin(), this->tokens(r).end());
    }
    std::sort(tokens.begin(), tokens.end());
    plan.tokens_.push_back(std::move(tokens));
  }
  plan.finish();
  return plan;
}

std::vector<std::int64_t> indices_in(std::span<const std::int64_t> tokens,
                                     std::span<const std::int64_t> coordinate_tokens) {
  std::vector<std::int64_t> out;
  out.reserve(tokens.size());
  for (const std::int64_t token : tokens) {
    const auto at = std::lower_bound(coordinate_tokens.begin(), coordinate_tokens.end(), token);
    SX_CHECK(at != coordinate_tokens.end() && *at == token, "token {} lies elsewhere", token);
    out.push_back(at - coordinate_tokens.begin());
  }
  return out;
}

}  // namespace sx
