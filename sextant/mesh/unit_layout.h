#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace sx {

/// How the parameters of a unit share one buffer, and how that buffer is cut over W coordinates.
///
///   kBucket       Megatron-LM's distributed optimizer: reverse registration order; starts at
///                 multiples of 64 elements; buckets end at a multiple of W and 128; a coordinate
///                 owns a contiguous 1/W of each bucket, across borders of parameters
///                 (megatron/core/optimizer/param_layout.py).
///   kBucketPlain  reverse order, back to back, nothing is cut: every coordinate has all of it. A
///                 bucket closes when it has reached the bucket size.
///   kFlat         FSDP1: registration order, aligned starts, the whole padded for W equal chunks
///                 (torch/distributed/fsdp/_flat_param.py).
///   kPerParam     FSDP2: each parameter cut by the chunk rule of Shard(dim); the gathered buffer
///   is
///                 coordinate by coordinate, so parameters are copied out.
///   kBlock        as kFlat, but a cut never falls inside a block of `block_elements` of a row.
///   kTensor       whole parameters dealt to coordinates, balanced by size.
enum class LayoutKind : std::uint8_t { kBucket, kBucketPlain, kFlat, kPerParam, kBlock, kTensor };
const char* to_string(LayoutKind kind);  ///< "bucket", "bucket_plain", ... as recipes write it

/// Whose alignment and bucket rules are used. Sextant's own pads every block to `align_bytes` so
/// that kernels see the same alignment and length in every layout.
enum class LayoutCompat : std::uint8_t { kSextant, kTorch, kMegatron };

/// One parameter, in registration order. All of one layout have the same element type.
struct UnitParam {
  std::string fqn;
  std::vector<std::int64_t> shape;
  int shard_dim = 0;        ///< kPerParam: the dim that is cut
  bool own_bucket = false;  ///< kBucket: alone in its bucket (Megatron's shared embedding)

  std::int64_t num_elements() const;
};

struct LayoutOptions {
  LayoutKind kind = LayoutKind::kFlat;
  std::int64_t degree = 1;  ///< W: coordinates the buffer is cut over
  /// Bytes of the smallest element that will lie in a buffer of this layout (2 when bf16 parameters
  /// and fp32 gradients share it).
  std::int64_t item_bytes = 4;
  std::int64_t align_bytes = 128;
  LayoutCompat compat = LayoutCompat::kSextant;
  /// kBucket, kBucketPlain: elements at which a bucket closes; 0 = max(40,000,000, 1,000,000 * W).
  /// With kTorch, bytes count instead: 1 MiB for the first bucket, then 25 MiB.
  std::int64_t bucket_elements = 0;
  std::int64_t num_buckets = 0;     ///< > 0: about this many buckets instead
  bool pad_for_bus = false;         ///< kBucket: ends also at multiples of 65,536
  std::int64_t block_elements = 0;  ///< kBlock; 0 = align_bytes worth of elements
};

/// A contiguous run of one parameter's elements (row-major) in a coordinate's shard.
struct Segment {
  std::size_t param = 0;             ///< index into params()
  std::int64_t begin = 0;            ///< first element
  std::int64_t end = 0;              ///< behind the last
  std::int64_t shard_offset = 0;     ///< of `begin`, in the coordinate's shard buffer
  std::int64_t gathered_offset = 0;  ///< of `begin`, in the gathered buffer
  std::int64_t size() const { return end - begin; }
  friend bool operator==(const Segment&, const Segment&) = default;
};

/// What one collective moves: a region of the gathered buffer, cut into W equal shards (one for
/// kBucketPlain).
struct LayoutBucket {
  std::int64_t begin = 0;
  std::int64_t numel = 0;             ///< padding included
  std::int64_t numel_unpadded = 0;    ///< to the end of the last parameter
  std::vector<std::size_t> params{};  ///< in buffer order
};

