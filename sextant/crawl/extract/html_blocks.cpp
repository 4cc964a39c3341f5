#include "sextant/crawl/extract/html_blocks.h"

#include <algorithm>
#include <array>
#include <memory>
#include <unordered_map>

#include "sextant/base/hash.h"
#include "sextant/text/aho_corasick.h"
#include "sextant/text/ascii.h"
#include "sextant/text/layout_text.h"
#include "sextant/text/unicode.h"

namespace sx {

namespace {

struct GroupWord {
  WordGroup group;
  const char* words;
};

constexpr GroupWord kGroupWords[] = {
    {WordGroup::kArticle, "article story post entry blog"},
    {WordGroup::kContent, "content body text richtext prose markdown"},
    {WordGroup::kNavigation, "nav menu breadcrumb crumb"},
    {WordGroup::kFooter, "footer foot copyright colophon"},
    {WordGroup::kHeader, "header masthead topbar toolbar"},
    {WordGroup::kSidebar, "sidebar aside rail widget complementary"},
    {WordGroup::kComment, "comment reply respond discuss"},
    {WordGroup::kShare, "share social follow"},
    {WordGroup::kRelated, "related recommend similar popular trending latest readmore also"},
    {WordGroup::kAdvert, "advert sponsor promo banner adsense"},
    {WordGroup::kMeta, "meta byline author date time publish tag categor"},
    {WordGroup::kSignup, "newsletter subscri signup sign-up login register"},
    {WordGroup::kConsent, "cookie consent gdpr modal popup overlay dialog"},
    {WordGroup::kProduct, "product price cart sku rating review shop"},
    {WordGroup::kDescription, "desc summary detail spec overview about intro lead"},
    {WordGroup::kForum, "thread topic message forum answer question"},
    {WordGroup::kList, "list grid card item result teaser tile"},
    {WordGroup::kCaption, "caption credit figure gallery"},
    {WordGroup::kTitle, "title headline heading"},
    {WordGroup::kPaging, "pag next prev toc index"},
    {WordGroup::kHidden, "hidden sr-only screen-reader visually print collapse"},
    {WordGroup::kHero, "hero cta button btn feature"},
    {WordGroup::kSearch, "search form input filter"},
    {WordGroup::kMain, "main primary single"},
};

/// One automaton for all words; a word's index leads to its group.
struct GroupMatcher {
  std::vector<std::string> words;
  std::vector<std::uint32_t> bits;
  std::unique_ptr<AhoCorasick> automaton;

  GroupMatcher() {
    for (const GroupWord& entry : kGroupWords) {
      std::string_view rest = entry.words;
      while (!rest.empty()) {
        const std::size_t space = rest.find(' ');
        words.emplace_back(rest.substr(0, space));
        bits.push_back(1u << static_cast<unsigned>(entry.group));
        rest = space == std::string_view::npos ? std::string_view() : rest.substr(space + 1);
      }
    }
    automaton = std::make_unique<AhoCorasick>(words);
  }
  std::uint32_t groups_of(std::string_view text) const {
    std::uint32_t groups = 0;
    automaton->scan(text, [&](std::size_t word, std::size_t) { groups |= bits[word]; });
    return groups;
  }
};

const GroupMatcher& group_matcher() {
  static const GroupMatcher kMatcher;
  return kMatcher;
}

bool is_inline(Tag tag) {
  switch (tag) {
    case Tag::kA:
    case Tag::kB:
    case Tag::kI:
    case Tag::kEm:
    case Tag::kStrong:
    case Tag::kSpan:
    case Tag::kCode:
    case Tag::kLabel:
    case Tag::kImg:
    case Tag::kWbr:
    case Tag::kRp:
    case Tag::kOther: return true;
    default: return false;
  }
}

/// Tags that say what a block is; others leave it to the element around.
bool gives_role(Tag tag) {
  switch (tag) {
    case Tag::kP:
    case Tag::kLi:
    case Tag::kTd:
    case Tag::kTh:
    case Tag::kDt:
    case Tag::kDd:
    case Tag::kPre:
    case Tag::kBlockquote:
    case Tag::kFigcaption:
    case Tag::kCaption:
    case Tag::kH1:
    case Tag::kH2:
    case Tag::kH3:
    case Tag::kH4:
    case Tag::kH5:
    case Tag::kH6:
    case Tag::kDiv:
    case Tag::kSection:
    case Tag::kArticle:
    case Tag::kBody: return true;
    default: return false;
  }
}

bool is_page_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

class BlockCutter {
 public:
  explicit BlockCutter(HtmlBlocks& out) : out_(out) {}

