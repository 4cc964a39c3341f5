#pragma once

#include <string_view>

namespace sx {

/// page.css and page.js, put into the library at build time.
std::string_view page_style();
std::string_view page_script();

}  // namespace sx
