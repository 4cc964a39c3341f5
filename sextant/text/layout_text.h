#pragma once

#include <string>

#include "sextant/text/dom.h"

namespace sx {

/// The visible text of a page with its block layout, as plain text: paragraphs and headings (h1 to
/// h4) stand between empty lines, other blocks on lines of their own, list items behind "•" or
/// their number, indented by two spaces per depth, table cells behind two tabs; alt texts of images
/// are kept; form fields, scripts, styles, embedded objects and comments are left out. White space
/// is collapsed but inside `pre`. No line end at the end.
///
/// Cost:    linear in the tree; no recursion.
/// Source:  rules after the plain-text extraction of ChatNoir Resiliparse (list bullets, alt texts,
/// no links).
std::string layout_text(DomNode root);

/// Whether what stands in such an element is no text of the page: form fields, scripts, styles,
/// embedded objects.
bool has_no_page_text(Tag tag);

/// The text of the first title element in the HTML namespace, white space collapsed; empty when
/// there is none.
std::string page_title(DomNode document);

/// The lang attribute of the html element as written, else of the body; empty when there is none.
std::string page_language(DomNode document);

}  // namespace sx
