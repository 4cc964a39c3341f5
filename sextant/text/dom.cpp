#include "sextant/text/dom.h"

#include <lexbor/dom/dom.h>
#include <lexbor/html/html.h>
#include <lexbor/html/interfaces/template_element.h>

#include <array>

namespace sx {

namespace {

constexpr auto kTagOfLexbor = [] {
  std::array<Tag, LXB_TAG__LAST_ENTRY> table{};
  for (Tag& tag : table) tag = Tag::kOther;
#define SX_TAG_ENTRY(name, lexbor) table[LXB_TAG_##lexbor] = Tag::name;
  SX_HTML_TAGS(SX_TAG_ENTRY)
#undef SX_TAG_ENTRY
  return table;
}();

lxb_dom_node_t* raw(void* node) { return static_cast<lxb_dom_node_t*>(node); }
std::string_view view(const lxb_char_t* data, std::size_t size) {
  return data == nullptr ? std::string_view()
                         : std::string_view(reinterpret_cast<const char*>(data), size);
}

}  // namespace

NodeKind DomNode::kind() const {
  switch (raw(node_)->type) {
    case LXB_DOM_NODE_TYPE_ELEMENT: return NodeKind::kElement;
    case LXB_DOM_NODE_TYPE_TEXT:
    case LXB_DOM_NODE_TYPE_CDATA_SECTION: return NodeKind::kText;
    case LXB_DOM_NODE_TYPE_COMMENT: return NodeKind::kComment;
    case LXB_DOM_NODE_TYPE_DOCUMENT: return NodeKind::kDocument;
    case LXB_DOM_NODE_TYPE_DOCUMENT_TYPE: return NodeKind::kDoctype;
    case LXB_DOM_NODE_TYPE_PROCESSING_INSTRUCTION: return NodeKind::kProcessingInstruction;
    default: return NodeKind::kOther;
  }
}

Tag DomNode::tag() const {
  if (raw(node_)->type != LXB_DOM_NODE_TYPE_ELEMENT) return Tag::kNone;
  const auto id = raw(node_)->local_name;
  return id < kTagOfLexbor.size() ? kTagOfLexbor[id] : Tag::kOther;
}

bool DomNode::is_html() const {
  return raw(node_)->type == LXB_DOM_NODE_TYPE_ELEMENT && raw(node_)->ns == LXB_NS_HTML;
}

std::string_view DomNode::namespace_prefix() const {
  switch (raw(node_)->ns) {
    case LXB_NS_SVG: return "svg";
    case LXB_NS_MATH: return "math";
    default: return "";
  }
}

std::string_view DomNode::name() const {
  std::size_t size = 0;
  if (raw(node_)->type == LXB_DOM_NODE_TYPE_ELEMENT) {
    const lxb_char_t* data =
        lxb_dom_element_qualified_name(lxb_dom_interface_element(node_), &size);
    return view(data, size);
  }
  if (raw(node_)->type == LXB_DOM_NODE_TYPE_PROCESSING_INSTRUCTION) {
    const lxb_char_t* data = lxb_dom_processing_instruction_target(
        reinterpret_cast<lxb_dom_processing_instruction_t*>(raw(node_)), &size);
    return view(data, size);
  }
  return {};
}

std::string_view DomNode::text() const {
  switch (kind()) {
    case NodeKind::kText:
    case NodeKind::kComment:
    case NodeKind::kProcessingInstruction: {
      const lexbor_str_t& data = lxb_dom_interface_character_data(node_)->data;
      return view(data.data, data.length);
    }
    default: return {};
  }
}

std::optional<std::string_view> DomNode::attribute(std::string_view name) const {
  if (raw(node_)->type != LXB_DOM_NODE_TYPE_ELEMENT) return std::nullopt;
  lxb_dom_attr_t* attribute =
      lxb_dom_element_attr_by_name(lxb_dom_interface_element(node_),
                                   reinterpret_cast<const lxb_char_t*>(name.data()), name.size());
  if (attribute == nullptr) return std::nullopt;
  std::size_t size = 0;
  const lxb_char_t* value = lxb_dom_attr_value(attribute, &size);
  return view(value, size);
}

std::vector<std::pair<std::string, std::string>> DomNode::attributes() const {
  std::vector<std::pair<std::string, std::string>> out;
  if (raw(node_)->type != LXB_DOM_NODE_TYPE_ELEMENT) return out;
  for (lxb_dom_attr_t* a = lxb_dom_interface_element(node_)->first_attr; a != nullptr;
       a = a->next) {
    std::size_t name_size = 0;
    std::size_t value_size = 0;
    const lxb_char_t* name = lxb_dom_attr_qualified_name(a, &name_size);
    const lxb_char_t* value = lxb_dom_attr_value(a, &value_size);
    out.emplace_back(view(name, name_size), view(value, value_size));
  }
  return out;
}

DomNode DomNode::parent() const { return DomNode(raw(node_)->parent); }
DomNode DomNode::first_child() const { return DomNode(raw(node_)->first_child); }
DomNode DomNode::last_child() const { return DomNode(raw(node_)->last_child); }
DomNode DomNode::next() const { return DomNode(raw(node_)->next); }
DomNode DomNode::previous() const { return DomNode(raw(node_)->prev); }

DomNode DomNode::template_content() const {
  if (tag() != Tag::kTemplate || !is_html()) return {};
  lxb_dom_document_fragment_t* content = lxb_html_interface_template(node_)->content;
  return content == nullptr ? DomNode() : DomNode(&content->node);
}

DomNode DomNode::following(DomNode root, bool skip_children) const {
  if (!skip_children && first_child()) return first_child();
  for (DomNode node = *this; node && node != root; node = node.parent()) {
    if (node.next()) return node.next();
  }
  return {};
}

DomNode::Doctype DomNode::doctype() const {
  auto* type = lxb_dom_interface_document_type(node_);
  std::size_t size = 0;
  const lxb_char_t* name = lxb_dom_document_type_name(type, &size);
  return {view(name, size), view(type->public_id.data, type->public_id.length),
          view(type->system_id.data, type->system_id.length)};
}

}  // namespace sx
