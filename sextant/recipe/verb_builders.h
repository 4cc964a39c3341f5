#pragma once

#include "sextant/recipe/command_line.h"

namespace sx {

/// For a verb that reads a recipe when there is one.
inline constexpr auto kOptionalRecipe = SubVerb::RecipeUse::kOptional;

// Rows of the table of verbs (verbs.cpp), each made in the file of its subject.

Verb crawl_verb();
Verb tokenize_verb();
Verb data_verb();

Verb train_verb();
Verb launch_verb();
Verb prof_verb();
Verb ckpt_verb();
Verb sample_verb();

}  // namespace sx
