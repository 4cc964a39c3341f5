#include "tests/golden/golden_texts.h"

#include "sextant/recipe/command_line.h"
#include "sextant/recipe/key_table.h"

namespace sx {

std::map<std::string, std::string> golden_texts() {
  std::map<std::string, std::string> texts;
  texts["docs/keys.md"] = keys_markdown();
  texts["tests/golden/keys.txt"] = golden_key_list();
  texts["tests/golden/help/sextant.txt"] = help_text(Program::kSextant, nullptr, nullptr);
  texts["tests/golden/help/sextant-train.txt"] =
      help_text(Program::kSextantTrain, nullptr, nullptr);
  for (const Verb& verb : verb_table()) {
    texts["tests/golden/help/" + verb.name + ".txt"] = help_text(verb.program, &verb, nullptr);
    for (const SubVerb& sub : verb.subs) {
      if (sub.name.empty()) continue;
      texts["tests/golden/help/" + verb.name + "-" + sub.name + ".txt"] =
          help_text(verb.program, &verb, &sub);
    }
  }
  return texts;
}

}  // namespace sx
