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
  X(kExtractConfidence, "extract.confidence",                                                      \
    "main content found with less confidence than crawl.extract.min_confidence")                   \
  X(kGopherShort, "gopher.short", "fewer words than the policy wants")                             \
  X(kGopherLong, "gopher.long", "more words than the policy wants")                                \
  X(kGopherMeanLow, "gopher.mean_low", "words too short on average")                               \
  X(kGopherMeanHigh, "gopher.mean_high", "words too long on average")                              \
  X(kGopherHashes, "gopher.hashes", "too many # for its words")                                    \
  X(kGopherEllipses, "gopher.ellipses", "too many ellipses for its words")                         \
  X(kGopherSymbols, "gopher.symbols", "too many # and ellipses for its words")                     \
  X(kGopherBullets, "gopher.bullets", "nearly all lines begin with a bullet")                      \
  X(kGopherEllipsisLines, "gopher.ellipsis_lines", "too many lines end in an ellipsis")            \
  X(kGopherAlpha, "gopher.alpha", "too few words with a letter")                                   \
  X(kGopherStopWords, "gopher.stop_words", "too few English stop words")                           \
  X(kRepPara, "rep.para", "too many paragraphs are copies")                                        \
  X(kRepParaChar, "rep.para_char", "too much text in copied paragraphs")                           \
  X(kRepLine, "rep.line", "too many lines are copies")                                             \
  X(kRepLineChar, "rep.line_char", "too much text in copied lines")                                \
  X(kRepTop2, "rep.top2", "one group of 2 words makes too much of the text")                       \
  X(kRepTop3, "rep.top3", "one group of 3 words makes too much of the text")                       \
  X(kRepTop4, "rep.top4", "one group of 4 words makes too much of the text")                       \
  X(kRepDup5, "rep.dup5", "too much text in repeated groups of 5 words")                           \
  X(kRepDup6, "rep.dup6", "too much text in repeated groups of 6 words")                           \
  X(kRepDup7, "rep.dup7", "too much text in repeated groups of 7 words")                           \
  X(kRepDup8, "rep.dup8", "too much text in repeated groups of 8 words")                           \
  X(kRepDup9, "rep.dup9", "too much text in repeated groups of 9 words")                           \
  X(kRepDup10, "rep.dup10", "too much text in repeated groups of 10 words")                        \
  X(kC4LoremIpsum, "c4.lorem_ipsum", "filler text")                                                \
  X(kC4Curly, "c4.curly", "a curly bracket: likely code")                                          \
  X(kC4FewSentences, "c4.few_sentences", "too few sentences after lines were left out")            \
  X(kC4LineEnds, "c4.line_ends", "too many lines without an end mark")                             \
  X(kC4Paragraphs, "c4.paragraphs", "fewer than three long lines")                                 \
  X(kFinewebEmpty, "fineweb.empty", "no line with text")                                           \
  X(kFinewebLinePunct, "fineweb.line_punct", "too few lines end in an end mark")                   \
  X(kFinewebShortLines, "fineweb.short_lines", "too many short lines")                             \
  X(kFinewebCharDup, "fineweb.char_dup", "too much text in copied lines")                          \
  X(kFinewebNewlines, "fineweb.newlines", "too many line ends for its words")                      \
  X(kRwEditedShare, "rw.edited_share", "line corrections took too many words")                     \
  X(kRwEmpty, "rw.empty_after_edit", "line corrections took every word")                           \
  X(kPiiDropped, "pii.dropped", "holds personal data, and crawl.pii.mode is drop")                 \
  X(kDedupDocument, "dedup.document", "same text as an earlier document")                          \
  X(kDedupMinhash, "dedup.minhash", "nearly the same text as an earlier document")

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
