#include "sextant/trace/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sextant/base/check.h"
#include "sextant/trace/chart_draw.h"
#include "sextant/trace/json_text.h"
#include "sextant/trace/page_assets.h"
#include "sextant/trace/sha256.h"

namespace sx {
namespace {

constexpr std::size_t kMaxPageBytes = 1'000'000;
constexpr std::size_t kMaxExampleChars = 300;
constexpr std::size_t kFoldRows = 20;
constexpr std::size_t kLongCellChars = 40;

/// JSON inside <script>: "<" never appears, so no text can end the element.
std::string script_json(const std::string& json) {
  std::string out;
  out.reserve(json.size());
  for (const char c : json) {
    if (c == '<') {
      out += "\\u003c";
    } else {
      out += c;
    }
  }
  return out;
}

std::string exact_text(double value) {
  std::string text = json_number(value);
  std::erase(text, '"');
  return text;
}

/// Only paths inside the run's folder: no scheme, no host, not absolute.
bool is_relative_path(const std::string& path) {
  return !path.empty() && path.find(':') == std::string::npos && path[0] != '/' &&
         path.find('\\') == std::string::npos;
}

/// A number's text in three parts, so that a column can be aligned on its decimal.
struct NumberParts {
  std::string whole, fraction, unit;
};

std::size_t code_points(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

NumberParts split_number(const std::string& text) {
  NumberParts parts;
  const auto unit = text.find("\u00a0");
  const std::string number = text.substr(0, unit);
  if (unit != std::string::npos) parts.unit = text.substr(unit + 2);
  const auto dot = number.find('.');
  parts.whole = number.substr(0, dot);
  if (dot != std::string::npos) parts.fraction = number.substr(dot + 1);
  return parts;
}

struct ColumnLayout {
  bool numeric = false;
  std::size_t fraction_digits = 0, unit_chars = 0;
};

std::vector<ColumnLayout> layout_columns(const PageTable& table) {
  std::vector<ColumnLayout> columns(table.columns.size());
  for (std::size_t c = 0; c < columns.size(); ++c) columns[c].numeric = table.columns[c].numeric;
  const auto take = [&](const std::vector<TableCell>& row) {
    for (std::size_t c = 0; c < row.size(); ++c) {
      if (!columns[c].numeric || !row[c].value) continue;
      const NumberParts parts = split_number(row[c].text);
      columns[c].fraction_digits = std::max(columns[c].fraction_digits, parts.fraction.size());
      columns[c].unit_chars = std::max(columns[c].unit_chars, code_points(parts.unit));
    }
  };
  for (const auto& row : table.rows) take(row);
  take(table.total);
  return columns;
}

std::string number_cell(const TableCell& cell, const ColumnLayout& column) {
  const NumberParts parts = split_number(cell.text);
  std::string html = escape_html(parts.whole);
  if (!parts.fraction.empty()) html += "." + escape_html(parts.fraction);
  // Spaces as wide as a point and as digits keep the points below each other.
  if (column.fraction_digits > 0) {
    if (parts.fraction.empty()) html += "\u2008";
    for (std::size_t i = parts.fraction.size(); i < column.fraction_digits; ++i) html += "\u2007";
  }
  if (column.unit_chars > 0) {
    html += fmt::format("\u00a0<span class=\"u u{}\">{}</span>",
                        std::min<std::size_t>(column.unit_chars, 6), escape_html(parts.unit));
  }
  return html;
}

std::string cell_html(const TableCell& cell, const ColumnLayout& column, bool head) {
  std::string attributes;
  if (column.numeric) {
    attributes = " class=\"n\"";
  } else if (code_points(cell.text) > kLongCellChars) {
    attributes = " class=\"long\"";
  }
  if (cell.value) {
    const std::string exact = exact_text(*cell.value);
    attributes += fmt::format(" data-v=\"{}\" title=\"{}\"", exact, exact);
  }
  std::string inner = column.numeric && cell.value
                          ? number_cell(cell, column)
                          : escape_html(cut_text(cell.text, kMaxExampleChars));
  if (!cell.href.empty()) {
    inner = fmt::format("<a href=\"{}\">{}</a>", escape_html(cell.href), inner);
  }
  return head ? fmt::format("<th scope=\"row\"{}>{}</th>", attributes, inner)
              : fmt::format("<td{}>{}</td>", attributes, inner);
}

std::string row_html(const std::vector<TableCell>& row, const std::vector<ColumnLayout>& columns) {
  std::string html = "<tr>";
  for (std::size_t c = 0; c < row.size(); ++c) html += cell_html(row[c], columns[c], c == 0);
  return html + "</tr>\n";
}

std::string table_html(const PageTable& table) {
  for (const auto& row : table.rows) {
    SX_CHECK(row.size() == table.columns.size(), "table {}: a row of {} cells under {} columns",
             table.caption, row.size(), table.columns.size());
  }
  SX_CHECK(table.total.empty() || table.total.size() == table.columns.size(),
           "table {}: total of {} cells", table.caption, table.total.size());
  const std::vector<ColumnLayout> columns = layout_columns(table);
  std::string html = fmt::format(
      "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{0}\"><table "
      "class=\"sortable\"><caption>{0}</caption><thead><tr>",
      escape_html(table.caption));
  for (const TableColumn& column : table.columns) {
    html += fmt::format("<th scope=\"col\"{}>{}</th>", column.numeric ? " class=\"n\"" : "",
                        escape_html(column.name));
  }
  html += "</tr></thead><tbody>\n";
  for (const auto& row : table.rows) html += row_html(row, columns);
  html += "</tbody>";
  if (!table.total.empty()) html += "<tfoot>" + row_html(table.total, columns) + "</tfoot>";
  html += "</table></div>\n";
  if (table.rows.size() <= kFoldRows) return html;
  return fmt::format("<details><summary>{} ({} rows)</summary>\n{}</details>\n",
                     escape_html(table.caption), table.rows.size(), html);
}

/// Counts, shares and examples of each drop, below the picture of the funnel.
std::string funnel_details(const Funnel& funnel) {
  PageTable table;
  table.caption = "Dropped by stage and reason";
  table.columns = {{"reason"}, {"stage"}, {"dropped", true}, {"of all", true}};
  std::string examples;
  std::int64_t sum = 0;
  const auto share = [&](std::int64_t count) {
    return funnel.entered > 0 ? static_cast<double>(count) / static_cast<double>(funnel.entered)
                              : 0;
  };
  for (const FunnelStage& stage : funnel.stages) {
    for (const FunnelDrop& drop : stage.drops) {
      if (drop.count == 0) continue;
      sum += drop.count;
      table.rows.push_back({drop.reason,
                            stage.name,
                            {static_cast<double>(drop.count), NumberKind::kCount},
                            {share(drop.count), NumberKind::kPercent}});
      if (drop.examples.empty()) continue;
      examples +=
          fmt::format("<dt>{} ({})</dt>", escape_html(drop.reason), escape_html(stage.name));
      for (std::size_t i = 0; i < std::min<std::size_t>(drop.examples.size(), 3); ++i) {
        examples += fmt::format("<dd class=\"example\">{}</dd>",
                                escape_html(cut_text(drop.examples[i], kMaxExampleChars)));
      }
    }
  }
  if (table.rows.empty()) return {};
  table.total = {"all",
                 "",
                 {static_cast<double>(sum), NumberKind::kCount},
                 {share(sum), NumberKind::kPercent}};
  if (!examples.empty()) {
    examples = "<details><summary>Examples of what was dropped</summary><dl class=\"terms\">" +
               examples + "</dl></details>\n";
  }
  return table_html(table) + examples;
}

std::string legend_html(const Chart& chart) {
  const auto legend = chart_legend(chart);
  if (legend.empty()) return {};
  std::string html = "<ul class=\"legend\">";
  for (const auto& [name, hue] : legend) {
    html += fmt::format("<li><span class=\"{}\">{}</span></li>", hue_class(hue), escape_html(name));
  }
  return html + "</ul>";
}

std::string chart_html(const Chart& chart, const std::string& id) {
  std::string html =
      fmt::format("<figure><figcaption><h3>{}</h3>", escape_html(chart_title(chart)));
  const std::string caption = chart_caption(chart);
  if (!caption.empty()) html += "<p>" + escape_html(caption) + "</p>";
  html += "</figcaption>" + legend_html(chart) + "\n";
  for (const int width : kChartWidths) {
    html += draw_svg(chart, width, fmt::format("{}w{}", id, width)) + "\n";
  }
  const std::string hover = chart_hover_json(chart);
  if (!hover.empty()) {
    html += "<script type=\"application/json\" class=\"hover\">" + script_json(hover) + "</script>";
  }
  html += "</figure>\n";
  if (const auto* funnel = std::get_if<Funnel>(&chart)) html += funnel_details(*funnel);
  return html;
}

std::string terms_html(const std::vector<std::pair<std::string, std::string>>& terms) {
  std::string html = "<dl class=\"terms\">";
  for (const auto& [term, meaning] : terms) {
    html += fmt::format("<dt>{}</dt><dd>{}</dd>", escape_html(term), escape_html(meaning));
  }
  return html + "</dl>\n";
}

struct BlockWriter {
  std::string id;
  std::string operator()(const Chart& chart) const { return chart_html(chart, id); }
  std::string operator()(const PageTable& table) const { return table_html(table); }
  std::string operator()(const PageText& text) const {
    return "<p>" + escape_html(text.text) + "</p>\n";
  }
  std::string operator()(const PageQuote& quote) const {
    return fmt::format("<blockquote><p class=\"cap\">{}</p><p class=\"q\">{}</p></blockquote>\n",
                       escape_html(quote.caption), escape_html(quote.text));
  }
  std::string operator()(const PageTerms& terms) const { return terms_html(terms.terms); }
};

std::string figure_html(const AnswerFigure& figure, const nlohmann::ordered_json& data) {
  const double value = *number_of(data.at(nlohmann::ordered_json::json_pointer(figure.key)));
  std::string number = number_text(value, figure.kind);
  std::string unit = figure.unit;
  // The prefix and unit of the number stand small beside it.
  if (const auto at = number.find("\u00a0"); at != std::string::npos) {
    unit = number.substr(at + 2) + (unit.empty() ? "" : " " + unit);
    number.resize(at);
  }
  const std::string exact = exact_text(value);
  return fmt::format(
      "<div><dt>{}</dt><dd><div class=\"big\"><data value=\"{}\" data-key=\"{}\" "
      "title=\"{}\">{}</data>{}</div><div class=\"than\">{}</div></dd></div>\n",
      escape_html(figure.label), exact, escape_html(figure.key), exact, escape_html(number),
      unit.empty() ? "" : "<span class=\"unit\"> " + escape_html(unit) + "</span>",
      escape_html(figure.compared_with));
}

std::string header_html(const PageFacts& facts) {
  std::string html = fmt::format("<header><h1>{}</h1>\n<p class=\"subject\">{}</p>\n",
                                 escape_html(facts.title), escape_html(facts.subject));
  html += "<dl class=\"facts\">";
  const auto fact = [&](const char* name, const std::string& value) {
    if (value.empty()) return;
    html += fmt::format("<div><dt>{}</dt><dd>{}</dd></div>", name, escape_html(value));
  };
  fact("when", facts.when_utc);
  fact("took", facts.seconds > 0 ? seconds_text(facts.seconds) : "");
  fact("on", facts.hardware);
  fact("Sextant", facts.version);
  html += "</dl>\n";
  if (!facts.command.empty()) {
    html += fmt::format("<div class=\"command\"><pre><code>{}</code></pre></div>\n",
                        escape_html(facts.command));
  }
  return html + "</header>\n";
}

std::string head_html(const std::string& title) {
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src '{}'; "
      "script-src '{}'; base-uri 'none'; form-action 'none'\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n<meta name=\"referrer\" "
      "content=\"no-referrer\">\n<title>{}</title>\n"
      "<style>{}</style></head>\n",
      csp_hash(page_style()), csp_hash(page_script()), escape_html(title), page_style());
}

std::string warning_html(const PageWarning& warning) {
  std::string html = fmt::format("<div class=\"warning\" role=\"note\"><p><b>{}</b></p><p>{}</p>",
                                 escape_html(warning.what), escape_html(warning.cause));
  if (!warning.next.empty()) {
    html += fmt::format("<pre><code>{}</code></pre>", escape_html(warning.next));
  }
  return html + "</div>\n";
}

}  // namespace

TableCell TableCell::link(std::string text, std::string relative_path) {
  SX_CHECK(is_relative_path(relative_path), "{} is no relative path", relative_path);
  TableCell cell(std::move(text));
  cell.href = std::move(relative_path);
  return cell;
}

Page::Section& Page::Section::add(PageBlock block) {
  blocks_.push_back(std::move(block));
  return *this;
}

Page::Section& Page::Section::text(std::string paragraph) {
  return add(PageText{std::move(paragraph)});
}

Page::Page(PageFacts facts, nlohmann::ordered_json data)
    : facts_(std::move(facts)), data_(std::move(data)) {}

void Page::figure(AnswerFigure figure) {
  const nlohmann::ordered_json::json_pointer pointer(figure.key);
  SX_CHECK(data_.contains(pointer) && number_of(data_.at(pointer)).ok(),
           "{} is no number of the page's data", figure.key);
  figures_.push_back(std::move(figure));
}

void Page::warn(PageWarning warning) { warnings_.push_back(std::move(warning)); }

Page::Section& Page::section(std::string title) {
  sections_.push_back(std::unique_ptr<Section>(new Section(std::move(title))));
  return *sections_.back();
}

void Page::setting(std::string key, std::string value) {
  settings_.emplace_back(std::move(key), std::move(value));
}

void Page::file(std::string relative_path, std::string text) {
  SX_CHECK(is_relative_path(relative_path), "{} is no relative path", relative_path);
  files_.emplace_back(std::move(relative_path), std::move(text));
}

void Page::term(std::string word, std::string meaning) {
  terms_.emplace_back(std::move(word), std::move(meaning));
}

void Page::limit(std::string sentence) { limits_.push_back(std::move(sentence)); }

std::string Page::sections_html() const {
  std::string html;
  if (sections_.size() > 2) {
    html += "<nav aria-label=\"Contents\">";
    for (std::size_t i = 0; i < sections_.size(); ++i) {
      html += fmt::format("<a href=\"#s{}\">{}</a>", i, escape_html(sections_[i]->title_));
    }
    html += "</nav>\n";
  }
  for (std::size_t i = 0; i < sections_.size(); ++i) {
    const Section& section = *sections_[i];
    html += fmt::format("<section id=\"s{}\"><h2>{}</h2>\n", i, escape_html(section.title_));
    for (std::size_t b = 0; b < section.blocks_.size(); ++b) {
      html += std::visit(BlockWriter{fmt::format("c{}b{}", i, b)}, section.blocks_[b]);
    }
    html += "</section>\n";
  }
  return html;
}

std::string Page::appendix_html() const {
  std::string html;
  if (!settings_.empty()) {
    PageTable table{"Settings that differ from the defaults", {{"key"}, {"value"}}, {}, {}};
    for (const auto& [key, value] : settings_) table.rows.push_back({key, value});
    html += "<section><h2>Settings</h2>\n" + table_html(table) + "</section>\n";
  }
  if (!files_.empty()) {
    PageTable table{"Files of the run", {{"file"}, {"holds"}}, {}, {}};
    for (const auto& [path, text] : files_)
      table.rows.push_back({TableCell::link(path, path), text});
    html += "<section><h2>Files</h2>\n" + table_html(table) + "</section>\n";
  }
  if (!terms_.empty()) {
    html += "<section><h2>Terms</h2>\n" + terms_html(terms_) + "</section>\n";
  }
  if (!limits_.empty()) {
    html += "<section><h2>Known limits</h2><ul>";
    for (const std::string& limit : limits_) html += "<li>" + escape_html(limit) + "</li>";
    html += "</ul></section>\n";
  }
  return html;
}

std::string Page::html() const {
  std::string html =
      head_html(facts_.subject.empty() ? facts_.title : facts_.title + ": " + facts_.subject);
  html += "<body>\n" + header_html(facts_) + "<main>\n";
  if (!figures_.empty()) {
    html += "<dl class=\"answer\">\n";
    for (const AnswerFigure& figure : figures_) html += figure_html(figure, data_);
    html += "</dl>\n";
  }
  for (const PageWarning& warning : warnings_) html += warning_html(warning);
  html += sections_html() + appendix_html();
  html += "</main>\n<footer>Written by Sextant " + escape_html(facts_.version) +
          ". One file, no network; all figures also stand as JSON in the element "
          "<code>#data</code> of this page.</footer>\n";
  html += "<script type=\"application/json\" id=\"data\">" + script_json(json_line(data_)) +
          "</script>\n";
  html += "<script>" + std::string(page_script()) + "</script>\n</body></html>\n";
  return html;
}

Result<void> Page::write(const fs::path& path) const {
  const std::string bytes = html();
  if (bytes.size() > kMaxPageBytes) {
    return Error{ErrorKind::kLimit,
                 fmt::format("the page has {} bytes, more than {}", bytes.size(), kMaxPageBytes),
                 path.string()};
  }
  return write_file_atomic(path, bytes);
}

}  // namespace sx
