#include <fmt/format.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <memory>

#include "apps/sextant/tokenize_setup.h"
#include "sextant/base/fs.h"
#include "sextant/base/signals.h"
#include "sextant/text/utf8.h"
#include "sextant/token/text_source.h"

namespace sx {
namespace {

constexpr std::size_t kPartBytes = std::size_t{1} << 20;
constexpr std::size_t kBlockBytes = std::size_t{1} << 16;

// A file or standard input ("-", or no name), read as it is.
class Input {
 public:
  explicit Input(const Invocation& invocation)
      : name_(invocation.inputs.empty() || invocation.inputs[0] == "-" ? "standard input"
                                                                       : invocation.inputs[0]) {
    if (name_ == "standard input") {
      file_ = stdin;
      return;
    }
    file_ = std::fopen(name_.c_str(), "rbe");
    if (file_ == nullptr) {
      fail(Error{errno == ENOENT ? ErrorKind::kNotFound : ErrorKind::kIo,
                 std::string("cannot open: ") + std::strerror(errno), name_},
           "name a file that exists");
    }
  }
  ~Input() {
    if (file_ != stdin) std::fclose(file_);
  }
  Input(const Input&) = delete;
  Input& operator=(const Input&) = delete;

  // Appends the next block; false at the end.
  bool read_some(std::string& out) {
    const std::size_t before = out.size();
    out.resize(before + kBlockBytes);
    const std::size_t got = std::fread(out.data() + before, 1, kBlockBytes, file_);
    out.resize(before + got);
    if (got == 0 && std::ferror(file_) != 0) {
      fail(Error{ErrorKind::kIo, std::string("cannot read: ") + std::strerror(errno), name_},
           "read another file");
    }
    return got != 0;
  }
  const std::string& name() const { return name_; }

 private:
  std::string name_;
  std::FILE* file_ = nullptr;
};

int interrupted() { return static_cast<int>(ExitCode::kInterrupt); }

void append_raw(std::string& out, TokenId id, std::size_t width) {
  for (std::size_t i = 0; i < width; ++i) out.push_back(static_cast<char>(id >> (8 * i) & 0xff));
}

enum class IdForm { kText, kU16, kU32 };

IdForm id_form(const Invocation& invocation) {
  const std::string form = invocation.text("format", "text");
  return form == "u16" ? IdForm::kU16 : form == "u32" ? IdForm::kU32 : IdForm::kText;
}

// One part of the text, as the flags want it shown.
std::string show(const Invocation& invocation, Encoder& encoder, std::string_view part,
                 IdForm form) {
  std::string out;
  if (invocation.has("pieces")) {
    auto pieces = encoder.pieces(part);
    if (!pieces.ok()) fail(pieces.error(), "--special allow, or --special text");
    for (const std::string& piece : *pieces) {
      std::vector<TokenId> ids;
      if (!encoder.encode(piece, ids).ok()) continue;
      out += as_json(piece);
      for (const TokenId id : ids) out += fmt::format(" {}", id);
      out += '\n';
    }
    return out;
  }
  std::vector<TokenId> ids;
  const auto stats = encoder.encode(part, ids);
  if (!stats.ok())
    fail(stats.error(), "--special allow, --special text or --set tokenizer.invalid=bytes");
  if (form != IdForm::kText) {
    for (const TokenId id : ids) append_raw(out, id, form == IdForm::kU16 ? 2 : 4);
    return out;
  }
  if (invocation.json) {
    const nlohmann::ordered_json row{{"ids", ids},
                                     {"bytes", stats->bytes},
                                     {"tokens", stats->tokens},
                                     {"invalid_bytes", stats->invalid_bytes}};
    return row.dump() + "\n";
  }
  for (std::size_t i = 0; i < ids.size(); ++i)
    out += fmt::format("{}{}", i == 0 ? "" : " ", ids[i]);
  return out + "\n";
}

// Ids out of text: numbers, with blanks, commas and brackets between them.
class IdReader {
 public:
  explicit IdReader(std::string name) : name_(std::move(name)) {}

  void add(std::string_view text, std::vector<TokenId>& ids) {
    for (const char c : text) {
      ++offset_;
      if (c >= '0' && c <= '9') {
        digits_ += c;
        continue;
      }
      end_number(ids);
      if (std::strchr(" \t\r\n,[]", c) == nullptr || c == '\0') {
        throw ConfigError(
            Diagnostic{.number = 8,
                       .what = "the input is not a list of token ids",
                       .where = fmt::format("{}: byte {}", name_, offset_ - 1),
                       .rule = "numbers, with blanks, commas or brackets between them",
                       .next = "sextant tokenize encode FILE --tokenizer PATH"});
      }
    }
  }
  void end_number(std::vector<TokenId>& ids) {
    if (digits_.empty()) return;
    TokenId id = 0;
    const auto [stop, bad] = std::from_chars(digits_.data(), digits_.data() + digits_.size(), id);
    ids.push_back(bad == std::errc() ? id : ~TokenId{0});  // too large: assigned to nothing
    digits_.clear();
  }

