#include "sextant/trace/svg_canvas.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sextant/base/check.h"
#include "sextant/trace/svg.h"

namespace sx {
namespace {

constexpr double kFontPx = 12;

const char* anchor_attribute(Anchor anchor) {
  switch (anchor) {
    case Anchor::kStart: return "";
    case Anchor::kMiddle: return " text-anchor=\"middle\"";
    case Anchor::kEnd: return " text-anchor=\"end\"";
  }
  return "";
}

}  // namespace

std::string px_text(double value) {
  SX_CHECK(std::isfinite(value), "a coordinate is not finite");
  const double rounded = std::round(value * 10) / 10;
  if (rounded == 0) return "0";
  std::string text = fmt::format("{:.1f}", rounded);
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text;
}

SvgCanvas::Box SvgCanvas::box_of(double x, double y, Anchor anchor, std::string_view text) const {
  const double width = text_width(text, kFontPx);
  const double left = anchor == Anchor::kStart    ? x
                      : anchor == Anchor::kMiddle ? x - width / 2
                                                  : x - width;
  return {left, y - kFontPx, left + width, y + 4};
}

void SvgCanvas::text(double x, double y, Anchor anchor, std::string_view text,
                     std::string_view css) {
  boxes_.push_back(box_of(x, y, anchor, text));
  body_ += fmt::format("<text class=\"{}\" x=\"{}\" y=\"{}\"{}>{}</text>", css, px_text(x),
                       px_text(y), anchor_attribute(anchor), escape_html(text));
}

bool SvgCanvas::try_text(double x, double y, Anchor anchor, std::string_view label,
                         std::string_view css) {
  const Box box = box_of(x, y, anchor, label);
  if (box.left < 0 || box.right > width_) return false;
  const bool free = std::none_of(boxes_.begin(), boxes_.end(), [&](const Box& other) {
    return box.left < other.right + 4 && other.left < box.right + 4 && box.top < other.bottom &&
           other.top < box.bottom;
  });
  if (free) text(x, y, anchor, label, css);
  return free;
}

void SvgCanvas::line(double x1, double y1, double x2, double y2, std::string_view css) {
  body_ += fmt::format("<line class=\"{}\" x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"/>", css,
                       px_text(x1), px_text(y1), px_text(x2), px_text(y2));
}

void SvgCanvas::rect(double x, double y, double w, double h, std::string_view css, double radius) {
  body_ += fmt::format("<rect class=\"{}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"{}/>", css,
                       px_text(x), px_text(y), px_text(w), px_text(h),
                       radius > 0 ? fmt::format(" rx=\"{}\"", px_text(radius)) : "");
}

void SvgCanvas::rect_titled(double x, double y, double w, double h, std::string_view css,
                            std::string_view title) {
  body_ += fmt::format(
      "<rect class=\"{}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"><title>{}</title></rect>",
      css, px_text(x), px_text(y), px_text(w), px_text(h), escape_html(title));
}

void SvgCanvas::stripes(double x, double y, double w, double h, int pattern) {
  if (pattern == 0) return;
  body_ += fmt::format(
      "<rect class=\"stripes\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" "
      "fill=\"url(#{}-p{})\"/>",
      px_text(x), px_text(y), px_text(w), px_text(h), id_, pattern);
}

void SvgCanvas::circle(double x, double y, double r, std::string_view css) {
  body_ += fmt::format("<circle class=\"{}\" cx=\"{}\" cy=\"{}\" r=\"{}\"/>", css, px_text(x),
                       px_text(y), px_text(r));
}

void SvgCanvas::path(std::string_view d, std::string_view css) {
  body_ += fmt::format("<path class=\"{}\" d=\"{}\"/>", css, d);
}

void SvgCanvas::open_group(std::string_view css, std::string_view attributes) {
  body_ += fmt::format("<g class=\"{}\"{}{}>", css, attributes.empty() ? "" : " ", attributes);
}

void SvgCanvas::close_group() { body_ += "</g>"; }

void SvgCanvas::chip(double x, double y, std::string_view label) {
  const double width = text_width(label, kFontPx) + 10;
  rect(x - width / 2, y - 9, width, 18, "chip", 4);
  text(x, y + 4.2, Anchor::kMiddle, label);
}

std::string SvgCanvas::finish(double height, std::string_view css, std::string_view title,
                              std::string_view description) const {
  std::string patterns;
  for (const int pattern : {1, 2}) {
    if (body_.find(fmt::format("#{}-p{}\"", id_, pattern)) == std::string::npos &&
        body_.find(fmt::format("#{}-p{})", id_, pattern)) == std::string::npos) {
      continue;
    }
    patterns += fmt::format(
        "<pattern id=\"{}-p{}\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" "
        "patternTransform=\"rotate({})\"><line class=\"stripe\" x1=\"0\" y1=\"0\" x2=\"0\" "
        "y2=\"6\"/></pattern>",
        id_, pattern, pattern == 1 ? 45 : -45);
  }
  return fmt::format(
      "<svg class=\"{}\" viewBox=\"0 0 {} {}\" width=\"{}\" height=\"{}\" role=\"img\" "
      "aria-labelledby=\"{}-t {}-d\"><title id=\"{}-t\">{}</title><desc id=\"{}-d\">{}</desc>"
      "{}{}</svg>",
      css, width_, px_text(height), width_, px_text(height), id_, id_, id_, escape_html(title), id_,
      escape_html(description), patterns.empty() ? "" : "<defs>" + patterns + "</defs>", body_);
}

}  // namespace sx
