#include "sextant/data/fim.h"

#include <algorithm>
#include <array>
#include <utility>

#include "sextant/base/check.h"
#include "sextant/base/rng.h"

namespace sx {

namespace {

/// Byte offsets at which characters begin, and the end.
std::vector<std::size_t> character_starts(std::string_view text) {
  std::vector<std::size_t> starts;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xc0) != 0x80) starts.push_back(i);
  }
  if (starts.empty() || starts.front() != 0) starts.insert(starts.begin(), 0);
  starts.push_back(text.size());
  return starts;
}

/// True with probability `rate`: of the 2^32 draws, the first rate * 2^32.
bool happens(std::uint32_t draw, double rate) {
  return static_cast<double>(draw) < rate * 4294967296.0;
}

}  // namespace

Fim::Fim(Options options) : options_(std::move(options)) {
  SX_CHECK(
      options_.rate >= 0 && options_.rate <= 1 && options_.spm_rate >= 0 && options_.spm_rate <= 1,
      "rates {} and {}", options_.rate, options_.spm_rate);
  SX_CHECK(options_.encode && options_.decode, "no tokenizer");
}

Result<std::shared_ptr<const Fim>> Fim::make(const Tokenizer& tokenizer, Options options) {
  constexpr std::array<std::array<const char*, 3>, 4> kNames{{
      {"<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>"},
      {"<fim_prefix>", "<fim_middle>", "<fim_suffix>"},
      {"<fim-prefix>", "<fim-middle>", "<fim-suffix>"},
      {"<PRE>", "<MID>", "<SUF>"},
  }};
  const auto id_of = [&](const char* text) {
    for (const SpecialToken& special : tokenizer.specials()) {
      if (special.text == text) return static_cast<std::int32_t>(special.id);
    }
    return -1;
  };
  for (const auto& names : kNames) {
    options.prefix_id = id_of(names[0]);
    options.middle_id = id_of(names[1]);
    options.suffix_id = id_of(names[2]);
    if (options.prefix_id >= 0 && options.middle_id >= 0 && options.suffix_id >= 0) break;
  }
  if (options.prefix_id < 0 || options.middle_id < 0 || options.suffix_id < 0) {
    return Error{ErrorKind::kInvalid,
                 "fill-in-the-middle needs the special tokens <|fim_prefix|>, <|fim_middle|> and "
                 "<|fim_suffix|> (or as <fim_prefix>, <fim-prefix>, <PRE>)",
                 "tokenizer.path"};
  }
  options.eod_id = tokenizer.eod_id() ? static_cast<std::int32_t>(*tokenizer.eod_id()) : -1;
  options.encode = [tokenizer](std::string_view text) {
    std::vector<TokenId> ids;
    const auto stats = tokenizer.encode(text, ids);
    SX_CHECK(stats.ok(), "text does not encode");  // the default policies take every byte string
    return std::vector<std::int32_t>(ids.begin(), ids.end());
  };
  options.decode = [tokenizer](std::span<const std::int32_t> ids) {
    const std::vector<TokenId> known(ids.begin(), ids.end());
    return tokenizer.decode_lossy(known);
  };
  return std::shared_ptr<const Fim>(std::make_shared<Fim>(std::move(options)));
}

void Fim::append_part(std::span<const std::int32_t> part, const std::array<std::uint32_t, 4>& draws,
                      std::vector<std::int32_t>& out) const {
  const auto append = [&](std::string_view text) {
    const std::vector<std::int32_t> ids = options_.encode(text);
    out.insert(out.end(), ids.begin(), ids.end());
  };
  const bool padded = std::find(part.begin(), part.end(), options_.pad_id) != part.end();
  if (part.empty() || padded || !happens(draws[0], options_.rate)) {
    out.insert(out.end(), part.begin(), part.end());
    return;
  }
  const std::string text = options_.decode(part);
  const std::vector<std::size_t> starts = character_starts(text);
  const auto cut = [&](std::uint32_t draw) {
    return starts[static_cast<std::size_t>((std::uint64_t{draw} * starts.size()) >> 32)];
  };
  const auto [first, second] = std::minmax({cut(draws[1]), cut(draws[2])});
  const std::string_view prefix = std::string_view(text).substr(0, first);
  const std::string_view middle = std::string_view(text).substr(first, second - first);
  const std::string_view suffix = std::string_view(text).substr(second);
  out.push_back(options_.prefix_id);
  if (happens(draws[3], options_.spm_rate)) {
    out.push_back(options_.suffix_id);
    append(suffix);
    out.push_back(options_.middle_id);
    append(prefix);
  } else {
    append(prefix);
    out.push_back(options_.suffix_id);
    append(suffix);
    out.push_back(options_.middle_id);
  }
  append(middle);
}

void Fim::apply(const std::string& path_id, std::uint64_t epoch, std::uint64_t unit,
                std::span<std::int32_t> sample) const {
  const RandomStream stream(options_.seed, "data.fim:" + path_id, epoch);
  std::vector<std::int32_t> out;
  std::size_t begin = 0;
  for (std::uint64_t part = 0; begin <= sample.size(); ++part) {
    const auto from = sample.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto at =
        options_.eod_id < 0 ? sample.end() : std::find(from, sample.end(), options_.eod_id);
    const std::uint64_t element = (unit << 16) + std::min<std::uint64_t>(part, 0xffff);
    append_part(std::span<const std::int32_t>(from, at),
                {stream.u32(4 * element), stream.u32(4 * element + 1), stream.u32(4 * element + 2),
                 stream.u32(4 * element + 3)},
                out);
    if (at == sample.end()) break;
    out.push_back(options_.eod_id);
    begin = static_cast<std::size_t>(at - sample.begin()) + 1;
  }
  out.resize(sample.size(), options_.pad_id);
  std::copy(out.begin(), out.end(), sample.begin());
}

}  // namespace sx
