#include <fmt/format.h>

#include <algorithm>

#include "apps/sextant/tokenize_setup.h"
#include "sextant/base/fs.h"
#include "sextant/base/signals.h"
#include "sextant/token/hf_json.h"
#include "sextant/token/text_source.h"
#include "sextant/token/tiktoken_file.h"

namespace sx {
namespace {

// Compared when no --text is given: what split rules and readers get wrong first.
constexpr std::string_view kTrapText =
    "Hello world  I'm we'LL don\xE2\x80\x99t  \n\n  x = 12345;\t// caf\xC3\xA9\r\n"
    "\xE6\xBC\xA2\xE5\xAD\x97\xE4\xBB\xAE\xE5\x90\x8D \xD0\x94\xD0\xBE\xD0\xBC 3.14 "
    "\xF0\x9F\x91\x8D\xC2\xA0\xE3\x80\x80 HTTPServer camelCase snake_case \xC2\xBD\n   ";

struct Difference {
  std::string text;
  std::vector<TokenId> a, b;
};

class Comparison {
 public:
  Comparison(const Tokenizer& a, const Tokenizer& b, const EncodeOptions& options)
      : a_(a, options), b_(b, options) {}

  void add(std::string_view text) {
    ++texts_;
    bytes_ += text.size();
    if (same(text)) return;
    ++differing_;
    // The shortest piece that differs alone; else the shortest line, else the whole text.
    bool found = false;
    if (auto pieces = a_.pieces(text)) {
      for (const std::string& piece : *pieces) found |= note_if_different(piece);
    }
    for (std::size_t begin = 0; !found && begin < text.size();) {
      const std::size_t end = std::min(text.find('\n', begin), text.size() - 1) + 1;
      found |= note_if_different(text.substr(begin, end - begin));
      begin = end;
    }
    if (!found) note_if_different(text);
  }

  std::uint64_t texts() const { return texts_; }
  std::uint64_t bytes() const { return bytes_; }
  std::uint64_t differing() const { return differing_; }
  const std::optional<Difference>& shortest() const { return shortest_; }

 private:
  static std::vector<TokenId> ids_of(Encoder& encoder, std::string_view text) {
    std::vector<TokenId> ids;
    const auto stats = encoder.encode(text, ids);
    if (!stats.ok()) fail(stats.error(), "--special text");
    return ids;
  }
  bool same(std::string_view text) { return ids_of(a_, text) == ids_of(b_, text); }
  bool note_if_different(std::string_view text) {
    if (same(text)) return false;
    if (!shortest_ || text.size() < shortest_->text.size())
      shortest_ = Difference{std::string(text), ids_of(a_, text), ids_of(b_, text)};
    return true;
  }

