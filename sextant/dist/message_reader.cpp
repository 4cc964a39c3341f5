#include "sextant/dist/message_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace sx::detail {
namespace {

std::string fault_of(const MessageHead& head) {
  const auto kind = static_cast<std::uint32_t>(head.kind);
  if (kind < 1 || kind > 4) return fmt::format("message of unknown kind {}", kind);
  if (head.text_bytes > kMaxTextBytes) return fmt::format("text of {} bytes", head.text_bytes);
  if (head.bytes < 0 || head.bytes > kMaxPayloadBytes)
    return fmt::format("payload of {} bytes", head.bytes);
  const bool control = head.kind == MessageKind::kAbort || head.kind == MessageKind::kGoodbye;
  if (control && head.bytes != 0) return "control message with a payload";
  return "";
}

}  // namespace

bool MessageReader::begin_payload(WireSink& sink) {
  const MessageHead head = head_;
  std::byte* to = sink.on_head(from_, head, text_);
  filled_ = 0;
  if (head.bytes == 0) {
    sink.on_message(from_, head);
    return true;
  }
  if (to == nullptr) {
    fault_ = fmt::format("no memory for a payload of {} bytes", head.bytes);
    return false;
  }
  payload_ = {to, static_cast<std::size_t>(head.bytes)};
  return true;
}

bool MessageReader::feed(std::span<const std::byte> bytes, WireSink& sink) {
  if (!fault_.empty()) return false;
  while (!bytes.empty()) {
    if (!payload_.empty()) {
      const std::size_t count = std::min(payload_.size(), bytes.size());
      std::memcpy(payload_.data(), bytes.data(), count);
      bytes = bytes.subspan(count);
      payload_filled(count, sink);
      continue;
    }
    if (filled_ < sizeof(MessageHead)) {
      const std::size_t count = std::min(sizeof(MessageHead) - filled_, bytes.size());
      std::memcpy(reinterpret_cast<std::byte*>(&head_) + filled_, bytes.data(), count);
      filled_ += count;
      bytes = bytes.subspan(count);
      if (filled_ < sizeof(MessageHead)) return true;
      fault_ = fault_of(head_);
      if (!fault_.empty()) return false;
      text_.resize(head_.text_bytes);
    }
    const std::size_t text_filled = filled_ - sizeof(MessageHead);
    const std::size_t count = std::min(text_.size() - text_filled, bytes.size());
    std::memcpy(text_.data() + text_filled, bytes.data(), count);
    filled_ += count;
    bytes = bytes.subspan(count);
    if (filled_ == sizeof(MessageHead) + text_.size() && !begin_payload(sink)) return false;
  }
  return true;
}

void MessageReader::payload_filled(std::size_t count, WireSink& sink) {
  payload_ = payload_.subspan(count);
  if (payload_.empty()) sink.on_message(from_, head_);
}

}  // namespace sx::detail
