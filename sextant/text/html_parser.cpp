#include "sextant/text/html_parser.h"

#include <lexbor/html/html.h>
#include <lexbor/tag/tag.h>

#include <algorithm>
#include <array>

#include "sextant/base/check.h"
#include "sextant/text/html_arena.h"

namespace sx {

namespace {

constexpr std::size_t kChunkBytes = std::size_t{16} << 10;
constexpr std::uint64_t kFixedBudget = std::uint64_t{8} << 20;

bool is_formatting(lxb_tag_id_t tag) {
  switch (tag) {
    case LXB_TAG_A:
    case LXB_TAG_B:
    case LXB_TAG_BIG:
    case LXB_TAG_CODE:
    case LXB_TAG_EM:
    case LXB_TAG_FONT:
    case LXB_TAG_I:
    case LXB_TAG_NOBR:
    case LXB_TAG_S:
    case LXB_TAG_SMALL:
    case LXB_TAG_STRIKE:
    case LXB_TAG_STRONG:
    case LXB_TAG_TT:
    case LXB_TAG_U: return true;
    default: return false;
  }
}

/// Elements that never stay open around others: void ones, and those whose content is plain text.
/// The tokenizer must see the latter inserted, or it would read their content as markup.
bool never_nests(lxb_tag_id_t tag) {
  switch (tag) {
    case LXB_TAG_AREA:
    case LXB_TAG_BASE:
    case LXB_TAG_BR:
    case LXB_TAG_COL:
    case LXB_TAG_EMBED:
    case LXB_TAG_HR:
    case LXB_TAG_IMG:
    case LXB_TAG_INPUT:
    case LXB_TAG_LINK:
    case LXB_TAG_META:
    case LXB_TAG_PARAM:
    case LXB_TAG_SOURCE:
    case LXB_TAG_TRACK:
    case LXB_TAG_WBR:
    case LXB_TAG_BASEFONT:
    case LXB_TAG_BGSOUND:
    case LXB_TAG_SCRIPT:
    case LXB_TAG_STYLE:
    case LXB_TAG_TITLE:
    case LXB_TAG_TEXTAREA:
    case LXB_TAG_IFRAME:
    case LXB_TAG_NOEMBED:
    case LXB_TAG_NOFRAMES:
    case LXB_TAG_XMP:
    case LXB_TAG_PLAINTEXT: return true;
    default: return false;
  }
}

/// Tags that may stand inside an option without ending it.
bool stays_in_select(lxb_tag_id_t tag) {
  switch (tag) {
    case LXB_TAG_HR:
    case LXB_TAG_SCRIPT:
    case LXB_TAG_TEMPLATE:
    case LXB_TAG_SPAN:
    case LXB_TAG_FONT:
    case LXB_TAG_B:
    case LXB_TAG_I:
    case LXB_TAG_U:
    case LXB_TAG_EM:
    case LXB_TAG_STRONG:
    case LXB_TAG_BR:
    case LXB_TAG_IMG:
    case LXB_TAG__EM_COMMENT: return true;
    default: return false;
  }
}

/// Stands between tokenizer and tree builder and decides, token by token, what the tree builder
/// gets to see.
class Guard {
 public:
  Guard(const HtmlLimits& limits, HtmlArena& arena, lxb_html_parser_t* parser, std::uint64_t budget)
      : limits_(limits), arena_(arena), tree_(parser->tree), budget_(budget) {
    lxb_html_tokenizer_t* tokenizer = parser->tkz;
    inner_ = tokenizer->callback_token_done;
    inner_context_ = tokenizer->callback_token_ctx;
    lxb_html_tokenizer_callback_token_done_set(tokenizer, &Guard::on_token, this);
  }

  HtmlEnd end() const { return end_; }
  std::uint64_t nodes() const { return nodes_; }
  std::uint64_t steps() const { return steps_; }
  bool over_budget() {
    if (end_ == HtmlEnd::kComplete) {
      if (arena_.used_bytes() > budget_)
        end_ = HtmlEnd::kMemoryLimit;
      else if (nodes_ > limits_.max_nodes)
        end_ = HtmlEnd::kNodeLimit;
    }
    return end_ != HtmlEnd::kComplete;
  }

