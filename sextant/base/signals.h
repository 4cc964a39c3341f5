#pragma once

namespace sx::signals {

/// Installs handlers: SIGINT, SIGTERM, SIGUSR1 ask for a stop (a second SIGINT ends the process
/// with 130), SIGHUP and SIGPIPE are ignored. Call once, in `main`, before threads start.
void install();
/// True after the first SIGINT, SIGTERM or SIGUSR1: finish the step or unit, save, exit 75 (or 130
/// if nothing can resume).
bool stop_requested();
/// For tests: as if a signal had come, and back.
void request_stop();
void clear();

}  // namespace sx::signals
