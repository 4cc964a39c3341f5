// The byte stream between two processes, cut at a place that the first byte chooses.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sextant/dist/message_reader.h"

namespace {

class Sink final : public sx::detail::WireSink {
 public:
  std::byte* on_head(std::int64_t, const sx::detail::MessageHead& head, std::string_view) override {
    if (head.bytes > 1 << 20) return nullptr;  // no memory
    payload_.resize(static_cast<std::size_t>(head.bytes));
    return payload_.data();
  }
  void on_message(std::int64_t, const sx::detail::MessageHead&) override {}
  void on_lost(std::int64_t, const std::string&) override {}

 private:
  std::vector<std::byte> payload_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  const std::size_t piece = data[0] + std::size_t{1};
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data + 1), size - 1);
  Sink sink;
  sx::detail::MessageReader reader(1);
  for (std::size_t at = 0; at < bytes.size(); at += piece) {
    if (!reader.feed(bytes.subspan(at, std::min(piece, bytes.size() - at)), sink)) break;
  }
  return 0;
}
