#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace sx {

/// SHA-256 (FIPS 180-4). Pages name the hash of their script and style in their content security
/// policy.
std::array<std::uint8_t, 32> sha256(std::string_view bytes);

/// "sha256-<base64>", as a content security policy writes it.
std::string csp_hash(std::string_view bytes);

}  // namespace sx