  void walk(DomNode body) {
    DomNode node = body;
    while (node) {
      bool descend = false;
      if (node.kind() == NodeKind::kText) {
        text(node.text());
      } else if (node.kind() == NodeKind::kElement && !has_no_page_text(node.tag())) {
        enter(node);
        descend = true;
      }
      if (descend && node.first_child()) {
        node = node.first_child();
        continue;
      }
      if (descend) leave(node.tag());
      while (node && node != body && !node.next()) {
        node = node.parent();
        leave(node.tag());
      }
      node = !node || node == body ? DomNode() : node.next();
    }
    close_block();
    sum_up();
  }

 private:
  void enter(DomNode node) {
    const Tag tag = node.tag();
    if (tag == Tag::kBr) {
      if (++breaks_ == 2)
        close_block();
      else
        space_ = true;
    }
    if (!is_inline(tag) && tag != Tag::kBr) close_block();
    HtmlElement element;
    element.parent = stack_.empty() ? -1 : stack_.back();
    element.tag = tag;
    element.depth = static_cast<std::uint32_t>(stack_.size());
    element.first_block = static_cast<std::uint32_t>(out_.blocks.size());
    describe(node, element);
    out_.elements.push_back(element);
    stack_.push_back(static_cast<std::int32_t>(out_.elements.size() - 1));
    if (tag == Tag::kA) ++link_depth_;
    if (tag == Tag::kPre) ++pre_depth_;
    if (tag == Tag::kTd || tag == Tag::kTh) space_ = true;
  }

  void describe(DomNode node, HtmlElement& element) {
    std::string words;
    std::string_view class_name;
    for (const char* name : {"class", "id", "role", "itemprop"}) {
      const auto value = node.attribute(name);
      if (!value) continue;
      if (name[0] == 'c') class_name = *value;
      words += std::string(value->substr(0, 300)) + ' ';
    }
    if (!words.empty()) element.groups = group_matcher().groups_of(words);
    const auto style = node.attribute("style");
    element.hidden = node.attribute("hidden").has_value() ||
                     node.attribute("aria-hidden").value_or("") == "true" ||
                     (style && (style->find("display:none") != std::string_view::npos ||
                                style->find("display: none") != std::string_view::npos));
    std::uint64_t signature = xxh3_64(class_name);
    signature ^= (static_cast<std::uint64_t>(element.tag) + 1) * 0x9E3779B97F4A7C15;
    signature ^= (static_cast<std::uint64_t>(element.parent) + 2) * 0xC2B2AE3D27D4EB4F;
    element.signature = signature;
    if (element.parent >= 0 && out_.elements[static_cast<std::size_t>(element.parent)].hidden)
      element.hidden = true;
  }

  void leave(Tag tag) {
    if (!is_inline(tag) && tag != Tag::kBr) close_block();
    if (tag == Tag::kA) --link_depth_;
    if (tag == Tag::kPre) --pre_depth_;
    HtmlElement& element = out_.elements[static_cast<std::size_t>(stack_.back())];
    element.end_block = static_cast<std::uint32_t>(out_.blocks.size()) + (open_ ? 1 : 0);
    stack_.pop_back();
  }

  void text(std::string_view piece) {
    std::size_t i = 0;
    while (i < piece.size()) {
      if (is_page_blank(piece[i]) && !(pre_depth_ > 0 && open_)) {
        space_ = true;
        ++i;
        continue;
      }
      std::size_t end = i + 1;
      if (pre_depth_ > 0)
        end = piece.size();
      else
        while (end < piece.size() && !is_page_blank(piece[end])) ++end;
      put(piece.substr(i, end - i));
      i = end;
    }
  }

  void put(std::string_view word) {
    if (!open_) {
      open_ = true;
      block_ = {};
      block_.element = stack_.back();
      block_.preformatted = pre_depth_ > 0;
      for (std::int32_t e = stack_.back(); e >= 0;) {
        const HtmlElement& element = out_.elements[static_cast<std::size_t>(e)];
        if (gives_role(element.tag)) {
          block_.tag = element.tag;
          break;
        }
        e = element.parent;
      }
    } else if (space_) {
      block_.text += ' ';
    }
    space_ = false;
    breaks_ = 0;
    block_.text.append(word);
    const auto chars = static_cast<std::uint32_t>(count_code_points(word));
    block_.chars += chars;
    if (link_depth_ > 0) block_.link_chars += chars;
  }

  void close_block() {
    breaks_ = 0;
    space_ = false;
    if (!open_) return;
    open_ = false;
    while (!block_.text.empty() && is_page_blank(block_.text.back())) block_.text.pop_back();
    block_.text.erase(std::remove(block_.text.begin(), block_.text.end(), '\0'), block_.text.end());
    block_.words = count_page_words(block_.text);
    if (!block_.text.empty()) out_.blocks.push_back(std::move(block_));
  }

