#include "sextant/text/layout_text.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

namespace sx {

namespace {

bool is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

/// Line ends a block asks for before and after itself; 0 for inline elements.
int margin(Tag tag) {
  switch (tag) {
    case Tag::kP:
    case Tag::kH1:
    case Tag::kH2:
    case Tag::kH3:
    case Tag::kH4: return 2;
    case Tag::kAddress:
    case Tag::kArticle:
    case Tag::kAside:
    case Tag::kBlockquote:
    case Tag::kBody:
    case Tag::kCaption:
    case Tag::kCenter:
    case Tag::kDd:
    case Tag::kDetails:
    case Tag::kDialog:
    case Tag::kDir:
    case Tag::kDiv:
    case Tag::kDl:
    case Tag::kDt:
    case Tag::kFieldset:
    case Tag::kFigcaption:
    case Tag::kFigure:
    case Tag::kFooter:
    case Tag::kForm:
    case Tag::kH5:
    case Tag::kH6:
    case Tag::kHeader:
    case Tag::kHgroup:
    case Tag::kHr:
    case Tag::kHtml:
    case Tag::kLegend:
    case Tag::kLi:
    case Tag::kMain:
    case Tag::kMenu:
    case Tag::kNav:
    case Tag::kOl:
    case Tag::kPre:
    case Tag::kSearch:
    case Tag::kSection:
    case Tag::kSummary:
    case Tag::kTable:
    case Tag::kTbody:
    case Tag::kTfoot:
    case Tag::kThead:
    case Tag::kTr:
    case Tag::kUl: return 1;
    default: return 0;
  }
}

bool is_list(Tag tag) {
  return tag == Tag::kUl || tag == Tag::kOl || tag == Tag::kMenu || tag == Tag::kDir;
}

class LayoutWriter {
 public:
  void enter(DomNode element) {
    const Tag tag = element.tag();
    ask_margin(margin(tag));
    if (tag == Tag::kBr) {
      ++breaks_;
    } else if (tag == Tag::kPre) {
      ++pre_depth_;
    } else if (is_list(tag)) {
      lists_.push_back({tag == Tag::kOl, 0});
    } else if (tag == Tag::kLi) {
      enter_item(element);
    } else if (tag == Tag::kTd || tag == Tag::kTh) {
      cell_ = true;
    } else if (tag == Tag::kImg || tag == Tag::kArea) {
      if (const auto alt = element.attribute("alt"); alt && !alt->empty()) text(*alt);
    }
  }

  void leave(DomNode element) {
    const Tag tag = element.tag();
    if (tag == Tag::kPre) --pre_depth_;
    if (tag == Tag::kTr) cell_ = false;
    if (is_list(tag)) lists_.pop_back();
    if (tag == Tag::kLi) {
      marker_.clear();
      items_.pop_back();
      if (lone_items_.back()) lists_.pop_back();
      lone_items_.pop_back();
    }
    ask_margin(margin(tag));
  }

  void text(std::string_view piece) {
    if (pre_depth_ > 0) {
      preformatted(piece);
      return;
    }
    std::size_t i = 0;
    while (i < piece.size()) {
      if (is_blank(piece[i])) {
        space_ = true;
        ++i;
        continue;
      }
      std::size_t end = i;
      while (end < piece.size() && !is_blank(piece[end])) ++end;
      begin_piece();
      out_.append(piece, i, end - i);
      i = end;
    }
  }

  std::string take() {
    cut_trailing_space();
    return std::move(out_);
  }

 private:
  struct List {
    bool ordered;
    int number;
  };

  void ask_margin(int lines) {
    if (lines > margin_) margin_ = lines;
    if (lines > 0) block_ = true;
  }

  void enter_item(DomNode element) {
    lone_items_.push_back(lists_.empty());
    if (lists_.empty()) lists_.push_back({false, 0});
    List& list = lists_.back();
    if (const auto value = list.ordered ? element.attribute("value") : std::nullopt) {
      int number = 0;
      for (const char c : *value) {
        if (c < '0' || c > '9' || number > 100000000) {
          number = list.number + 1;
          break;
        }
        number = number * 10 + (c - '0');
      }
      list.number = number;
    } else {
      ++list.number;
    }
    marker_ = list.ordered ? fmt::format("{}. ", list.number) : "\u2022 ";
    items_.push_back(false);
  }

  void cut_trailing_space() {
    while (!out_.empty() && is_blank(out_.back())) out_.pop_back();
  }

