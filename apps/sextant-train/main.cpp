#include "apps/program/program.h"
#include "apps/sextant-train/commands.h"

int main(int argc, char** argv) {
  return sx::run_main(
      sx::Program::kSextantTrain, argc, argv,
      {{"train", sx::run_train}, {"ckpt", sx::run_ckpt}, {"sample", sx::run_sample}});
}
