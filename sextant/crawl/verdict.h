#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace sx {

// Why a record became no document. Names are stable: they stand in reports, summaries and recipes.
#define SX_CRAWL_REASONS(X)                                                                        \
  X(kReadDamaged, "read.damaged", "bytes that are no record: damaged, cut or foreign")             \
  X(kReadType, "read.type", "record type that is not selected (request, metadata, warcinfo ...)")  \
  X(kReadMime, "read.mime", "media type that is not selected")                                     \
  X(kReadStatus, "read.status", "HTTP status that is not selected")                                \
  X(kReadTooLarge, "read.too_large", "block above crawl.max_payload")                              \
  X(kReadRevisitUnresolved, "read.revisit_unresolved",                                             \
    "revisit record: its body stands elsewhere")                                                   \
  X(kPayloadChunked, "payload.chunked", "chunked body without a single good chunk")                \
  X(kPayloadContentEncoding, "payload.content_encoding", "content encoding that cannot be undone") \
  X(kPayloadEmpty, "payload.empty", "no body")                                                     \
  X(kDecodeFailed, "decode.failed",                                                                \
    "characters that cannot be decoded: other encoding, or not the declared one")                  \
  X(kDecodeBinary, "decode.binary", "mostly control bytes")                                        \
  X(kHtmlNodeLimit, "html.node_limit", "more nodes than crawl.html.max_nodes")                     \
  X(kHtmlMemoryLimit, "html.memory_limit", "tree larger than its memory budget")                   \
  X(kHtmlEmpty, "html.empty", "no body element or nothing in it")                                  \
  X(kExtractEmpty, "extract.empty", "no visible text")                                             \
  X(kDedupDocument, "dedup.document", "same text as an earlier document")

enum class Reason {
  kKept,
#define SX_REASON_ENUMERATOR(name, text, meaning) name,
  SX_CRAWL_REASONS(SX_REASON_ENUMERATOR)
#undef SX_REASON_ENUMERATOR
      kCount
};
inline constexpr std::size_t kNumReasons = static_cast<std::size_t>(Reason::kCount);

const char* to_string(Reason reason);  ///< "read.type"; "kept" for kKept
const char* meaning(Reason reason);

/// Keep, or drop with a reason and the value that decided ("status 404", "Shift_JIS").
struct Verdict {
  Reason reason = Reason::kKept;
  std::string value;

  bool kept() const { return reason == Reason::kKept; }
  static Verdict keep() { return {}; }
  static Verdict drop(Reason reason, std::string value = {}) { return {reason, std::move(value)}; }
};

}  // namespace sx
