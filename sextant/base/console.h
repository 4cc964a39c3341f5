#pragma once

#include <string_view>

namespace sx::console {

/// The one writer of standard error: log lines, progress lines and the status line that progress
/// redraws on a terminal. Each line is one write, so lines of several threads or ranks do not mix.
/// Thread-safe. Failures are ignored: there is no place left to report them.

/// Writes `text` and a newline; a status line is taken away first and drawn again below.
void write_line(std::string_view text);

/// Replaces the status line, cut to the terminal's width; empty takes it away. Call only when
/// standard error is a terminal.
void set_status(std::string_view text);

}  // namespace sx::console
