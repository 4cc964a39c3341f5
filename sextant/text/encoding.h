#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace sx {

/// Names of character encodings are those of the WHATWG Encoding Standard ("UTF-8", "windows-1252",
/// "Shift_JIS"). Bytes become text in decoder.h.

inline constexpr std::string_view kUtf8 = "UTF-8";
inline constexpr std::string_view kWindows1252 = "windows-1252";

/// Name of the encoding a label stands for ("latin1" and "ascii" give windows-1252), after trimming
/// ASCII white space, in any case; nothing for labels outside the standard. The view lives as long
/// as the program.
std::optional<std::string_view> encoding_for_label(std::string_view label);

/// True when bytes below 0x80 mean ASCII in every position: not UTF-16, ISO-2022-JP, "replacement".
bool is_ascii_superset(std::string_view encoding);

struct ByteOrderMark {
  std::string_view encoding;  ///< UTF-8, UTF-16LE or UTF-16BE
  std::size_t bytes = 0;
};
std::optional<ByteOrderMark> byte_order_mark(std::string_view bytes);

/// The encoding a page declares in `<meta charset>` or `<meta http-equiv=content-type
/// content=...>`, looked for in the first `window` bytes by the standard's prescan; UTF-16 declared
/// so means UTF-8, x-user-defined means windows-1252. An XML declaration with an encoding at the
/// very start counts when no meta element is found. Source:  HTML Standard, 13.2.3.2, "prescan a
/// byte stream to determine its encoding".
std::optional<std::string_view> prescan_meta(std::string_view bytes, std::size_t window = 1024);

/// The label behind "charset=" in a Content-Type value, as the HTML Standard extracts it from meta
/// elements; lenient about quotes and spaces. Nothing when there is none.
std::optional<std::string> charset_parameter(std::string_view content_type);

}  // namespace sx
