#include <vector>

#include "apps/program/program.h"
#include "apps/sextant-train/commands.h"
#include "sextant/dist/mpi.h"
#include "sextant/dist/plan_check.h"

int main(int argc, char** argv) {
  std::vector<sx::ProgramPart> parts{{"libtorch", sx::libtorch_version()}};
  if (sx::mpi_is_built()) parts.push_back({"mpi", sx::mpi_version()});
  return sx::run_main(sx::Program::kSextantTrain, argc, argv,
                      {{"train", sx::run_train},
                       {"prof", sx::run_prof},
                       {"ckpt", sx::run_ckpt},
                       {"sample", sx::run_sample}},
                      parts);
}
