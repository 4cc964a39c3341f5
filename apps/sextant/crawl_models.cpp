#include "apps/sextant/crawl_models.h"

#include <chrono>
#include <nlohmann/json.hpp>

#include <fmt/format.h>

#include "apps/program/program.h"
#include "sextant/crawl/extract/extraction_score.h"
#include "sextant/crawl/extract/labelled_sets.h"
#include "sextant/text/html_parser.h"
#include "sextant/text/layout_text.h"

namespace sx {

namespace {

using Json = nlohmann::ordered_json;

void need_task(const Invocation& invocation, const std::string& known) {
  if (invocation.inputs.front() == known) return;
  throw ConfigError(Diagnostic{.number = 3,
                               .what = "no task is named \"" + invocation.inputs.front() + "\"",
                               .where = "command line",
                               .rule = "tasks: " + known,
                               .next = "sextant crawl --help"});
}

TrainingPlan plan_of(const Invocation& invocation) {
  TrainingPlan plan;
  plan.trees = static_cast<std::size_t>(invocation.integer("trees", 120));
  plan.leaves = static_cast<std::size_t>(invocation.integer("leaves", 31));
  return plan;
}

void score_pages(const std::vector<LabelledPage>& pages, const std::vector<std::size_t>& which,
                 const ContentModel& model, bool layout, ExtractionScore& score) {
  HtmlParser parser;
  for (const std::size_t i : which) {
    const DomNode document = parser.parse(pages[i].html).document;
    score.add(pages[i],
              layout ? layout_text(document) : main_content(document, pages[i].url, model).text);
  }
}

void print_scores(const ExtractionScore& score, bool as_json) {
  Json json = Json::array();
  for (const ExtractionScore::Line& line : score.lines()) {
    json.push_back(Json{{"set", line.name},
                        {"metric", line.metric},
                        {"pages", line.pages},
                        {"precision", line.precision},
                        {"recall", line.recall},
                        {"score", line.score}});
    if (!as_json)
      print(fmt::format("{:<24} {:>5} pages  P {:.4f}  R {:.4f}  {:.4f}  {}\n", line.name,
                        line.pages, line.precision, line.recall, line.score, line.metric));
  }
  if (as_json) print(json.dump() + "\n");
}

}  // namespace

int run_crawl_train(const Invocation& invocation) {
  need_task(invocation, "extract");
  const fs::path data = invocation.inputs.at(1);
  const auto pages = value_or_throw(read_labelled_pages(data), "ls " + data.string());
  const TrainingPlan plan = plan_of(invocation);
  ContentModel model = train_content_model(pages, plan);
  model.about = fmt::format(
      "sextant crawl train extract DATA --trees {} --leaves {}\n{} pages of scrapinghub (MIT), "
      "wcxb (CC-BY-4.0), trafilatura (Apache-2.0), magic-html (Apache-2.0)",
      plan.trees, plan.leaves, pages.size());
  const std::string path = invocation.text("to", "model.txt");
  value_or_throw(write_file_atomic(path, model.to_text()), "df -h .");
  print(fmt::format("{} pages, {} trees of {} leaves twice: {}\n", pages.size(), plan.trees,
                    plan.leaves, path));
  return 0;
}

int run_crawl_score(const Invocation& invocation) {
  need_task(invocation, "extraction");
  const fs::path data = invocation.inputs.at(1);
  const auto pages = value_or_throw(read_labelled_pages(data), "ls " + data.string());
  const auto folds = static_cast<std::size_t>(invocation.integer("folds", 0));
  const bool layout = invocation.has("layout");
  ExtractionScore score;
  if (folds == 0) {
    std::vector<std::size_t> all;
    for (std::size_t i = 0; i < pages.size(); ++i) all.push_back(i);
    score_pages(pages, all, ContentModel::standard(), layout, score);
  }
  for (std::size_t fold = 0; fold < folds; ++fold) {
    std::vector<LabelledPage> others;
    std::vector<std::size_t> held_out;
    for (std::size_t i = 0; i < pages.size(); ++i) {
      if (fold_of(pages[i], folds) == fold)
        held_out.push_back(i);
      else
        others.push_back(pages[i]);
    }
    score_pages(pages, held_out, train_content_model(others, plan_of(invocation)), layout, score);
  }
  print_scores(score, invocation.json);
  return 0;
}

}  // namespace sx
