#include "sextant/crawl/minhash_dedup.h"

#include <algorithm>
#include <numeric>

#include "sextant/base/hash.h"

namespace sx {

namespace {

constexpr std::size_t kMaxLeaders = 16;

}  // namespace

NearDuplicates::NearDuplicates(const NearDuplicateOptions& options)
    : options_(options), hasher_(options.bands, options.rows, options.seed) {}

DocumentSketch NearDuplicates::sketch(std::string_view text) const {
  DocumentSketch out;
  out.shingles = word_shingles(normalize_for_shingles(text), options_.words);
  out.keys = hasher_.band_keys(out.shingles);
  out.bytes = text.size();
  return out;
}

void NearDuplicates::add(DocumentSketch sketch, std::uint64_t id) {
  documents_.push_back(std::move(sketch));
  ids_.push_back(id);
}

std::uint32_t NearDuplicates::root_of(std::uint32_t document) {
  std::uint32_t root = document;
  while (parent_[root] != root) root = parent_[root];
  while (parent_[document] != root) document = std::exchange(parent_[document], root);
  return root;
}

void NearDuplicates::search_bucket(const std::vector<std::uint32_t>& documents) {
  std::vector<std::uint32_t> leaders;
  for (const std::uint32_t document : documents) {
    bool found = false;
    for (const std::uint32_t leader : leaders) {
      const std::uint32_t a = root_of(leader);
      const std::uint32_t b = root_of(document);
      if (a == b) {
        found = true;
        break;
      }
      ++report_.candidates;
      if (jaccard(documents_[leader].shingles, documents_[document].shingles) < options_.jaccard)
        continue;
      ++report_.verified;
      parent_[std::max(a, b)] = std::min(a, b);
      found = true;
      break;
    }
    if (found) continue;
    if (leaders.size() < kMaxLeaders)
      leaders.push_back(document);
    else
      ++report_.leader_caps;
  }
}

std::vector<bool> NearDuplicates::finish() {
  const std::size_t n = documents_.size();
  parent_.resize(n);
  std::iota(parent_.begin(), parent_.end(), 0U);
  std::vector<std::pair<std::uint64_t, std::uint32_t>> entries(n);
  for (std::size_t band = 0; band < options_.bands; ++band) {
    for (std::size_t i = 0; i < n; ++i)
      entries[i] = {documents_[i].keys[band], static_cast<std::uint32_t>(i)};
    std::sort(entries.begin(), entries.end());
    std::vector<std::uint32_t> bucket;
    for (std::size_t begin = 0; begin < n;) {
      std::size_t end = begin;
      while (end < n && entries[end].first == entries[begin].first) ++end;
      if (end - begin > 1) {
        bucket.clear();
        for (std::size_t i = begin; i < end; ++i) {
          // A document without words resembles nothing: it is for exact search.
          if (!documents_[entries[i].second].shingles.empty()) bucket.push_back(entries[i].second);
        }
        search_bucket(bucket);
      }
      begin = end;
    }
  }
  // The document of each cluster that stays; documents come in order, so ties go to the first.
  std::vector<std::uint32_t> chosen(n);
  std::iota(chosen.begin(), chosen.end(), 0U);
  const auto better = [&](std::uint32_t a, std::uint32_t b) {
    if (options_.keep == KeepRule::kLongest) return documents_[a].bytes > documents_[b].bytes;
    if (options_.keep == KeepRule::kRandom) {
      const auto draw = [&](std::uint32_t d) {
        return xxh64({reinterpret_cast<const char*>(&ids_[d]), sizeof ids_[d]}, options_.seed);
      };
      return draw(a) < draw(b);
    }
    return false;
  };
  std::vector<bool> keep(n);
  std::vector<std::uint32_t> sizes(n);
  for (std::uint32_t i = 0; i < n; ++i) {
    const std::uint32_t root = root_of(i);
    if (++sizes[root] > 1 && better(i, chosen[root])) chosen[root] = i;
  }
  for (std::uint32_t i = 0; i < n; ++i) {
    keep[i] = chosen[root_of(i)] == i;
    report_.dropped += keep[i] ? 0 : 1;
    report_.clusters += sizes[i] > 1 ? 1 : 0;
  }
  report_.documents = n;
  return keep;
}

}  // namespace sx
