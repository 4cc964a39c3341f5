#pragma once

#include "sextant/schedule/schedule.h"

namespace sx {

struct CommOptions {
  /// Parameters are sharded (FSDP): gathered before a stage's first op and released when the rank
  /// turns to another stage. A stage stays gathered while its forwards, or its backwards, follow
  /// each other: all step long with one stage a rank, `group` microbatches at a time in
  /// "interleaved".
  bool gather = false;
  /// One data-parallel reduction a stage, after its last gradient: early stages of the list reduce
  /// while the pipeline drains.
  bool reduce = true;
};

/// The schedule with all that is not computing: sends right behind the op that makes the output,
/// receives before the op that needs it, in the order in which the other rank sends; gathers,
/// releases and reductions. Requires compute ops only (ContractError).
Schedule insert_comm(const Schedule& schedule, const CommOptions& options = {});

}  // namespace sx
