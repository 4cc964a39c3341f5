#include "apps/program/program.h"
#include "apps/sextant/cmd_completion.h"

int main(int argc, char** argv) {
  return sx::run_main(sx::Program::kSextant, argc, argv,
                      {
                          {"completion", sx::run_completion},
                      });
}
