#pragma once

#include <map>
#include <string>

namespace sx {

/// Path in the source tree -> what it should hold.
std::map<std::string, std::string> golden_texts();

}  // namespace sx
