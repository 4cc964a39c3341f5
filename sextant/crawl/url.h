#pragma once

#include <string>
#include <string_view>

namespace sx {

/// Parts of an address "scheme://user@host:port/path"; lenient: what is not there is empty.

/// The host as written, without user and port; "[::1]" for an IPv6 address.
std::string_view host_of(std::string_view url);

}  // namespace sx
