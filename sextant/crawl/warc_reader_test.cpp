#include "sextant/crawl/warc_reader.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include "sextant/base/rng.h"
#include "tests/support/warc_maker.h"

namespace sx {
namespace {

/// All a reader gives, with the law that every byte is accounted for.
struct ReadAll {
  std::vector<WarcRecord> records;
  std::vector<WarcGap> gaps;
  std::string error;  // of opening
  bool balanced = false;

  explicit ReadAll(std::string_view bytes, WarcLimits limits = {}) {
    auto reader = WarcReader::from_memory(bytes, "memory", limits);
    if (!reader.ok()) {
      error = reader.error().to_string();
      return;
    }
    std::uint64_t sum = 0;
    for (std::size_t turns = 0; turns < bytes.size() + 10; ++turns) {
      auto record = reader->next();
      if (!record.ok()) {
        EXPECT_EQ(record.error().kind, ErrorKind::kCorrupt);
        gaps.push_back(reader->last_gap());
        sum += reader->last_gap().bytes;
      } else if (record->has_value()) {
        sum += (*record)->stored_bytes;
        records.push_back(std::move(**record));
      } else {
        balanced = sum + reader->trailing_bytes() == bytes.size();
        return;
      }
    }
    ADD_FAILURE() << "the reader does not end";
  }
  std::string ids() const {
    std::string out;
    for (const WarcRecord& record : records) out += record.id + " ";
    return out;
  }
};

std::string small_page(int n) {
  return WarcMaker::response(n, fmt::format("http://a.test/{}", n), "Content-Type: text/html\r\n",
                             fmt::format("<p>Page number {} with some text</p>", n));
}

TEST(WarcReader, PlainAndGzipGiveTheSameRecords) {
  std::string plain;
  std::string members;
  for (int n = 0; n < 5; ++n) {
    plain += small_page(n);
    members += WarcMaker::gzip(small_page(n));
  }
  const ReadAll a(plain);
  const ReadAll b(members);
  const ReadAll c(WarcMaker::gzip(plain));  // one member for the whole file
  for (const ReadAll* read : {&a, &b, &c}) {
    EXPECT_TRUE(read->balanced);
    EXPECT_TRUE(read->gaps.empty());
    ASSERT_EQ(read->records.size(), 5u);
    EXPECT_EQ(read->ids(), "urn:test:0 urn:test:1 urn:test:2 urn:test:3 urn:test:4 ");
    EXPECT_EQ(read->records[3].url, "http://a.test/3");
    EXPECT_EQ(read->records[3].type, WarcType::kResponse);
    EXPECT_EQ(read->records[3].version, "WARC/1.1");
    EXPECT_EQ(read->records[3].quirks, 0u);
    EXPECT_TRUE(read->records[3].block.ends_with("Page number 3 with some text</p>"));
  }
  EXPECT_EQ(a.records[1].offset, small_page(0).size());
  EXPECT_EQ(a.records[1].stored_bytes, small_page(1).size());
  EXPECT_EQ(b.records[1].offset, WarcMaker::gzip(small_page(0)).size());
  EXPECT_EQ(b.records[1].stored_bytes, WarcMaker::gzip(small_page(1)).size());
}

TEST(WarcReader, EmptyFilesAndPadding) {
  EXPECT_TRUE(ReadAll("").balanced);
  EXPECT_TRUE(ReadAll("").gaps.empty());
  const ReadAll empty_member(WarcMaker::gzip(""));
  EXPECT_TRUE(empty_member.balanced);
  EXPECT_TRUE(empty_member.gaps.empty());
  const ReadAll padded(WarcMaker::gzip(small_page(0)) + std::string(1000, '\0') +
                       WarcMaker::gzip(small_page(1)) + std::string(77, '\0'));
  EXPECT_TRUE(padded.balanced);
  EXPECT_TRUE(padded.gaps.empty());
  EXPECT_EQ(padded.records.size(), 2u);
}

TEST(WarcReader, HeaderForms) {
  const std::string lf =
      "WARC/0.18\nwarc-type: response\nWARC-Record-ID: <urn:x>\nContent-Length: 3\n\nabc\n\n";
  const ReadAll a(lf + small_page(1));
  ASSERT_EQ(a.records.size(), 2u);
  EXPECT_EQ(a.records[0].block, "abc");
  EXPECT_GT(a.records[0].quirks, 0u);
  EXPECT_EQ(a.records[0].type, WarcType::kResponse);

  const ReadAll b(
      "WARC/1.0\r\nWARC-Type: resource\r\nWARC-Target-URI: <http://a.test/a b\xE9>\r\nX-Long: "
      "one\r\n  two\r\n"
      "WARC-Protocol: h2\r\nWARC-Protocol: tls/1.3\r\nWARC-Truncated: length\r\nContent-Length: "
      "2\r\n\r\nok\r\n\r\n");
  ASSERT_EQ(b.records.size(), 1u);
  EXPECT_EQ(b.records[0].url, "http://a.test/a%20b\xC3\xA9");
  EXPECT_EQ(*find_field(b.records[0].fields, "x-long"), "one two");
  EXPECT_EQ(b.records[0].fields.size(), 7u);
  EXPECT_TRUE(b.records[0].truncated);
  EXPECT_FALSE(b.records[0].clipped);

  const ReadAll no_length("WARC/1.0\r\nWARC-Type: warcinfo\r\n\r\nsoftware: x\r\n\r\n" +
                          small_page(1));
  ASSERT_EQ(no_length.records.size(), 2u);
  EXPECT_EQ(no_length.records[0].block, "software: x");
  EXPECT_TRUE(no_length.balanced);
}

TEST(WarcReader, HeaderOverTheLimitIsOneGap) {
  std::string huge = small_page(1);
  huge.insert(huge.find("\r\n") + 2, "X-Long: " + std::string(3'000'000, 'z') + "\r\n");
  for (const bool gzip : {false, true}) {
    const auto pack = [&](const std::string& r) { return gzip ? WarcMaker::gzip(r) : r; };
    const ReadAll read(pack(small_page(0)) + pack(huge) + pack(small_page(2)));
    EXPECT_EQ(read.ids(), "urn:test:0 urn:test:2 ") << gzip;
    EXPECT_EQ(read.gaps.size(), 1u) << gzip;
    EXPECT_TRUE(read.balanced) << gzip;
  }
}

TEST(WarcReader, BlocksShorterAndLongerThanDeclared) {
  std::string liar = small_page(1);
  liar.replace(liar.find("Content-Length: "), 19, "Content-Length: 999");
  for (const bool gzip : {false, true}) {
    const auto pack = [&](const std::string& r) { return gzip ? WarcMaker::gzip(r) : r; };
    const ReadAll longer(pack(small_page(0)) + pack(liar) + pack(small_page(2)) +
                         pack(small_page(3)));
    EXPECT_EQ(longer.ids(), "urn:test:0 urn:test:2 urn:test:3 ") << gzip;
    EXPECT_EQ(longer.gaps.size(), 1u);
    EXPECT_TRUE(longer.balanced);

    std::string shorter = small_page(1);
    shorter.replace(shorter.find("Content-Length: "), 19, "Content-Length: 09 ");
    const ReadAll rest(pack(small_page(0)) + pack(shorter) + pack(small_page(2)));
    EXPECT_EQ(rest.ids(), "urn:test:0 urn:test:2 ") << gzip;
    EXPECT_EQ(rest.gaps.size(), 1u);
    EXPECT_TRUE(rest.balanced);
  }
  const ReadAll bad("WARC/1.0\r\nWARC-Type: response\r\nContent-Length: -5\r\n\r\nx\r\n\r\n" +
                    small_page(1));
  EXPECT_EQ(bad.ids(), "urn:test:1 ");
  EXPECT_EQ(bad.gaps.size(), 1u);
}

TEST(WarcReader, FileThatEndsInsideARecord) {
  const std::string two = small_page(0) + small_page(1);
  const ReadAll plain(std::string_view(two).substr(0, two.size() - 20));
  ASSERT_EQ(plain.records.size(), 2u);
  EXPECT_TRUE(plain.records[1].clipped);
  EXPECT_TRUE(plain.balanced);
  const std::string members = WarcMaker::gzip(small_page(0)) + WarcMaker::gzip(small_page(1));
  const ReadAll gzip(std::string_view(members).substr(0, members.size() - 30));
  EXPECT_EQ(gzip.records.size() + gzip.gaps.size(), 2u);
  EXPECT_TRUE(gzip.balanced);
}

TEST(WarcReader, LargeBlocksArePassedOver) {
  WarcLimits limits;
  limits.max_block_bytes = 1000;
  const std::string big =
      WarcMaker::record(1, "response", "http://a.test/", "text/plain", std::string(5000, 'x'));
  for (const bool gzip : {false, true}) {
    const auto pack = [&](const std::string& r) { return gzip ? WarcMaker::gzip(r) : r; };
    const ReadAll read(pack(small_page(0)) + pack(big) + pack(small_page(2)), limits);
    ASSERT_EQ(read.records.size(), 3u);
    EXPECT_TRUE(read.records[1].too_large);
    EXPECT_TRUE(read.records[1].block.empty());
    EXPECT_EQ(read.records[1].declared_bytes, 5000u);
    EXPECT_TRUE(read.balanced);
  }
}

TEST(WarcReader, LyingLengthsAllocateNothing) {
  const ReadAll plain(
      "WARC/1.0\r\nWARC-Type: response\r\nContent-Length: 18446744073709551614\r\n\r\nx");
  EXPECT_EQ(plain.records.size() + plain.gaps.size(), 1u);
  EXPECT_TRUE(plain.balanced);
  const ReadAll gzip(
      WarcMaker::gzip("WARC/1.0\r\nWARC-Type: response\r\nContent-Length: 60000000\r\n\r\nx"));
  EXPECT_EQ(gzip.records.size() + gzip.gaps.size(), 1u);
  EXPECT_TRUE(gzip.balanced);
}

TEST(WarcReader, OtherArchivesAreNamed) {
  EXPECT_NE(ReadAll("filedesc://x 0.0.0.0 2020 text/plain 5\n").error.find("ARC"),
            std::string::npos);
  EXPECT_NE(ReadAll("\x28\xB5\x2F\xFD....").error.find("zstd"), std::string::npos);
  EXPECT_NE(ReadAll("\x04\x22\x4D\x18....").error.find("lz4"), std::string::npos);
  EXPECT_NE(ReadAll(WarcMaker::gzip("filedesc://x")).error.find("ARC"), std::string::npos);
  const ReadAll noise("this is no archive at all\n");
  EXPECT_EQ(noise.gaps.size(), 1u);
  EXPECT_TRUE(noise.balanced);
}

TEST(WarcReader, AHeaderWithoutEndInsideAMemberIsPassedOnce) {
  // Found by fuzzing: the place was offered as the next record again and again.
  const std::string torn = "WARC/1.0\r\nA: b\r\nWARC/1.0\r\nA: b\r\n";
  const ReadAll read(WarcMaker::gzip(small_page(0) + torn + small_page(1)) +
                     WarcMaker::gzip(small_page(2)));
  EXPECT_EQ(read.ids(), "urn:test:0 urn:test:1 urn:test:2 ");
  EXPECT_GE(read.gaps.size(), 1u);
  EXPECT_TRUE(read.balanced);
}

/// One bad record among many: all others are delivered, one gap is counted.
TEST(WarcReader, OneBadAmongAThousand) {
  for (const bool gzip : {false, true}) {
    std::string file;
    for (int n = 0; n < 1000; ++n) {
      std::string record = gzip ? WarcMaker::gzip(small_page(n)) : small_page(n);
      if (n == 500) {
        if (gzip)
          record[record.size() / 2] ^= 0x55;
        else
          record.replace(0, 5, "WARX/");
      }
      file += record;
    }
    const ReadAll read(file);
    EXPECT_EQ(read.records.size(), 999u) << gzip;
    EXPECT_EQ(read.gaps.size(), 1u) << gzip;
    EXPECT_TRUE(read.balanced);
  }
}

/// Any byte flipped, any range cut: no crash, all bytes accounted for, the records from the second
/// behind the damage on are delivered.
TEST(WarcReader, DamageAnywhereIsSurvived) {
  constexpr int kPages = 12;
  for (const bool gzip : {false, true}) {
    std::string file;
    std::vector<std::size_t> starts;
    for (int n = 0; n < kPages; ++n) {
      starts.push_back(file.size());
      file += gzip ? WarcMaker::gzip(small_page(n)) : small_page(n);
    }
    const RandomStream random(7, "warc.damage", gzip);
    for (std::uint64_t turn = 0; turn < 1500; ++turn) {
      const std::size_t at = random.u64(3 * turn) % file.size();
      std::string hurt = file;
      std::size_t cut = 0;
      if (turn % 3 == 0) {
        cut = 1 + random.u64(3 * turn + 1) % 40;
        hurt.erase(at, cut);
      } else {
        hurt[at] = static_cast<char>(random.u64(3 * turn + 2));
      }
      const ReadAll read(hurt);
      SCOPED_TRACE(fmt::format("seed 7 gzip {} turn {} at {} cut {}", gzip, turn, at, cut));
      ASSERT_TRUE(read.error.empty() ? read.balanced : at < 4);
      if (!read.error.empty()) continue;
      int first_sound = 0;
      while (first_sound < kPages && starts[static_cast<std::size_t>(first_sound)] < at + cut + 1)
        ++first_sound;
      for (int n = 0; n < kPages; ++n) {
        const bool before = n + 1 < kPages && starts[static_cast<std::size_t>(n) + 1] <= at;
        if (!before && n <= first_sound) continue;
        ASSERT_NE((" " + read.ids()).find(fmt::format(" urn:test:{} ", n)), std::string::npos)
            << "record " << n << " is lost: " << read.ids();
      }
    }
  }
}

}  // namespace
}  // namespace sx
