#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sextant/base/result.h"

namespace sx {

/// A file inside a zip archive, stored without compression.
struct ZipEntry {
  std::string name;
  std::string_view bytes;
};

/// Lists the files of an archive from its central directory, ZIP64 included. Every size and place
/// is checked against the archive. Errors:  kCorrupt with the byte; kUnsupported for compressed or
/// encrypted files and for archives
///          in several parts.
/// Source:  APPNOTE.TXT 6.3.9, sections 4.3.7, 4.3.12, 4.3.14 to 4.3.16, 4.5.3.
Result<std::vector<ZipEntry>> list_zip(std::string_view archive);

}  // namespace sx
