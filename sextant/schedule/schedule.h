#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sextant/base/result.h"

namespace sx {

/// What a rank of a pipeline does next.
enum class OpKind : std::uint8_t {
  kForward,         ///< F
  kBackward,        ///< B: the gradient of input and weights at once
  kBackwardInput,   ///< I: the gradient of the input alone; the weights' part is kept for W
  kBackwardWeight,  ///< W
  kSendForward,     ///< the output of F to the next stage
  kRecvForward,     ///< the input of F
  kSendBackward,    ///< the gradient of the input to the stage before
  kRecvBackward,    ///< the gradient of the output
  kGather,          ///< the parameters of a chunk, before its first use; no microbatch
  kRelease,         ///< gives them back; no microbatch
  kReduce,          ///< the data-parallel reduction of a chunk's gradients; no microbatch
};
inline constexpr int kNumOpKinds = 11;

bool is_compute(OpKind kind);
/// Whether ops of this kind belong to one microbatch.
bool has_microbatch(OpKind kind);

/// One entry of a rank's list. A stage is a virtual one, counted along the model from 0.
struct Op {
  OpKind kind = OpKind::kForward;
  std::int32_t stage = 0;
  std::int32_t microbatch = 0;  ///< 0 where the kind has none
  bool overlap = false;         ///< runs together with the op behind it: an F with a B or I

  /// "3F0", "0SEND_F2", "1UNSHARD": the text form of PyTorch's pipeline runtime.
  std::string to_string() const;
  friend bool operator==(const Op&, const Op&) = default;
};

/// Which rank runs which stage.
enum class Placement : std::uint8_t {
  kLoop,  ///< stage s on rank s mod p
  kVee,   ///< two stages a rank: s on rank s in the first half, on 2p-1-s in the second
  kDual,  ///< p stages held twice: s on rank s for the first half of the microbatches, on p-1-s for
          ///< the second half
};

/// A pipeline's step as data: for each rank the ops in the order in which it runs them. p = 1 with
/// one chunk is the plain accumulation loop.
struct Schedule {
  std::string name;
  std::int32_t ranks = 1;         ///< p
  std::int32_t chunks = 1;        ///< stages a rank holds (v); 2 copies with kDual
  std::int32_t microbatches = 1;  ///< m
  Placement placement = Placement::kLoop;
  std::vector<std::vector<Op>> ops;  ///< by rank

  std::int32_t num_stages() const { return placement == Placement::kDual ? ranks : ranks * chunks; }
  /// Requires a stage and a microbatch of this schedule.
  std::int32_t rank_of(std::int32_t stage, std::int32_t microbatch) const;
  bool has_comm() const;
};

/// What a schedule is made from.
struct ScheduleRequest {
  std::string name = "1f1b";  ///< a row of `schedule_names()`
  std::int32_t ranks = 1;
  std::int32_t chunks = 1;  ///< used by "interleaved"; the V shapes and dualpipe have two
  std::int32_t microbatches = 1;
  /// Microbatches that pass a chunk before the next chunk's turn ("interleaved" only); 0: `ranks`.
  std::int32_t group = 0;
};

/// gpipe (arXiv 1811.06965), 1f1b (1806.03377, 2104.04473), interleaved (2104.04473 section 2.2),
/// zb_h1 and zb_h2 (2401.10241), zb_v, v_half and v_min (2405.15362), dualpipe (2412.19437) and
/// dualpipev, its halved form. "zero_bubble" is another name for zb_h1.
std::vector<std::string> schedule_names();

/// The compute ops of the named schedule. Errors: kNotFound for a name, kInvalid for a group
/// outside ranks..microbatches, for chunks a schedule cannot have, for dualpipe with an odd number
/// of ranks or fewer than 2 * ranks microbatches (dualpipe: an even number of them).
Result<Schedule> make_schedule(const ScheduleRequest& request);

/// True for an "interleaved" request whose last group has fewer microbatches than there are ranks:
/// legal, and worth a warning, because it costs time. Where such a group would deadlock, the
/// microbatches are spread evenly over one group less.
bool has_costly_last_group(const ScheduleRequest& request);

}  // namespace sx
