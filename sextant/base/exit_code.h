#pragma once

namespace sx {

/// Exit codes of both programs (docs/errors.md).
enum class ExitCode : int {
  kOk = 0,
  kContract = 1,  ///< a defect: broken contract or uncaught exception
  kUser = 2,      ///< command line, recipe, plan not possible, missing program part
  kIo = 3,        ///< disk, socket, permission, no space, file corrupt as a whole
  kPeer = 4,      ///< collective failed or timed out, peer lost
  kVerdict = 5,   ///< the command ran and its answer is no
  kData = 6,      ///< share or number of bad items passed the recipe's limit
  kNumeric = 7,   ///< loss or gradient not finite with policy "halt"
  kMemory = 8,    ///< out of host or device memory
  kRequeue = 75,  ///< stopped on request after a complete checkpoint; the same command goes on
  kBudget = 124,  ///< own time or cost budget spent, work saved
  kInterrupt = 130,
  kTerminate = 143,
};

}  // namespace sx
