#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sextant/dist/wire.h"

namespace sx::detail {

/// Cuts the byte stream of one peer into messages, whatever pieces it comes in.
///
/// Payload bytes go straight to where the sink wants them: ask `payload_room()` before a read, fill
/// it, and say so by `payload_filled`; give all other bytes to `feed`.
class MessageReader {
 public:
  explicit MessageReader(std::int64_t from) : from_(from) {}

  /// Takes all of `bytes`. False when they break the protocol (`fault()` says how); the stream is
  /// then of no more use.
  bool feed(std::span<const std::byte> bytes, WireSink& sink);
  /// Where the rest of the payload that is under way belongs; empty when none is.
  std::span<std::byte> payload_room() { return payload_; }
  void payload_filled(std::size_t count, WireSink& sink);

  const std::string& fault() const { return fault_; }
  /// The stream may end here: no message is half read.
  bool between_messages() const { return filled_ == 0 && payload_.empty(); }

 private:
  bool begin_payload(WireSink& sink);

  std::int64_t from_;
  MessageHead head_;
  std::string text_;
  std::size_t filled_ = 0;  // bytes of head and text that are here
  std::span<std::byte> payload_;
  std::string fault_;
};

}  // namespace sx::detail