/// The arithmetic of one buffer: no memory, no element type.
///
///   gathered buffer  [gathered_numel()]  what all_gather fills and reduce_scatter reads. Region
///                    `bucket.begin .. +numel` is shard 0, shard 1, ... of that bucket.
///   shard buffer     [shard_numel()]     a coordinate's shards of all buckets, in bucket order;
///                    the same length on every coordinate, padding holds zeros.
///   full buffer      [full_numel()]      every parameter contiguous at param_offset(i). It is the
///                    gathered buffer itself when zero_copy(); else (kPerParam) a second one.
///
/// In kSextant mode starts in the full buffer and slots of kPerParam in the shard are multiples of
/// `align_bytes`, and so is every shard: a parameter can be used with its padded length.
/// Errors: ContractError for degree or sizes below 1, and a shard_dim that the parameter lacks.
class UnitLayout {
 public:
  UnitLayout(std::vector<UnitParam> params, const LayoutOptions& options);

  const std::vector<UnitParam>& params() const { return params_; }
  const LayoutOptions& options() const { return options_; }
  std::int64_t degree() const { return options_.degree; }
  bool zero_copy() const { return options_.kind != LayoutKind::kPerParam; }
  /// Parts the buffer is cut into: degree(), or 1 for kBucketPlain.
  std::int64_t num_shards() const { return num_shards_; }

  const std::vector<LayoutBucket>& buckets() const { return buckets_; }
  std::int64_t num_elements() const;  ///< of all parameters
  std::int64_t gathered_numel() const { return shard_numel_ * num_shards_; }
  std::int64_t shard_numel() const { return shard_numel_; }
  std::int64_t full_numel() const { return full_numel_; }
  std::int64_t padding() const { return gathered_numel() - num_elements(); }

  std::int64_t bucket_shard_numel(std::size_t bucket) const {
    return buckets_[bucket].numel / num_shards_;
  }
  /// Where a bucket's shard begins in the shard buffer.
  std::int64_t bucket_shard_offset(std::size_t bucket) const {
    return buckets_[bucket].begin / num_shards_;
  }
  std::size_t bucket_of(std::size_t param) const { return bucket_of_[param]; }
  std::int64_t param_offset(std::size_t param) const { return param_offset_[param]; }
  /// Elements from param_offset(param) on that belong to this parameter alone: its own and padding.
  std::int64_t param_room(std::size_t param) const { return param_room_[param]; }

  /// What `coord` owns, by rising shard_offset; empty runs are left out. Over all coordinates every
  /// element of every parameter stands once (kBucketPlain: once on each coordinate).
  const std::vector<Segment>& segments(std::int64_t coord) const;
  /// All runs of one parameter by rising `begin`, with their coordinates: the copy-out and copy-in
  /// of kPerParam.
  struct Piece {
    std::int64_t coord = 0;
    Segment segment;
  };
  std::vector<Piece> pieces(std::size_t param) const;

  /// One line per coordinate and segment, for reports and for comparing ranks.
  std::string to_string() const;

 private:
  void place_buckets();
  void place_flat();
  void place_per_param();
  void place_block();
  void place_tensors();
  /// One region of all parameters, in registration order, at the given starts.
  void one_region(std::vector<std::int64_t> starts, std::int64_t numel, std::int64_t unpadded);
  void cut_regions();
  void measure_room();

  std::vector<UnitParam> params_;
  LayoutOptions options_;
  std::int64_t num_shards_ = 1;
  std::int64_t align_ = 1;  ///< elements
  std::vector<LayoutBucket> buckets_;
  std::vector<std::size_t> bucket_of_;
  std::vector<std::int64_t> param_offset_;
  std::vector<std::int64_t> param_room_;
  std::int64_t shard_numel_ = 0;
  std::int64_t full_numel_ = 0;
  std::vector<std::vector<Segment>> segments_;
};

/// Cuts a list of parameters into runs of at most `cap_bytes` each (a larger single parameter is a
/// run of its own): (first, last + 1) pairs in order.
std::vector<std::pair<std::size_t, std::size_t>> split_by_cap(std::span<const UnitParam> params,
                                                              std::int64_t item_bytes,
                                                              std::int64_t cap_bytes);

}  // namespace sx
