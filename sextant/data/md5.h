#pragma once

#include <string>
#include <string_view>

namespace sx {

/// MD5 (RFC 1321) as 32 lower-case hex digits. Names caches as Megatron-LM names them; protects
/// nothing.
std::string md5_hex(std::string_view bytes);

}  // namespace sx
