#pragma once

#include "sextant/base/units.h"

namespace sx::signals {

/// Installs handlers: SIGINT, SIGTERM, SIGUSR1 ask for a stop (a second SIGINT ends the process
/// with 130), SIGUSR2 asks for a dump, SIGHUP and SIGPIPE are ignored. Call once, in `main`, before
/// threads start.
void install();
/// True after the first SIGINT, SIGTERM or SIGUSR1: finish the step or unit, save, exit 75 (or 130
/// if nothing can resume).
bool stop_requested();
/// The signal that asked for the stop, 0 if none did.
int stop_signal();
/// For programs that look at no stop request: from now on the first signal ends the process, with
/// 130 for SIGINT and 143 for the others.
void exit_at_once();
/// From the stop request on the process has this long to save; then it ends with 143 from inside
/// the handler. 0 = no limit.
void set_stop_deadline(Seconds deadline);
/// What the deadline was for is done: it no longer ends the process.
void end_stop_deadline();
/// True once for each SIGUSR2 that came: write flight records, memory and stage table, go on.
bool take_dump_request();
/// For tests: as if a signal had come, and back.
void request_stop();
void clear();

}  // namespace sx::signals