 private:
  std::string name_;
  std::string digits_;
  std::uint64_t offset_ = 0;
};

void take_raw_ids(std::string& bytes, std::size_t width, std::vector<TokenId>& ids) {
  const std::size_t whole = bytes.size() / width * width;
  for (std::size_t i = 0; i < whole; i += width) {
    TokenId id = 0;
    for (std::size_t b = 0; b < width; ++b)
      id |= TokenId{static_cast<unsigned char>(bytes[i + b])} << (8 * b);
    ids.push_back(id);
  }
  bytes.erase(0, whole);
}

// False when nobody reads any more.
bool show_text(const Invocation& invocation, const Tokenizer& tokenizer, std::vector<TokenId>& ids,
               std::uint64_t& shown) {
  std::string text;
  if (invocation.has("lossy")) {
    text = tokenizer.decode_lossy(ids);
  } else {
    auto decoded = tokenizer.decode(ids);
    if (!decoded.ok()) {
      Error error = std::move(decoded).error();
      error.where += fmt::format(" after {} ids", shown);
      fail(error, "another --tokenizer, or --lossy");
    }
    text = std::move(decoded).value();
  }
  shown += ids.size();
  ids.clear();
  const std::string policy = invocation.text("errors", "bytes");
  if (policy == "strict" && !is_valid_utf8(text)) {
    fail(Error{ErrorKind::kInvalid, "the ids decode to bytes that are not UTF-8",
               fmt::format("ids before number {}", shown)},
         "--errors replace, or --errors bytes");
  }
  if (policy == "replace") {
    std::uint64_t replaced = 0;
    text = repair_utf8(text, replaced);
  }
  return print_result(text);
}

}  // namespace

int tokenize_encode(const Invocation& invocation) {
  const Tokenizer tokenizer = load_tokenizer(invocation);
  const IdForm form = id_form(invocation);
  if (form == IdForm::kU16 && tokenizer.vocab_size() > 65536) {
    throw ConfigError(Diagnostic{
        .number = 4,
        .what = fmt::format("ids of {} tokens do not fit 16 bits", tokenizer.vocab_size()),
        .where = "command line (--format)",
        .rule = "u16 holds ids below 65536",
        .next = "--format u32"});
  }
  Encoder encoder(tokenizer, encode_options(invocation),
                  static_cast<std::size_t>(invocation.recipe->tokenizer.cache_slots));
  Input input(invocation);
  std::string pending;
  bool more = true;
  if (!tokenizer.may_cut()) {
    while (input.read_some(pending)) {
      if (signals::stop_requested()) return interrupted();
    }
    more = false;
  }
  while (more) {
    if (signals::stop_requested()) return interrupted();
    const std::size_t from = pending.empty() ? 0 : pending.size() - 1;
    more = input.read_some(pending);
    std::size_t cut = find_safe_cut(pending, kPartBytes, from);
    if (cut == 0 && more) continue;
    while (cut != 0) {
      if (!print_result(show(invocation, encoder, std::string_view(pending).substr(0, cut), form)))
        return 0;
      pending.erase(0, cut);
      cut = find_safe_cut(pending, kPartBytes);
    }
  }
  if (!pending.empty()) print_result(show(invocation, encoder, pending, form));
  return 0;
}

int tokenize_decode(const Invocation& invocation) {
  const Tokenizer tokenizer = load_tokenizer(invocation);
  const IdForm form = id_form(invocation);
  Input input(invocation);
  IdReader reader(input.name());
  std::string block;
  std::vector<TokenId> ids;
  std::uint64_t shown = 0;
  // Parts of the ids may be shown as they come where tokens are bytes.
  const bool in_parts = tokenizer.may_cut() && invocation.text("errors", "bytes") == "bytes";
  while (input.read_some(block)) {
    if (signals::stop_requested()) return interrupted();
    if (form == IdForm::kText) {
      reader.add(block, ids);
      block.clear();
    } else {
      take_raw_ids(block, form == IdForm::kU16 ? 2 : 4, ids);
    }
    if (in_parts && !show_text(invocation, tokenizer, ids, shown)) return 0;
  }
  if (form != IdForm::kText && !block.empty()) {
    fail(Error{ErrorKind::kCorrupt, "the input ends inside an id", input.name()}, "check --format");
  }
  reader.end_number(ids);
  show_text(invocation, tokenizer, ids, shown);
  return 0;
}

}  // namespace sx