 private:
  static lxb_html_token_t* on_token(lxb_html_tokenizer_t* tokenizer, lxb_html_token_t* token,
                                    void* context) {
    auto* guard = static_cast<Guard*>(context);
    if (token->tag_id != LXB_TAG__END_OF_FILE && (guard->over_budget() || !guard->admits(*token)))
      return token;
    guard->count_steps(*token);
    return guard->inner_(tokenizer, token, guard->inner_context_);
  }

  bool admits(lxb_html_token_t& token) {
    const bool closes = (token.type & LXB_HTML_TOKEN_TYPE_CLOSE) != 0;
    if (!closes) ++nodes_;
    if (!limits_.guard) return true;
    if (limits_.drop_select && !admits_beside_select(token)) return false;
    if (token.tag_id < LXB_TAG_A) return true;  // text, comment, doctype: no element
    if (closes) return admits_end_tag(token.tag_id);
    cut_attributes(token);
    if (!admits_start_tag(token)) {
      ++count(token.tag_id);
      ++num_swallowed_;
      return false;
    }
    return true;
  }

  bool admits_beside_select(const lxb_html_token_t& token) {
    const bool own = token.tag_id == LXB_TAG_SELECT || token.tag_id == LXB_TAG_OPTION ||
                     token.tag_id == LXB_TAG_OPTGROUP;
    if (own) {
      in_select_ =
          !(token.tag_id == LXB_TAG_SELECT && (token.type & LXB_HTML_TOKEN_TYPE_CLOSE) != 0);
      return false;
    }
    if (!in_select_) return true;
    if (token.tag_id == LXB_TAG__TEXT || stays_in_select(token.tag_id)) {
      // A script's start tag must reach the tokenizer's state; its text is skipped by every walker.
      return token.tag_id == LXB_TAG_SCRIPT;
    }
    in_select_ = false;
    return true;
  }

  bool admits_start_tag(const lxb_html_token_t& token) {
    if (never_nests(token.tag_id)) return true;
    const std::size_t depth = lexbor_array_length(tree_->open_elements);
    if (depth >= limits_.max_depth) return false;
    if (depth < limits_.max_depth / 2 && num_swallowed_ > 0) {  // the deep part is behind us
      swallowed_.fill(0);
      num_swallowed_ = 0;
    }
    return !is_formatting(token.tag_id) || num_formatting() < limits_.max_formatting;
  }

  bool admits_end_tag(lxb_tag_id_t tag) {
    if (num_swallowed_ == 0 || count(tag) == 0) return true;
    --count(tag);
    --num_swallowed_;
    return false;
  }

  void cut_attributes(lxb_html_token_t& token) {
    std::size_t kept = 0;
    for (lxb_html_token_attr_t* a = token.attr_first; a != nullptr; a = a->next) {
      if (++kept == limits_.max_attributes) {
        a->next = nullptr;
        token.attr_last = a;
        return;
      }
    }
  }

  /// What the tree builder may walk for this token, see ParsedPage::steps.
  void count_steps(const lxb_html_token_t& token) {
    std::uint64_t attributes = 0;
    for (const lxb_html_token_attr_t* a = token.attr_first; a != nullptr; a = a->next) ++attributes;
    steps_ += 1 + lexbor_array_length(tree_->open_elements) +
              lexbor_array_length(tree_->active_formatting) + attributes * attributes / 2;
  }

  /// Entries behind the last marker, counted no further than the limit.
  std::size_t num_formatting() const {
    const lexbor_array_t* list = tree_->active_formatting;
    std::size_t found = 0;
    for (std::size_t i = list->length; i-- > 0 && found < limits_.max_formatting;) {
      const auto* entry = static_cast<const lxb_dom_node_t*>(list->list[i]);
      if (entry == nullptr || !is_formatting(entry->local_name)) break;
      ++found;
    }
    return found;
  }

  /// Start tags of this name that were swallowed and not closed yet; unknown names share one
  /// counter.
  std::uint32_t& count(lxb_tag_id_t tag) { return swallowed_[tag < LXB_TAG__LAST_ENTRY ? tag : 0]; }

