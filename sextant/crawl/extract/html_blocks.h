#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sextant/text/dom.h"

namespace sx {

/// Groups of words that class, id, role and itemprop of elements are searched for. General words of
/// the web's trade; no name of a site.
enum class WordGroup : std::uint8_t {
  kArticle,
  kContent,
  kNavigation,
  kFooter,
  kHeader,
  kSidebar,
  kComment,
  kShare,
  kRelated,
  kAdvert,
  kMeta,
  kSignup,
  kConsent,
  kProduct,
  kDescription,
  kForum,
  kList,
  kCaption,
  kTitle,
  kPaging,
  kHidden,
  kHero,
  kSearch,
  kMain,
  kCount
};
inline constexpr std::size_t kNumWordGroups = static_cast<std::size_t>(WordGroup::kCount);

/// An element of the body that holds text.
struct HtmlElement {
  std::int32_t parent = -1;  ///< index of the element around it
  Tag tag = Tag::kNone;
  std::uint32_t groups = 0;     ///< bit i = a word of group i
  std::uint64_t signature = 0;  ///< hash of parent, tag and class: equal for repeated siblings
  std::uint32_t depth = 0;
  bool hidden = false;
  std::uint32_t first_block = 0, end_block = 0;  ///< the blocks inside
  double chars = 0, link_chars = 0, prose_chars = 0;
  std::uint32_t repeats = 1;  ///< siblings of the same signature, itself included
};

/// A run of text between the borders of block elements.
struct HtmlBlock {
  std::string text;  ///< white space collapsed, except in pre
  std::int32_t element = 0;
  Tag tag = Tag::kNone;  ///< nearest element that gives the block its role (p, li, h1, td, div ...)
  std::uint32_t words = 0;
  std::uint32_t chars = 0;
  std::uint32_t link_chars = 0;
  bool preformatted = false;
};

/// What the head and the address say of a page.
struct HtmlHints {
  std::string og_type;        ///< lower case
  std::uint32_t schemas = 0;  ///< bit per kind of schema.org type seen, see html_blocks.cpp
  std::uint32_t url_words = 0;
  std::uint32_t url_depth = 0;
};

struct HtmlBlocks {
  std::vector<HtmlElement> elements;
  std::vector<HtmlBlock> blocks;
  HtmlHints hints;
};

/// Cuts the body of a page into blocks. Linear in the tree; no recursion.
HtmlBlocks cut_blocks(DomNode document, std::string_view url);

/// Words of `text`: runs of letters, digits and "_"; two ideographs or kana make one.
std::uint32_t count_page_words(std::string_view text);

}  // namespace sx
