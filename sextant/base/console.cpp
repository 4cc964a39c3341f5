#include "sextant/base/console.h"

#include <unistd.h>

#include <cerrno>
#include <mutex>
#include <string>

#include "sextant/base/env.h"

namespace sx::console {
namespace {

constexpr std::string_view kEraseLine = "\r\x1b[K";

struct Screen {
  std::mutex mutex;
  std::string status;
};

/// Lives to the end of the process, because threads may still log while statics are destroyed.
Screen& screen() {
  // NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables)
  static Screen& instance = *new Screen;
  return instance;
}

void put(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

/// The first `columns` characters of UTF-8 text (combining and wide characters counted as one).
std::string_view cut(std::string_view text, int columns) {
  int num_seen = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool starts_character = (static_cast<unsigned char>(text[i]) & 0xc0) != 0x80;
    if (starts_character && num_seen++ == columns) return text.substr(0, i);
  }
  return text;
}

}  // namespace

void write_line(std::string_view text) {
  Screen& s = screen();
  const std::lock_guard lock(s.mutex);
  std::string out;
  if (!s.status.empty()) out += kEraseLine;
  out += text;
  out += '\n';
  out += s.status;
  put(out);
}

void set_status(std::string_view text) {
  Screen& s = screen();
  const std::lock_guard lock(s.mutex);
  if (text.empty() && s.status.empty()) return;
  // One column stays free: a full last column makes some terminals wrap.
  s.status = cut(text, env::terminal_columns() - 1);
  put(std::string(kEraseLine) + s.status);
}

}  // namespace sx::console
