#include "sextant/recipe/embedded.h"

namespace sx {

const EmbeddedFile* find_embedded_recipe(std::string_view name) {
  for (const EmbeddedFile& file : embedded_recipes()) {
    if (file.name == name) return &file;
  }
  return nullptr;
}

}  // namespace sx