  Encoder a_, b_;
  std::uint64_t texts_ = 0, bytes_ = 0, differing_ = 0;
  std::optional<Difference> shortest_;
};

std::string facts_of(const std::string& path, const Tokenizer& tokenizer) {
  std::string text =
      fmt::format("{}\n  kind         {}\n  vocab_size   {}\n  fingerprint  {}\n", path,
                  tokenizer.kind(), tokenizer.vocab_size(), tokenizer.fingerprint().hex());
  for (const std::string& note : tokenizer.notes()) text += "  note         " + note + "\n";
  if (!tokenizer.eod_id()) text += "  note         no token is known to end a document\n";
  return text;
}

}  // namespace

int tokenize_check(const Invocation& invocation) {
  std::vector<Tokenizer> tokenizers;
  for (const std::string& path : invocation.inputs) {
    tokenizers.push_back(load_tokenizer(path, "auto"));
    if (!invocation.json) print_result(facts_of(path, tokenizers.back()));
  }
  if (tokenizers.size() == 1) {
    if (invocation.json) {
      print_result(nlohmann::ordered_json{{"kind", tokenizers[0].kind()},
                                          {"vocab_size", tokenizers[0].vocab_size()},
                                          {"fingerprint", tokenizers[0].fingerprint().hex()},
                                          {"notes", tokenizers[0].notes()}}
                       .dump(2) +
                   "\n");
    }
    return 0;
  }
  Comparison comparison(tokenizers[0], tokenizers[1], encode_options(invocation));
  comparison.add(kTrapText);
  std::vector<fs::path> files;
  for (const std::string& name : invocation.texts("text")) files.emplace_back(name);
  TextSource source(files, invocation.text("json-key", "text"));
  while (true) {
    if (signals::stop_requested()) return static_cast<int>(ExitCode::kInterrupt);
    auto text = source.next();
    if (!text.ok()) fail(text.error(), "name a file that exists");
    if (!text->has_value()) break;
    comparison.add(**text);
  }
  const auto& shortest = comparison.shortest();
  if (invocation.json) {
    nlohmann::ordered_json result{{"texts", comparison.texts()},
                                  {"bytes", comparison.bytes()},
                                  {"differing", comparison.differing()}};
    if (shortest)
      result["shortest"] = {{"text", shortest->text}, {"a", shortest->a}, {"b", shortest->b}};
    print_result(result.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) +
                 "\n");
  } else {
    print_result(fmt::format("compared     {} texts, {} bytes: {} differ\n", comparison.texts(),
                             comparison.bytes(), comparison.differing()));
    if (shortest) {
      print_result(fmt::format("shortest     {}\n  A          {}\n  B          {}\n",
                               as_json(shortest->text), fmt::join(shortest->a, " "),
                               fmt::join(shortest->b, " ")));
    }
  }
  return comparison.differing() == 0 ? 0 : static_cast<int>(ExitCode::kVerdict);
}

int tokenize_convert(const Invocation& invocation) {
  const fs::path in = invocation.inputs[0], out = invocation.inputs[1];
  const bool to_json = out.extension() == ".json";
  if (!to_json && out.extension() != ".tiktoken") {
    throw ConfigError(Diagnostic{.number = 8,
                                 .what = "the name does not say the format to write",
                                 .where = out.string(),
                                 .rule = "a name that ends with .json or .tiktoken",
                                 .next = "sextant tokenize convert IN tokenizer.json"});
  }
  const auto vocab = [&]() -> Vocab {
    const Tokenizer tokenizer = load_tokenizer(in.string(), "auto");
    if (tokenizer.has_vocab()) return tokenizer.vocab();
    if (std::string_view(tokenizer.kind()) != "hf") {
      fail(Error{ErrorKind::kUnsupported, "this format has no ranks to write", in.string()},
           "use the file as it is: --tokenizer PATH");
    }
    fs::path file = in;
    std::error_code ignored;
    if (fs::is_directory(in, ignored)) file = in / "tokenizer.json";
    auto parsed = read_hf_json(file);
    if (!parsed.ok()) fail(parsed.error(), "name a tokenizer.json");
    auto ranks = rank_vocab_of(*parsed);
    if (!ranks.ok()) fail(ranks.error(), "use the file as it is: --tokenizer PATH");
    return std::move(ranks).value();
  }();
  std::error_code ignored;
  if (fs::exists(out, ignored) && !invocation.overwrite) {
    throw ConfigError(Diagnostic{.number = 6,
                                 .what = "the file to write exists",
                                 .where = out.string(),
                                 .rule = "nothing is overwritten unasked",
                                 .next = "--overwrite, or another name"});
  }
  const auto written =
      to_json ? write_file_atomic(out, format_hf_json(vocab)) : write_tiktoken(vocab, out);
  if (!written.ok()) fail(written.error(), "choose a folder that can be written");
  print_result(fmt::format("wrote {} ({} tokens, {} special)\n", out.string(), vocab.num_ordinary(),
                           vocab.specials().size()));
  return 0;
}

}  // namespace sx
