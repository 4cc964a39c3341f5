// Part of the precompiled headers: the members of the JSON class that a source uses are made once,
// in json_instances.cpp, instead of in each source.
#pragma once

#include <nlohmann/json.hpp>

extern template class nlohmann::basic_json<>;
extern template class nlohmann::basic_json<nlohmann::ordered_map>;
