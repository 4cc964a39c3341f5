#include "apps/program/program.h"
#include "apps/sextant/cmd_completion.h"
#include "apps/sextant/cmd_crawl.h"
#include "apps/sextant/cmd_data.h"
#include "apps/sextant/cmd_demo_report.h"
#include "apps/sextant/cmd_doctor.h"
#include "apps/sextant/cmd_launch.h"
#include "apps/sextant/cmd_plan.h"
#include "apps/sextant/cmd_tokenize.h"

int main(int argc, char** argv) {
  return sx::run_main(sx::Program::kSextant, argc, argv,
                      {
                          {"crawl", sx::run_crawl},
                          {"data", sx::run_data},
                          {"tokenize", sx::run_tokenize},
                          {"plan", sx::run_plan},
                          {"launch", sx::run_launch},
                          {"doctor", sx::run_doctor},
                          {"completion", sx::run_completion},
                          {"_demo-report", sx::run_demo_report},
                      });
}
