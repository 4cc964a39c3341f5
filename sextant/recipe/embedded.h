#pragma once

#include <span>
#include <string_view>

namespace sx {

/// A file of recipes/ compiled into the program.
struct EmbeddedFile {
  std::string_view name;  ///< without ".toml"
  std::string_view text;
};

/// By name, sorted. Made by cmake/embed.cmake.
std::span<const EmbeddedFile> embedded_recipes();
/// nullptr if there is none.
const EmbeddedFile* find_embedded_recipe(std::string_view name);

}  // namespace sx
