#include "sextant/ckpt/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <set>

#include "sextant/base/hash.h"
#include "sextant/base/rng.h"
#include "sextant/ckpt/logical_checksum.h"

namespace sx {
namespace {

using testing::HasSubstr;

Chunk chunk_of(Region region) {
  Chunk chunk;
  static_cast<Region&>(chunk) = std::move(region);
  chunk.file = "f";
  return chunk;
}
Chunk box(std::vector<std::int64_t> offset, std::vector<std::int64_t> size) {
  return chunk_of(Region::box(std::move(offset), std::move(size)));
}
Chunk flat(std::int64_t first, std::int64_t count) { return chunk_of(Region::flat(first, count)); }

/// Lays the chunks of a tensor one after the other into file "f".
void place(StoredTensor& tensor) {
  std::uint64_t position = 0;
  for (Chunk& chunk : tensor.chunks) {
    chunk.begin = position;
    position +=
        static_cast<std::uint64_t>(chunk.num_elements() * safetensors::size_bytes(tensor.dtype));
    chunk.end = position;
  }
}

Manifest example() {
  Manifest m;
  m.step = 120;
  m.tokens = 1'000'000'007;
  m.samples = 4096;
  m.created = "2026-08-31T12:00:00Z";
  m.sextant = "0.1.0";
  m.git = "unknown";
  m.fingerprint = "abc";
  m.mesh = {{"dp_replicate", 2}};
  StoredTensor w{.dtype = safetensors::Dtype::kF32, .shape = {4, 6}, .logical = 0xfedcba9876543210};
  w.chunks = {box({0, 0}, {4, 2}), box({0, 2}, {4, 4})};
  place(w);
  m.tensors["w"] = w;
  m.tensors["nothing"] = {.dtype = safetensors::Dtype::kBF16, .shape = {3, 0}, .logical = 0};
  m.files["f"] = {96, 1};
  m.files["state/lr.json"] = {3, 2};
  m.states["lr"] = "state/lr.json";
  return m;
}

/// As format_manifest, but of a text that was changed: the hash fits again.
std::string rehashed(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
  const std::string body = text.substr(0, text.rfind(",\"xxh3\":\""));
  return body + ",\"xxh3\":\"" + hex64(xxh3_64(body)) + "\"}\n";
}

TEST(Manifest, ComesBack) {
  const std::string text = format_manifest(example());
  EXPECT_THAT(
      text,
      HasSubstr(R"({"format":"sextant-checkpoint","version":1,"step":120,"tokens":1000000007,)"));
  EXPECT_THAT(text, HasSubstr(R"("kind":"box","offset":[0,2],"size":[4,4],"bytes":[32,96],)"));
  const auto m = parse_manifest(text);
  ASSERT_TRUE(m.ok()) << m.error().to_string();
  EXPECT_EQ(format_manifest(*m), text);
  EXPECT_EQ(m->tensors.at("w").logical, 0xfedcba9876543210);
  EXPECT_EQ(m->mesh.at("dp_replicate"), 2);
}

TEST(Manifest, RefusesANewerVersionWithBothNumbers) {
  const auto m =
      parse_manifest(rehashed(format_manifest(example()), "\"version\":1", "\"version\":7"));
  ASSERT_FALSE(m.ok());
  EXPECT_EQ(m.error().kind, ErrorKind::kUnsupported);
  EXPECT_THAT(m.error().message, HasSubstr("version 7"));
  EXPECT_THAT(m.error().message, HasSubstr("version 1"));
}

TEST(Manifest, AnyFlippedByteIsFound) {
  const std::string text = format_manifest(example());
  for (std::size_t i = 0; i + 1 < text.size(); ++i) {
    for (const int bit : {0, 5}) {
      std::string flipped = text;
      flipped[i] = static_cast<char>(flipped[i] ^ (1 << bit));
      EXPECT_FALSE(parse_manifest(flipped).ok()) << "byte " << i << ", bit " << bit;
    }
  }
  for (std::size_t n = 0; n + 1 < text.size(); ++n)
    EXPECT_FALSE(parse_manifest(text.substr(0, n)).ok()) << n;
}

TEST(Manifest, RefusesWhatDoesNotFit) {
  const std::string text = format_manifest(example());
  const std::pair<const char*, const char*> changes[] = {
      {"\"step\":120", "\"step\":-1"},
      {"\"step\":120", "\"step\":\"120\""},
      {"\"step\":120", "\"step\":1e3"},
      {"\"step\":120", "\"step\":18446744073709551615"},
      {"\"tokens\":1000000007,", ""},
      {"sextant-checkpoint", "other"},
      {"\"shape\":[4,6]", "\"shape\":[4,7]"},
      {"\"shape\":[4,6]", "\"shape\":[4611686018427387904,4611686018427387904]"},
      {"\"offset\":[0,2]", "\"offset\":[0,1]"},
      {"\"offset\":[0,2]", "\"offset\":[0,9223372036854775807]"},
      {"\"offset\":[0,2]", "\"offset\":[2]"},
      {"\"kind\":\"box\"", "\"kind\":\"cone\""},
      {"\"bytes\":[32,96]", "\"bytes\":[36,100]"},
      {"\"bytes\":[32,96]", "\"bytes\":[32,92]"},
      {"\"bytes\":[32,96]", "\"bytes\":[96,32]"},
      {"\"dtype\":\"F32\"", "\"dtype\":\"F33\""},
      {"\"w\":{", "\"w@0\":{"},
      {"\"logical\":\"fedcba9876543210\"", "\"logical\":\"fedcba987654321x\""},
      {"{\"lr\":\"state/lr.json\"}", "{\"lr\":\"state/absent.json\"}"},
      {"{\"lr\":\"state/lr.json\"}", "{\"../lr\":\"state/lr.json\"}"},
      {"{\"lr\":\"state/lr.json\"}", "{\"a/lr\":\"state/lr.json\"}"},
      {"{\"f\":{\"bytes\":96", "{\"f\":{\"bytes\":95"},
      {"\"mesh\":{\"dp_replicate\":2}", "\"mesh\":[2]"},
  };
  for (const auto& [from, to] : changes) {
    const auto m = parse_manifest(rehashed(text, from, to));
    ASSERT_FALSE(m.ok()) << from << " -> " << to;
    EXPECT_EQ(m.error().kind, ErrorKind::kCorrupt);
  }
}

TEST(Tiling, TellsWhereChunksFail) {
  StoredTensor t{.dtype = safetensors::Dtype::kF32, .shape = {4, 6}};
  const auto check = [&](std::vector<Chunk> chunks) {
    t.chunks = std::move(chunks);
    const auto result = check_tiling("w", t);
    return result.ok() ? std::string("tiles") : result.error().message;
  };
  EXPECT_EQ(check({box({0, 0}, {4, 6})}), "tiles");
  EXPECT_EQ(check({flat(10, 14), flat(0, 10)}), "tiles");
  EXPECT_EQ(check({box({0, 0}, {2, 6}), flat(12, 12)}), "tiles");  // whole rows are a range
  EXPECT_EQ(check({box({0, 0}, {2, 3}), box({0, 3}, {2, 3}), box({2, 0}, {2, 6})}), "tiles");
  EXPECT_THAT(check({}), HasSubstr("no chunk at element 0"));
  EXPECT_THAT(check({flat(0, 10), flat(11, 13)}), HasSubstr("no chunk at element 10"));
  EXPECT_THAT(check({flat(0, 12), flat(11, 13)}), HasSubstr("overlap"));
  EXPECT_THAT(check({flat(0, 25)}), HasSubstr("25 elements at 0 of 24"));
  EXPECT_THAT(check({box({0, 0}, {4, 3}), box({0, 2}, {4, 3})}), HasSubstr("overlap"));
  EXPECT_THAT(check({box({0, 0}, {4, 3}), box({0, 3}, {4, 2})}), HasSubstr("20 of 24"));
  EXPECT_THAT(check({box({0, 4}, {4, 3})}), HasSubstr("in shape [4, 6]"));
  EXPECT_THAT(check({box({0, 0}, {4, 3}), flat(12, 12)}), HasSubstr("beside boxes"));
  EXPECT_THAT(check({box({0, 0}, {4, 6}), box({0, 0}, {4, 0})}), HasSubstr("empty"));
}

// Random boxes of 1 to 4 dims: the runs of a chunk visit exactly its elements, in its own order.
TEST(Tiling, RunsVisitTheElementsOfABox) {
  const RandomStream random(5, "test.runs");
  std::uint64_t draw = 0;
  for (int round = 0; round < 200; ++round) {
    StoredTensor t{.dtype = safetensors::Dtype::kF32};
    Chunk chunk;
    const std::size_t rank = 1 + random.u64(draw++) % 4;
    for (std::size_t dim = 0; dim < rank; ++dim) {
      const auto n = static_cast<std::int64_t>(1 + random.u64(draw++) % 4);
      const auto offset =
          static_cast<std::int64_t>(random.u64(draw++) % static_cast<std::uint64_t>(n));
      t.shape.push_back(n);
      chunk.offset.push_back(offset);
      chunk.size.push_back(static_cast<std::int64_t>(
          1 + random.u64(draw++) % static_cast<std::uint64_t>(n - offset)));
    }
    std::vector<std::int64_t> want;
    std::int64_t total = 1;
    for (const std::int64_t n : t.shape) total *= n;
    for (std::int64_t i = 0; i < total; ++i) {
      std::int64_t rest = i;
      bool inside = true;
      for (std::size_t dim = rank; dim-- > 0;) {
        const std::int64_t index = rest % t.shape[dim];
        rest /= t.shape[dim];
        inside =
            inside && index >= chunk.offset[dim] && index < chunk.offset[dim] + chunk.size[dim];
      }
      if (inside) want.push_back(i);
    }
    std::vector<std::int64_t> got;
    for_each_run(t.shape, chunk, [&](std::int64_t first, std::int64_t local, std::int64_t count) {
      ASSERT_EQ(local, static_cast<std::int64_t>(got.size()));
      for (std::int64_t i = 0; i < count; ++i) got.push_back(first + i);
    });
    ASSERT_EQ(got, want) << "seed 5, round " << round;
  }
}

TEST(LogicalChecksum, IsTheSumOfXxh64OfEachIndex) {
  const RandomStream random(9, "test.logical");
  for (const std::int64_t element : {1, 2, 4, 8}) {
    std::vector<std::byte> bytes(static_cast<std::size_t>(element) * 100);
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(random.u64(i));
    std::uint64_t want = 0;
    for (std::uint64_t i = 0; i < 100; ++i) {
      std::array<char, 8> index{};
      for (int b = 0; b < 8; ++b)
        index[static_cast<std::size_t>(b)] = static_cast<char>((i + 7) >> (8 * b));
      std::uint64_t bits = 0;
      std::memcpy(&bits, bytes.data() + i * static_cast<std::uint64_t>(element),
                  static_cast<std::size_t>(element));
      want += xxh64({index.data(), 8}, bits);
    }
    EXPECT_EQ(logical_checksum(bytes, element, 7), want);
    const std::size_t cut = static_cast<std::size_t>(element) * 37;
    const std::span<const std::byte> all(bytes);
    EXPECT_EQ(logical_checksum(all.first(cut), element, 7) +
                  logical_checksum(all.subspan(cut), element, 7 + 37),
              want);
  }
}

}  // namespace
}  // namespace sx
