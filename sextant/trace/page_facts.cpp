#include <fmt/format.h>

#include "sextant/base/clock.h"
#include "sextant/base/thread_pool.h"
#include "sextant/base/version.h"
#include "sextant/trace/page.h"

namespace sx {

PageFacts make_page_facts(std::string title, std::string subject, double seconds,
                          const std::vector<std::string>& command) {
  PageFacts facts;
  facts.title = std::move(title);
  facts.subject = std::move(subject);
  const std::string now = utc_timestamp(unix_microseconds());
  facts.when_utc = now.substr(0, 10) + " " + now.substr(11, 5) + " UTC";
  facts.seconds = seconds;
  facts.hardware = fmt::format("{} CPU cores", usable_cores());
  facts.version = version().version + " (" + version().git_commit + ")";
  facts.command = fmt::format("{}", fmt::join(command, " "));
  return facts;
}

}  // namespace sx
