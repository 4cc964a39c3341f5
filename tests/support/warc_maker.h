#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sx {

/// Builds archives in memory, for tests.
class WarcMaker {
 public:
  using Fields = std::vector<std::pair<std::string, std::string>>;

  /// A record with id "urn:test:<n>" (n counts from 0), type, date and length, then `extra` fields
  /// and the block.
  static std::string record(int n, std::string_view type, std::string_view url,
                            std::string_view content_type, std::string_view block,
                            const Fields& extra = {});
  /// A response record around an HTTP response with these header lines and body.
  static std::string response(int n, std::string_view url, std::string_view http_fields,
                              std::string_view body, int status = 200);
  /// One gzip member.
  static std::string gzip(std::string_view bytes);
};

}  // namespace sx
