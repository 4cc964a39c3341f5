#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <nlohmann/json.hpp>

#include "sextant/base/fs.h"
#include "sextant/base/result.h"
#include "sextant/trace/svg.h"

namespace sx {

/// What stands on top of every page.
struct PageFacts {
  std::string title;     ///< what ran: "Training run"
  std::string subject;   ///< on what: model, mesh, archive
  std::string when_utc;  ///< "2026-11-30 05:12 UTC"
  double seconds = 0;    ///< how long; 0 = left out
  std::string hardware;  ///< "2 CPU cores, 23 GiB"
  std::string version;   ///< "0.1.0 (837a74a0b1c2)"
  std::string command;   ///< the exact command, in a box that can be copied
};

/// Facts of a page written now, on this machine, by this version. `command`: the words as typed.
PageFacts make_page_facts(std::string title, std::string subject, double seconds,
                          const std::vector<std::string>& command);

/// One of the three to five large figures. The number is looked up in the page's data block, so the
/// two cannot differ.
struct AnswerFigure {
  std::string label;  ///< "held-out loss"
  std::string key;    ///< JSON pointer into the data block: "/held_out_loss"
  NumberKind kind = NumberKind::kPlain;
  std::string unit;           ///< behind the number, may be empty
  std::string compared_with;  ///< "against unigram entropy 6.02"
};

struct PageWarning {
  std::string what;
  std::string cause;
  std::string next;  ///< command to try; may be empty
};

/// A cell: text, or a number with the text it is shown as (the exact value goes to the tooltip and
/// the sorting).
struct TableCell {
  TableCell(const char* t) : text(t) {}
  TableCell(std::string t) : text(std::move(t)) {}
  TableCell(double v, NumberKind kind) : text(number_text(v, kind)), value(v) {}
  static TableCell link(std::string text, std::string relative_path);
  std::string text;
  std::optional<double> value;
  std::string href;  ///< only relative paths without a scheme
};
struct TableColumn {
  std::string name;
  bool numeric = false;
};
struct PageTable {
  std::string caption;
  std::vector<TableColumn> columns;
  std::vector<std::vector<TableCell>> rows;
  std::vector<TableCell> total;  ///< last row, never sorted away; may be empty
};

/// Paragraph, text in a box with its line breaks kept (samples, logs), or terms with their meaning.
struct PageText {
  std::string text;
};
struct PageQuote {
  std::string caption;
  std::string text;
};
struct PageTerms {
  std::vector<std::pair<std::string, std::string>> terms;
};

using PageBlock = std::variant<Chart, PageTable, PageText, PageQuote, PageTerms>;

/// One self-contained page: readable without JavaScript, light and dark, no request of any kind,
/// every text escaped.
///
///   Page page(facts, summary);        // summary = what the verb prints with --json
///   page.figure({"held-out loss", "/held_out_loss", NumberKind::kFixed2, "nats", "against ..."});
///   page.section("Does it learn?").add(chart).add(table);
///   SX_TRY_VOID(page.write(run / "report.html"));
class Page {
 public:
  class Section {
   public:
    Section& add(PageBlock block);
    Section& text(std::string paragraph);

   private:
    friend class Page;
    explicit Section(std::string title) : title_(std::move(title)) {}
    std::string title_;
    std::vector<PageBlock> blocks_;
  };

  Page(PageFacts facts, nlohmann::ordered_json data);
  /// Requires: `key` names a number of the data block.
  void figure(AnswerFigure figure);
  void warn(PageWarning warning);
  /// Sections stand in the order they are made. The reference stays valid.
  Section& section(std::string title);
  /// Name and value of settings that differ from their defaults.
  void setting(std::string key, std::string value);
  /// A file of the run: relative path and what it holds.
  void file(std::string relative_path, std::string text);
  void term(std::string word, std::string meaning);
  void limit(std::string sentence);

  std::string html() const;
  /// Errors: kLimit above 1 MB (tables or texts too long: the caller aggregates), kIo.
  Result<void> write(const fs::path& path) const;

 private:
  std::string sections_html() const;
  std::string appendix_html() const;
  PageFacts facts_;
  nlohmann::ordered_json data_;
  std::vector<AnswerFigure> figures_;
  std::vector<PageWarning> warnings_;
  std::vector<std::unique_ptr<Section>> sections_;
  std::vector<std::pair<std::string, std::string>> settings_;
  std::vector<std::pair<std::string, std::string>> files_;
  std::vector<std::pair<std::string, std::string>> terms_;
  std::vector<std::string> limits_;
};

}  // namespace sx
