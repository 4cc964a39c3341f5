#include "bench/op_profile.h"

#include <ATen/record_function.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>

namespace sx {

using Clock = std::chrono::steady_clock;

struct OpProfile::State {
  struct Open {
    const char* name;
    Clock::time_point start;
    double inner = 0.0;
  };
  std::vector<Open> open;
  std::map<std::string, double> seconds;
};

OpProfile::State& OpProfile::state() {
  static thread_local State state;
  return state;
}

OpProfile::OpProfile() {
  reset();
  handle_ = at::addThreadLocalCallback(
      at::RecordFunctionCallback(
          [](const at::RecordFunction& op) -> std::unique_ptr<at::ObserverContext> {
            state().open.push_back({op.name(), Clock::now()});
            return nullptr;
          },
          [](const at::RecordFunction&, at::ObserverContext*) {
            State& s = state();
            if (s.open.empty()) return;
            const State::Open op = s.open.back();
            s.open.pop_back();
            const double all = std::chrono::duration<double>(Clock::now() - op.start).count();
            s.seconds[op.name] += all - op.inner;
            if (!s.open.empty()) s.open.back().inner += all;
          })
          .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}));
}

OpProfile::~OpProfile() { at::removeCallback(handle_); }

void OpProfile::reset() { state() = {}; }

std::vector<std::pair<std::string, double>> OpProfile::seconds() const {
  std::vector<std::pair<std::string, double>> rows(state().seconds.begin(), state().seconds.end());
  std::sort(rows.begin(), rows.end(),
            [](const auto& a, const auto& b) { return a.second > b.second; });
  return rows;
}

}  // namespace sx
