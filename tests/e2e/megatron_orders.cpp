// Orders by Sextant for settings on standard input, one JSON object a line, to be compared with
// those of Megatron-LM (megatron_test.py). Answers with one JSON object a line: MD5 of arrays and
// of sample tokens as 64-bit numbers; caches are written where the settings say.
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "sextant/base/check.h"
#include "sextant/data/md5.h"
#include "sextant/data/megatron_dataset.h"

namespace {

using Json = nlohmann::ordered_json;

template <class T>
std::string md5_of(const std::vector<T>& values) {
  return sx::md5_hex({reinterpret_cast<const char*>(values.data()), sizeof(T) * values.size()});
}

Json answer(sx::Result<sx::MegatronBlendIndex> made) {
  if (!made.ok()) return {{"error", made.error().to_string()}};
  return {{"datasets", md5_of(made->dataset_index)},
          {"samples", md5_of(made->dataset_sample_index)}};
}

sx::MegatronBlend blend_of(const Json& json) {
  sx::MegatronBlend blend{json[0].get<std::vector<std::string>>(), std::nullopt};
  if (!json[1].is_null()) blend.weights = json[1].get<std::vector<double>>();
  return blend;
}

sx::MegatronConfig config_of(const Json& json) {
  sx::MegatronConfig config;
  config.seed = json["seed"];
  config.seq_len = json["seq_len"];
  config.extra_token = json["extra_token"];
  config.drop_last_valid = json["drop_last_valid"];
  config.surplus = json["surplus"];
  config.tokenizer = json["tokenizer"];
  config.cache = json["cache"].get<std::string>();
  if (json["per_split"].is_null()) {
    config.blend = blend_of(json["blend"]);
    config.split = json["split"];
    return config;
  }
  config.per_split.emplace();
  for (std::size_t s = 0; s < 3; ++s) {
    if (!json["per_split"][s].is_null()) (*config.per_split)[s] = blend_of(json["per_split"][s]);
  }
  return config;
}

/// MD5 over the tokens of the first samples.
std::string sample_hash(const sx::MegatronDataset& dataset, std::uint64_t count, std::int64_t pad) {
  std::vector<std::int64_t> all;
  for (std::uint64_t k = 0; k < std::min(count, dataset.size()); ++k) {
    const auto place = dataset.at(k).value();
    const sx::GptDataset& member = *dataset.members()[place.member];
    std::vector<std::int32_t> tokens(member.sample_tokens());
    const auto pieces = member.pieces(member.row_of(place.sample).value()).value();
    const std::uint64_t filled = member.read(pieces, tokens).value();
    for (std::uint64_t i = 0; i < tokens.size(); ++i) all.push_back(i < filled ? tokens[i] : pad);
  }
  return md5_of(all);
}

Json datasets(const Json& json) {
  std::array<std::optional<std::uint64_t>, 3> sizes;
  for (std::size_t s = 0; s < 3; ++s) {
    if (!json["sizes"][s].is_null()) sizes[s] = json["sizes"][s].get<std::uint64_t>();
  }
  const auto splits = sx::open_megatron_datasets(config_of(json), sizes);
  if (!splits.ok()) return {{"error", splits.error().to_string()}};
  Json out = Json::array();
  for (const auto& dataset : *splits) {
    out.push_back(dataset ? Json{{"length", dataset->size()},
                                 {"description", sx::md5_hex(dataset->description())},
                                 {"tokens", sample_hash(*dataset, json["hashed"], json["pad"])}}
                          : Json(nullptr));
  }
  return {{"splits", out}};
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    const Json json = Json::parse(line);
    if (json["kind"] == "greedy") {
      const auto weights = sx::numpy_normalize(json["weights"].get<std::vector<double>>());
      std::cout << answer(sx::blend_greedy(weights, json["size"])).dump() << std::endl;
    } else if (json["kind"] == "exhaustive") {
      const auto lengths = json["sizes"].get<std::vector<std::uint64_t>>();
      std::cout << answer(sx::blend_exhaustive(lengths)).dump() << std::endl;
    } else {
      std::cout << datasets(json).dump() << std::endl;
    }
  }
}