  /// Writes what is due before text: line ends, indent, marker, tabs or one space.
  void begin_piece() {
    const bool first = out_.empty();
    if (block_ || breaks_ > 0) {
      cut_trailing_space();
      if (!first) out_.append(static_cast<std::size_t>(margin_ + breaks_), '\n');
    }
    const bool at_line_start = first || block_ || breaks_ > 0;
    if (at_line_start && !lists_.empty()) {
      std::size_t indent = 2 * std::min<std::size_t>(lists_.size(), kMaxIndentDepth);
      if (marker_.empty() && !items_.empty()) indent += 2;
      out_.append(indent, ' ');
    }
    if (!marker_.empty()) {
      if (!at_line_start) out_ += ' ';
      out_ += marker_;
      marker_.clear();
    } else if (!at_line_start) {
      if (cell_) {
        cut_trailing_space();
        out_ += "\t\t";
      } else if (space_ && !is_blank(out_.back())) {
        out_ += ' ';
      }
    }
    cell_ = space_ = block_ = false;
    margin_ = breaks_ = 0;
  }

  void preformatted(std::string_view piece) {
    if (piece.empty()) return;
    begin_piece();
    for (const char c : piece) {
      out_ += c == '\r' ? '\n' : c;
      if (c == '\n' && !lists_.empty())
        out_.append(2 * std::min<std::size_t>(lists_.size(), kMaxIndentDepth) + 2, ' ');
    }
  }

  static constexpr std::size_t kMaxIndentDepth = 32;
  std::string out_;
  std::vector<List> lists_;
  std::vector<bool> items_;
  std::vector<bool> lone_items_;
  std::string marker_;  // of the item that has no text yet
  int margin_ = 0;
  int breaks_ = 0;
  int pre_depth_ = 0;
  bool block_ = false;
  bool space_ = false;
  bool cell_ = false;
};

std::string collapsed(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (!is_blank(c))
      out += c;
    else if (!out.empty() && out.back() != ' ')
      out += ' ';
  }
  if (!out.empty() && out.back() == ' ') out.pop_back();
  return out;
}

}  // namespace

bool has_no_page_text(Tag tag) {
  switch (tag) {
    case Tag::kHead:
    case Tag::kScript:
    case Tag::kStyle:
    case Tag::kTemplate:
    case Tag::kIframe:
    case Tag::kObject:
    case Tag::kCanvas:
    case Tag::kSvg:
    case Tag::kMath:
    case Tag::kNoscript:
    case Tag::kNoembed:
    case Tag::kNoframes:
    case Tag::kEmbed:
    case Tag::kAudio:
    case Tag::kVideo:
    case Tag::kSelect:
    case Tag::kDatalist:
    case Tag::kButton:
    case Tag::kInput:
    case Tag::kTextarea:
    case Tag::kTitle: return true;
    default: return false;
  }
}

std::string layout_text(DomNode root) {
  LayoutWriter writer;
  DomNode node = root;
  while (node) {
    const NodeKind kind = node.kind();
    bool descend = kind == NodeKind::kDocument || node == root;
    if (kind == NodeKind::kText) {
      writer.text(node.text());
    } else if (kind == NodeKind::kElement && !has_no_page_text(node.tag())) {
      writer.enter(node);
      descend = true;
    }
    if (descend && node.first_child()) {
      node = node.first_child();
      continue;
    }
    if (descend && kind == NodeKind::kElement) writer.leave(node);
    while (node && node != root && !node.next()) {
      node = node.parent();
      if (node && node.kind() == NodeKind::kElement) writer.leave(node);
    }
    node = !node || node == root ? DomNode() : node.next();
  }
  return writer.take();
}

std::string page_title(DomNode document) {
  for (DomNode node = document.first_child(); node; node = node.following(document)) {
    if (node.tag() != Tag::kTitle || !node.is_html()) continue;
    std::string text;
    for (DomNode child = node.first_child(); child; child = child.next()) text += child.text();
    return collapsed(text);
  }
  return {};
}

std::string page_language(DomNode document) {
  for (DomNode html = document.first_child(); html; html = html.next()) {
    if (html.tag() != Tag::kHtml) continue;
    if (const auto lang = html.attribute("lang"); lang && !lang->empty()) return collapsed(*lang);
    if (const auto lang = html.attribute("xml:lang"); lang && !lang->empty())
      return collapsed(*lang);
    for (DomNode child = html.first_child(); child; child = child.next()) {
      if (child.tag() != Tag::kBody) continue;
      if (const auto lang = child.attribute("lang")) return collapsed(*lang);
    }
  }
  return {};
}

}  // namespace sx
