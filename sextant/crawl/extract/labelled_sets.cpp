#include "sextant/crawl/extract/labelled_sets.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "sextant/crawl/charset.h"
#include "sextant/text/byte_stream.h"

namespace sx {

namespace {

using TruthJson = nlohmann::json;

Result<std::string> unpacked(const fs::path& path) {
  SX_TRY(auto stream, ByteStream::open(path));
  std::string out;
  for (;;) {
    SX_TRY(const bool more, stream.read_some(out));
    if (!more) return out;
  }
}

Result<TruthJson> truth_json(const fs::path& path) {
  SX_TRY(const std::string text, unpacked(path));
  TruthJson json = TruthJson::parse(text, nullptr, false);
  if (json.is_discarded()) return Error{ErrorKind::kCorrupt, "no JSON", path.string()};
  return json;
}

Result<std::string> page_text(const fs::path& path) {
  SX_TRY(const std::string bytes, unpacked(path));
  DecodedPage page;
  const Verdict verdict = decode_page(bytes, "", true, {}, "", page);
  // A page that cannot be decoded counts as an empty one.
  return verdict.kept() ? page.text : std::string();
}

std::string text_of(const TruthJson& json, const char* key) {
  return json.contains(key) && json[key].is_string() ? json[key].get<std::string>() : "";
}

std::vector<std::string> texts_of(const TruthJson& json, const char* key) {
  std::vector<std::string> out;
  if (!json.contains(key) || !json[key].is_array()) return out;
  for (const auto& entry : json[key]) {
    if (entry.is_string()) out.push_back(entry.get<std::string>());
  }
  return out;
}

Result<void> add_scrapinghub(const fs::path& folder, std::vector<LabelledPage>& out) {
  SX_TRY(const TruthJson truth, truth_json(folder / "ground-truth.json"));
  for (const auto& [id, entry] : truth.items()) {
    const fs::path path = folder / "html" / (id + ".html.gz");
    if (!fs::exists(path)) continue;
    LabelledPage page;
    page.set = "scrapinghub";
    page.id = id;
    page.kind = "article";
    page.url = text_of(entry, "url");
    page.truth = text_of(entry, "articleBody");
    page.has_truth = true;
    SX_TRY(page.html, page_text(path));
    out.push_back(std::move(page));
  }
  return {};
}

Result<void> add_wcxb(const fs::path& folder, std::vector<LabelledPage>& out) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder / "dev/ground-truth"))
    files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  for (const fs::path& file : files) {
    SX_TRY(const TruthJson json, truth_json(file));
    const fs::path path = folder / "dev/html" / (file.stem().string() + ".html.gz");
    if (!fs::exists(path) || !json.contains("ground_truth")) continue;
    LabelledPage page;
    page.set = "wcxb";
    page.id = file.stem().string();
    page.url = text_of(json, "url");
    page.kind = json.value("/_internal/page_type/primary"_json_pointer, std::string("other"));
    page.truth = text_of(json["ground_truth"], "main_content");
    page.with = texts_of(json["ground_truth"], "with");
    page.without = texts_of(json["ground_truth"], "without");
    page.has_truth = true;
    SX_TRY(page.html, page_text(path));
    out.push_back(std::move(page));
  }
  return {};
}

Result<void> add_trafilatura(const fs::path& folder, std::vector<LabelledPage>& out) {
  SX_TRY(const TruthJson truth, truth_json(folder / "evaldata.json"));
  for (const auto& [url, entry] : truth.items()) {
    fs::path path;
    for (const char* part : {"tests/eval", "tests/cache"}) {
      for (const char* end : {".gz", ""}) {
        const fs::path candidate = folder / part / (text_of(entry, "file") + end);
        if (path.empty() && fs::exists(candidate)) path = candidate;
      }
    }
    if (path.empty()) continue;
    LabelledPage page;
    page.set = "trafilatura";
    page.id = text_of(entry, "file");
    page.url = url;
    page.with = texts_of(entry, "with");
    page.without = texts_of(entry, "without");
    SX_TRY(page.html, page_text(path));
    out.push_back(std::move(page));
  }
  return {};
}

Result<void> add_magic_html(const fs::path& folder, const std::string& kind,
                            std::vector<LabelledPage>& out) {
  SX_TRY(const TruthJson truth, truth_json(folder / kind / "base.json.gz"));
  for (const auto& [id, entry] : truth.items()) {
    const fs::path path = folder / kind / "htmls" / (id + ".html.gz");
    if (!fs::exists(path)) continue;
    LabelledPage page;
    page.set = "magic-html";
    page.id = id;
    page.kind = kind;
    page.url = text_of(entry, "url");
    page.truth = text_of(entry, "content");
    page.has_truth = true;
    SX_TRY(page.html, page_text(path));
    out.push_back(std::move(page));
  }
  return {};
}

}  // namespace

Result<std::vector<LabelledPage>> read_labelled_pages(const fs::path& folder) {
  std::vector<LabelledPage> out;
  if (fs::exists(folder / "scrapinghub/ground-truth.json"))
    SX_TRY_VOID(add_scrapinghub(folder / "scrapinghub", out));
  if (fs::exists(folder / "wcxb/dev/ground-truth")) SX_TRY_VOID(add_wcxb(folder / "wcxb", out));
  if (fs::exists(folder / "trafilatura/evaldata.json"))
    SX_TRY_VOID(add_trafilatura(folder / "trafilatura", out));
  for (const char* kind : {"article", "forum"}) {
    if (fs::exists(folder / "magic-html" / kind / "base.json.gz"))
      SX_TRY_VOID(add_magic_html(folder / "magic-html", kind, out));
  }
  if (out.empty())
    return Error{ErrorKind::kNotFound, "no benchmark of main-content extraction is here",
                 folder.string()};
  return out;
}

}  // namespace sx
