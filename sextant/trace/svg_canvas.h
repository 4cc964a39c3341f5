#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sx {

/// Estimated width in px of a text in the page's font; rather too wide than too narrow.
double text_width(std::string_view text, double px = 12);
/// The text, cut with an ellipsis until it is at most `max_width` px wide.
std::string fit_text(std::string_view text, double max_width, double px = 12);

enum class Anchor { kStart, kMiddle, kEnd };

/// Collects the elements of one <svg>; keeps the boxes of its texts, so that a label can ask
/// whether there is room. Looks come from the page's style sheet by class names; all text is
/// escaped.
class SvgCanvas {
 public:
  SvgCanvas(int width, std::string id) : width_(width), id_(std::move(id)) {}

  int width() const { return width_; }
  /// `y` is the baseline; classes: "t" usual, "m" muted, "b" bold.
  void text(double x, double y, Anchor anchor, std::string_view text, std::string_view css = "t");
  /// Draws only where it meets no text drawn before and stays inside; true if drawn.
  bool try_text(double x, double y, Anchor anchor, std::string_view text,
                std::string_view css = "t");
  void line(double x1, double y1, double x2, double y2, std::string_view css);
  void rect(double x, double y, double w, double h, std::string_view css, double radius = 0);
  /// The same with a tooltip of its own.
  void rect_titled(double x, double y, double w, double h, std::string_view css,
                   std::string_view title);
  /// Stripes over a bar: 1 rising, 2 falling, 0 none.
  void stripes(double x, double y, double w, double h, int pattern);
  void circle(double x, double y, double r, std::string_view css);
  void path(std::string_view d, std::string_view css);
  /// `attributes` are written as they are (numbers only).
  void open_group(std::string_view css, std::string_view attributes = "");
  void close_group();
  /// A small rounded plate with text, centred, for labels on coloured bars.
  void chip(double x, double y, std::string_view text);

  std::string finish(double height, std::string_view css, std::string_view title,
                     std::string_view description) const;

 private:
  struct Box {
    double left, top, right, bottom;
  };
  Box box_of(double x, double y, Anchor anchor, std::string_view text) const;
  int width_;
  std::string id_;
  std::string body_;
  std::vector<Box> boxes_;
};

/// A coordinate with at most one decimal.
std::string px_text(double value);

}  // namespace sx
