// Archives of other projects (shared test data): what is read of each, to the record.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "sextant/base/fs.h"
#include "sextant/crawl/shard_runner.h"
#include "sextant/crawl/warc_reader.h"
#include "tests/support/test_data.h"

namespace sx {
namespace {

/// "records/gaps", then what is not ordinary: clipped, quirky records, or why the file is not
/// opened.
std::string outcome(const fs::path& path) {
  auto reader = WarcReader::open(path);
  if (!reader.ok()) return "unsupported";
  std::uint64_t records = 0, gaps = 0, sum = 0, clipped = 0, quirky = 0, responses = 0;
  for (;;) {
    auto record = reader->next();
    if (!record.ok()) {
      ++gaps;
      sum += reader->last_gap().bytes;
      continue;
    }
    if (!record->has_value()) break;
    ++records;
    sum += (*record)->stored_bytes;
    clipped += (*record)->clipped;
    quirky += (*record)->quirks > 0;
    responses += (*record)->type == WarcType::kResponse;
  }
  EXPECT_EQ(sum + reader->trailing_bytes(), fs::file_size(path)) << path;
  return fmt::format("{} records {} responses {} gaps {} clipped {} quirky", records, responses,
                     gaps, clipped, quirky);
}

TEST(WarcFiles, OutcomeOfEach) {
  std::vector<std::string> seen;
  for (const auto& entry : fs::recursive_directory_iterator(test_data("warc"))) {
    const std::string name = entry.path().filename().string();
    if (!entry.is_regular_file() || name.ends_with(".cdx") || name.ends_with(".txt")) continue;
    seen.push_back(entry.path().lexically_relative(test_data("warc")).string() + ": " +
                   outcome(entry.path()));
  }
  std::sort(seen.begin(), seen.end());
  std::string table;
  for (const std::string& line : seen) table += line + "\n";
  EXPECT_EQ(table, R"(dolma/sample-0000.warc.gz: 48 records 22 responses 0 gaps 0 clipped 0 quirky
dolma/sample-0001.warc.gz: 34 records 15 responses 0 gaps 0 clipped 0 quirky
iipc/20130729-heritrix-original.warc.gz: 1 records 1 responses 0 gaps 0 clipped 0 quirky
iipc/20130729-heritrix-revisit-with-http-headers.warc.gz: 1 records 0 responses 0 gaps 0 clipped 0 quirky
iipc/20141124-heritrix-server-not-modified.warc.gz: 1 records 0 responses 0 gaps 0 clipped 1 quirky
iipc/20141129-heritrix-original.warc.gz: 1 records 1 responses 0 gaps 0 clipped 0 quirky
iipc/20141129-heritrix-revisit-with-http-headers-and-new-warc-headers.warc.gz: 1 records 0 responses 0 gaps 0 clipped 0 quirky
iipc/hello-world.warc.gz: 6 records 1 responses 0 gaps 0 clipped 0 quirky
iipc/hello-world.warc: 6 records 1 responses 0 gaps 0 clipped 0 quirky
jwarc/cc.warc.gz: 1 records 1 responses 0 gaps 0 clipped 0 quirky
jwarc/gzip_extra_sl.warc.gz: 1 records 0 responses 0 gaps 0 clipped 0 quirky
resiliparse/block-sized-records.warc.gz: 3 records 0 responses 0 gaps 0 clipped 0 quirky
resiliparse/block-sized-records.warc.lz4: unsupported
resiliparse/block-sized-records.warc: 3 records 0 responses 0 gaps 0 clipped 0 quirky
resiliparse/clipped.warc.gz: 1 records 1 responses 0 gaps 1 clipped 0 quirky
resiliparse/clueweb-quirk.warc.gz: 30 records 29 responses 0 gaps 0 clipped 0 quirky
resiliparse/warcfile.warc.gz: 50 records 16 responses 0 gaps 0 clipped 0 quirky
resiliparse/warcfile.warc.lz4: unsupported
resiliparse/warcfile.warc: 50 records 16 responses 0 gaps 0 clipped 0 quirky
warcio/bad.arc: unsupported
warcio/example-bad-non-chunked.warc.gz: 6 records 1 responses 0 gaps 0 clipped 0 quirky
warcio/example-bad.warc.gz.bad: 6 records 2 responses 0 gaps 0 clipped 0 quirky
warcio/example-digest.warc: 4 records 0 responses 0 gaps 0 clipped 0 quirky
warcio/example-iana.org-chunked.warc: 3 records 1 responses 0 gaps 0 clipped 0 quirky
warcio/example-resource.warc.gz: 3 records 0 responses 0 gaps 0 clipped 0 quirky
warcio/example-space-in-target-uri.warc.gz: 2 records 0 responses 0 gaps 0 clipped 0 quirky
warcio/example-space-in-url.arc: unsupported
warcio/example-trunc.warc: 3 records 0 responses 1 gaps 0 clipped 0 quirky
warcio/example-wget-bad-target-uri.warc.gz: 6 records 1 responses 0 gaps 0 clipped 0 quirky
warcio/example-wrong-chunks.warc.gz: 2 records 1 responses 0 gaps 0 clipped 1 quirky
warcio/example.arc.gz: unsupported
warcio/example.arc: unsupported
warcio/example.warc.gz: 6 records 1 responses 0 gaps 0 clipped 0 quirky
warcio/example.warc: 6 records 1 responses 0 gaps 0 clipped 0 quirky
warcio/post-test.warc.gz: 6 records 3 responses 0 gaps 0 clipped 0 quirky
whirlwind/whirlwind.warc.gz: 4 records 1 responses 0 gaps 0 clipped 0 quirky
whirlwind/whirlwind.warc.wat.gz: 2 records 0 responses 0 gaps 0 clipped 0 quirky
whirlwind/whirlwind.warc.wat: 2 records 0 responses 0 gaps 0 clipped 0 quirky
whirlwind/whirlwind.warc.wet.gz: 2 records 0 responses 0 gaps 0 clipped 0 quirky
whirlwind/whirlwind.warc.wet: 2 records 0 responses 0 gaps 0 clipped 0 quirky
whirlwind/whirlwind.warc: 4 records 1 responses 0 gaps 0 clipped 0 quirky
)");
}

}  // namespace
}  // namespace sx
