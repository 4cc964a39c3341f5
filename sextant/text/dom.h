#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sx {

// Elements that walkers know by name; all others are Tag::kOther.
#define SX_HTML_TAGS(X)                                                                            \
  X(kA, A)                                                                                         \
  X(kAddress, ADDRESS)                                                                             \
  X(kArea, AREA)                                                                                   \
  X(kArticle, ARTICLE) X(kAside, ASIDE) X(kAudio, AUDIO) X(kB, B) X(kBlockquote, BLOCKQUOTE)       \
      X(kBody, BODY) X(kBr, BR) X(kButton, BUTTON) X(kCanvas, CANVAS) X(kCaption, CAPTION) X(      \
          kCenter, CENTER) X(kCode, CODE) X(kDatalist, DATALIST) X(kDd, DD) X(kDetails, DETAILS)   \
          X(kDialog, DIALOG) X(kDir, DIR) X(kDiv, DIV) X(kDl, DL) X(kDt, DT) X(kEm, EM) X(         \
              kEmbed, EMBED) X(kFieldset, FIELDSET) X(kFigcaption, FIGCAPTION) X(kFigure, FIGURE)  \
              X(kFooter, FOOTER) X(kForm, FORM) X(kFrameset, FRAMESET) X(kH1, H1) X(kH2, H2)       \
                  X(kH3, H3) X(kH4, H4) X(kH5, H5) X(kH6, H6) X(kHead, HEAD) X(kHeader, HEADER) X( \
                      kHgroup, HGROUP) X(kHr, HR) X(kHtml, HTML) X(kI, I) X(kIframe, IFRAME)       \
                      X(kImg, IMG) X(kInput, INPUT) X(kLabel, LABEL) X(kLegend, LEGEND) X(kLi, LI) \
                          X(kLink, LINK) X(kMain, MAIN) X(kMath, MATH)                             \
                              X(kMenu, MENU) X(kMeta, META) X(kNav, NAV) X(kNoembed, NOEMBED) X(   \
                                  kNoframes, NOFRAMES) X(kNoscript, NOSCRIPT) X(kObject, OBJECT)   \
                                  X(kOl, OL) X(kOptgroup, OPTGROUP) X(kOption, OPTION)             \
                                      X(kP, P) X(kPre, PRE) X(kRp, RP) X(kScript, SCRIPT) X(       \
                                          kSearch, SEARCH) X(kSection, SECTION) X(kSelect, SELECT) \
                                          X(kSpan, SPAN) X(kStrong, STRONG) X(kStyle, STYLE)       \
                                              X(kSummary, SUMMARY) X(kSvg, SVG) X(kTable, TABLE)   \
                                                  X(kTbody, TBODY) X(kTd, TD) X(                   \
                                                      kTemplate, TEMPLATE) X(kTextarea, TEXTAREA)  \
                                                      X(kTfoot, TFOOT) X(kTh, TH) X(kThead, THEAD) \
                                                          X(kTitle, TITLE) X(kTr, TR) X(kUl, UL)   \
                                                              X(kVideo, VIDEO) X(kWbr, WBR)

enum class Tag : std::uint8_t {
  kNone,   ///< not an element
  kOther,  ///< an element without a name of its own here
#define SX_TAG_ENUMERATOR(name, lexbor) name,
  SX_HTML_TAGS(SX_TAG_ENUMERATOR)
#undef SX_TAG_ENUMERATOR
};

enum class NodeKind : std::uint8_t {
  kDocument,
  kElement,
  kText,
  kComment,
  kDoctype,
  kProcessingInstruction,
  kOther
};

/// A place in the tree of a parsed page: a light handle, copied freely. Views and handles hold
/// until the parser's next page. Nothing here recurses: pages nest as deep as their author likes.
class DomNode {
 public:
  DomNode() = default;
  explicit operator bool() const { return node_ != nullptr; }
  friend bool operator==(DomNode, DomNode) = default;

  NodeKind kind() const;
  Tag tag() const;       ///< of an element in any namespace; Tag::kSvg also stands for the whole
                         ///< subtree's root
  bool is_html() const;  ///< element in the HTML namespace
  std::string_view name() const;  ///< as the serialiser writes it: "div", "svg", "foreignObject"
  std::string_view namespace_prefix() const;  ///< "", "svg", "math"
  std::string_view text() const;  ///< of text, comment; data of a processing instruction
  std::optional<std::string_view> attribute(std::string_view name) const;
  std::vector<std::pair<std::string, std::string>> attributes()
      const;  ///< in the order of the page

  DomNode parent() const;
  DomNode first_child() const;
  DomNode last_child() const;
  DomNode next() const;
  DomNode previous() const;
  DomNode template_content() const;  ///< of a template element, else none

  /// What follows in document order inside `root`; `skip_children` passes over this node's subtree.
  DomNode following(DomNode root, bool skip_children = false) const;

  /// For doctype nodes: name, public and system identifier.
  struct Doctype {
    std::string_view name, public_id, system_id;
  };
  Doctype doctype() const;

 private:
  friend class HtmlParser;
  explicit DomNode(void* node) : node_(node) {}
  void* node_ = nullptr;
};

}  // namespace sx