  void sum_up() {
    for (const HtmlBlock& block : out_.blocks) {
      HtmlElement& element = out_.elements[static_cast<std::size_t>(block.element)];
      element.chars += block.chars;
      element.link_chars += block.link_chars;
      if (block.words >= 15 && block.link_chars * 3 < block.chars)
        element.prose_chars += block.chars;
    }
    std::unordered_map<std::uint64_t, std::uint32_t> repeats;
    for (std::size_t i = out_.elements.size(); i-- > 0;) {
      HtmlElement& element = out_.elements[i];
      element.end_block =
          std::min(element.end_block, static_cast<std::uint32_t>(out_.blocks.size()));
      if (element.chars > 0) ++repeats[element.signature];
      if (element.parent < 0) continue;
      HtmlElement& parent = out_.elements[static_cast<std::size_t>(element.parent)];
      parent.chars += element.chars;
      parent.link_chars += element.link_chars;
      parent.prose_chars += element.prose_chars;
    }
    for (HtmlElement& element : out_.elements) {
      if (element.chars > 0) element.repeats = repeats[element.signature];
    }
  }

  HtmlBlocks& out_;
  std::vector<std::int32_t> stack_;
  HtmlBlock block_;
  bool open_ = false;
  bool space_ = false;
  int breaks_ = 0;
  int link_depth_ = 0;
  int pre_depth_ = 0;
};

constexpr std::array<std::string_view, 12> kSchemas = {
    "article", "newsarticle", "blogposting", "product",        "discussionforumposting",
    "qapage",  "itemlist",    "howto",       "collectionpage", "localbusiness",
    "faqpage", "techarticle"};

constexpr std::array<std::string_view, 16> kUrlWords = {
    "product", "shop",  "forum", "thread", "topic",   "blog",     "news", "article",
    "doc",     "guide", "help",  "categ",  "service", "question", "tag",  "about"};

void read_schema(std::string_view json, HtmlHints& hints) {
  for (std::size_t pos = 0; (pos = json.find("\"@type\"", pos)) != std::string_view::npos;) {
    pos += 7;
    const std::string_view rest = json.substr(pos, 80);
    for (std::size_t i = 0; i < kSchemas.size(); ++i) {
      const std::size_t begin = rest.find('"');
      if (begin == std::string_view::npos) break;
      const std::size_t end = rest.find('"', begin + 1);
      if (end == std::string_view::npos) break;
      if (equal_fold(rest.substr(begin + 1, end - begin - 1), kSchemas[i]))
        hints.schemas |= 1u << i;
    }
  }
}

void read_hints(DomNode document, std::string_view url, HtmlHints& hints) {
  for (DomNode node = document.first_child(); node; node = node.following(document)) {
    if (node.tag() == Tag::kMeta && node.attribute("property").value_or("") == "og:type") {
      for (const char c : node.attribute("content").value_or("").substr(0, 40))
        hints.og_type += to_lower(c);
    } else if (node.tag() == Tag::kScript && node.first_child() &&
               node.attribute("type").value_or("").find("ld+json") != std::string_view::npos) {
      read_schema(node.first_child().text(), hints);
    }
  }
  std::string lower;
  for (const char c : url.substr(0, 500)) lower += to_lower(c);
  const std::size_t path = lower.find('/', lower.find("://") + 3);
  if (path == std::string::npos) return;
  hints.url_depth = static_cast<std::uint32_t>(
      std::count(lower.begin() + static_cast<std::ptrdiff_t>(path), lower.end(), '/'));
  for (std::size_t i = 0; i < kUrlWords.size(); ++i) {
    if (lower.find(kUrlWords[i], path) != std::string::npos) hints.url_words |= 1u << i;
  }
}

}  // namespace

std::uint32_t count_page_words(std::string_view text) {
  std::uint32_t words = 0;
  std::uint32_t unspaced = 0;
  bool in_word = false;
  for (std::size_t pos = 0; pos < text.size();) {
    const char32_t c = next_code_point(text, pos);
    const bool cjk = (c >= 0x3040 && c <= 0x30FF) || (c >= 0x3400 && c <= 0x9FFF);
    unspaced += cjk ? 1 : 0;
    const bool part = !cjk && (is_alnum(c) || c == '_');
    words += part && !in_word ? 1 : 0;
    in_word = part;
  }
  return words + (unspaced + 1) / 2;
}

HtmlBlocks cut_blocks(DomNode document, std::string_view url) {
  HtmlBlocks out;
  read_hints(document, url, out.hints);
  for (DomNode node = document.first_child(); node; node = node.following(document)) {
    if (node.tag() != Tag::kBody) continue;
    BlockCutter(out).walk(node);
    break;
  }
  return out;
}

}  // namespace sx