  const HtmlLimits& limits_;
  HtmlArena& arena_;
  lxb_html_tree_t* tree_;
  lxb_html_tokenizer_token_f inner_ = nullptr;
  void* inner_context_ = nullptr;
  std::uint64_t budget_;
  std::uint64_t nodes_ = 0;
  std::uint64_t steps_ = 0;
  HtmlEnd end_ = HtmlEnd::kComplete;
  bool in_select_ = false;
  std::array<std::uint32_t, LXB_TAG__LAST_ENTRY> swallowed_{};
  std::uint64_t num_swallowed_ = 0;
};

// lexbor keeps names it does not know in tables of 128 buckets, so a page of many distinct
// attribute or element names would search ever longer chains. Gives an empty table as many buckets
// as a page of this size can need.
void widen(lexbor_hash_t* table, std::size_t page_bytes) {
  std::size_t buckets = table->table_size;
  while (buckets < page_bytes / 32 && buckets < (std::size_t{1} << 20)) buckets *= 2;
  auto* wide =
      static_cast<lexbor_hash_entry_t**>(lexbor_calloc(buckets, sizeof(lexbor_hash_entry_t*)));
  if (wide == nullptr) return;  // over budget: the guard sees to it
  table->table = wide;          // the old one is the arena's
  table->table_size = buckets;
}

}  // namespace

struct HtmlParser::State {
  HtmlArena arena;

  lxb_html_parser_t* make_parser() {
    arena.reset();
    lxb_html_parser_t* parser = lxb_html_parser_create();
    const bool started = parser != nullptr && lxb_html_parser_init(parser) == LXB_STATUS_OK;
    SX_CHECK(started, "lexbor cannot start: out of memory");
    return parser;
  }
};

HtmlParser::HtmlParser() : state_(std::make_unique<State>()) {}
HtmlParser::~HtmlParser() = default;

ParsedPage HtmlParser::parse(std::string_view html, const HtmlLimits& limits) {
  HtmlArena::Scope scope(state_->arena);
  lxb_html_parser_t* parser = state_->make_parser();
  Guard guard(limits, state_->arena, parser,
              limits.guard ? limits.memory_per_byte * html.size() + kFixedBudget : UINT64_MAX);
  ParsedPage page;
  lxb_html_document_t* document = lxb_html_parse_chunk_begin(parser);
  SX_CHECK(document != nullptr, "lexbor cannot start a document: out of memory");
  widen(document->dom_document.attrs, html.size());
  widen(document->dom_document.tags, html.size());
  bool sound = true;
  for (std::size_t pos = 0; pos < html.size() && sound && !guard.over_budget();
       pos += kChunkBytes) {
    const std::string_view chunk = html.substr(pos, kChunkBytes);
    sound = lxb_html_parse_chunk_process(parser, reinterpret_cast<const lxb_char_t*>(chunk.data()),
                                         chunk.size()) == LXB_STATUS_OK;
  }
  if (sound) sound = lxb_html_parse_chunk_end(parser) == LXB_STATUS_OK;
  page.document = DomNode(lxb_dom_interface_node(document));
  page.end = guard.end();
  if (!sound && page.end == HtmlEnd::kComplete)
    page.end = HtmlEnd::kMemoryLimit;  // lexbor fails on nothing else
  page.nodes = guard.nodes();
  page.steps = guard.steps();
  page.memory_bytes = state_->arena.used_bytes();
  return page;
}

ParsedPage HtmlParser::parse_fragment(std::string_view html, std::string_view context_name) {
  HtmlArena::Scope scope(state_->arena);
  lxb_html_parser_t* parser = state_->make_parser();
  lxb_html_document_t* document = lxb_html_document_create();
  lxb_ns_id_t ns = LXB_NS_HTML;
  if (context_name.starts_with("svg ")) ns = LXB_NS_SVG;
  if (context_name.starts_with("math ")) ns = LXB_NS_MATH;
  if (ns != LXB_NS_HTML) context_name.remove_prefix(context_name.find(' ') + 1);
  const lxb_tag_id_t tag = lxb_tag_id_by_name(
      lxb_html_document_tags(document), reinterpret_cast<const lxb_char_t*>(context_name.data()),
      context_name.size());
  ParsedPage page;
  page.document = DomNode(lxb_html_parse_fragment_by_tag_id(
      parser, document, tag, ns, reinterpret_cast<const lxb_char_t*>(html.data()), html.size()));
  page.memory_bytes = state_->arena.used_bytes();
  return page;
}

}  // namespace sx
