// Forward and backward of the decoder in bytes. Letters: T tokens, H hidden, N heads, G key/value
// heads, D head dim, F ffn, V padded vocabulary, c bytes of an activation.
//
// What comes when was read off the order in which LibTorch 2.15's autograd runs: a node makes the
// gradients of all its inputs, lets its saved tensors go, and only then do gradients that meet at a
// tensor become one and parameters take theirs.
#include "sextant/plan/step_tape.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

namespace sx {
namespace {

using Kind = TapeEvent::Kind;

/// A block on the tape; kNone stands for one that is not there, or is another's.
using Block = int;
constexpr Block kNone = -1;

class Recorder {
 public:
  Block take(std::int64_t bytes) {
    tape_.push_back({.kind = Kind::kTake, .bytes = bytes});
    sizes_.push_back(bytes);
    return static_cast<Block>(sizes_.size()) - 1;
  }
  void give(Block& block) {
    if (block == kNone) return;
    tape_.push_back({.kind = Kind::kGive, .bytes = sizes_[static_cast<std::size_t>(block)]});
    block = kNone;
  }
  void mark(Kind kind, std::size_t unit) { tape_.push_back({.kind = kind, .unit = unit}); }
  void gradient(std::string parameter) {
    tape_.push_back({.kind = Kind::kGradient, .parameter = std::move(parameter)});
  }
  StepTape finish() { return std::move(tape_); }

 private:
  StepTape tape_;
  std::vector<std::int64_t> sizes_;
};

/// What a norm keeps.
struct NormSaved {
  Block wide = kNone;   ///< the input in fp32, where it was narrower
  Block stats = kNone;  ///< one or two numbers per row
  Block normal = kNone;
};
struct LinearSaved {
  Block weight = kNone;  ///< cast to the compute dtype
};
struct LayerSaved {
  Block x = kNone, h = kNone;  ///< inputs of the two norms, where these keep them
  NormSaved attention_norm, ffn_norm, q_norm, k_norm;
  Block q_raw = kNone, k_raw = kNone;  ///< before q_norm and k_norm
  LinearSaved wq, wk, wv, wo, gate_proj, up_proj, down_proj;
  Block y = kNone, q = kNone, k = kNone, v = kNone, out = kNone, lse = kNone;
  Block y2 = kNone, gate = kNone, up = kNone, act = kNone, product = kNone;
  Block result = kNone;  ///< of a second forward
};

class DecoderTape {
 public:
  DecoderTape(const ModelShape& shape, const TapeOptions& options)
      : s_(shape),
        o_(options),
        t_(options.batch * options.seq_len),
        c_(options.compute_bytes),
        f_(std::max<std::int64_t>(4, options.compute_bytes)),
        casts_(options.param_bytes != options.compute_bytes),
        first_layer_(shape.positions == Positions::kLearned ? 2 : 1) {}

  StepTape make() {
    const auto layers = static_cast<std::size_t>(s_.num_layers);
    Block x = embed();
    std::vector<LayerSaved> saved(layers);
    for (std::size_t i = 0; i < layers; ++i) {
      r_.mark(Kind::kPreForward, first_layer_ + i);
      x = layer_forward(saved[i], x, !full(i), chosen(i));
      r_.mark(Kind::kPostForward, first_layer_ + i);
      if (full(i) || norm_keeps_input()) continue;
      r_.give(saved[i].x);
    }
    if (s_.positions != Positions::kLearned) r_.give(positions_);
    Block g = root(x);
    for (std::size_t i = layers; i-- > 0;) {
      r_.mark(Kind::kPreBackward, first_layer_ + i);
      const std::string name = fmt::format("layers.{}.", i);
      if (i == 0 && !full(0)) last_angles_ = true;
      g = full(i) ? again(saved[i], g, name)
                  : layer_backward(saved[i], g, name, chosen(i), i + 1 == layers);
      r_.mark(Kind::kPostBackward, first_layer_ + i);
    }
    embed_backward(g);
    r_.give(cos_);
    r_.give(sin_);
    return r_.finish();
  }

 private:
  std::int64_t width() const { return s_.num_heads * s_.head_dim; }
  std::int64_t width_kv() const { return s_.num_heads_kv * s_.head_dim; }
  std::int64_t th(std::int64_t bytes) const { return t_ * s_.hidden * bytes; }
  bool chosen(std::size_t layer) const {
    const auto i = static_cast<std::int64_t>(layer);
    return i % o_.recompute.every == 0 && (o_.recompute.first == 0 || i < o_.recompute.first);
  }
  bool full(std::size_t layer) const { return o_.recompute.full && chosen(layer); }
  bool wide_norm() const { return s_.norm == NormKind::kRms && c_ != f_; }
  /// An RMS norm in a narrow dtype keeps the widened input instead.
  bool norm_keeps_input() const { return !wide_norm(); }

  // ---- embeddings ----

  Block embed() {
    const std::int64_t p = o_.param_bytes;
    tokens_ = r_.take(t_ * 8);
    positions_ = r_.take(t_ * 8);
    r_.mark(Kind::kPreForward, 0);
    Block x = r_.take(th(p));
    r_.mark(Kind::kPostForward, 0);
    if (s_.positions == Positions::kLearned) {
      r_.mark(Kind::kPreForward, 1);
      Block at = r_.take(th(p));
      r_.mark(Kind::kPostForward, 1);
      Block sum = r_.take(th(p));
      r_.give(x);
      r_.give(at);
      x = sum;
    }
    if (casts_) {
      Block narrow = r_.take(th(c_));
      r_.give(x);
      x = narrow;
    }
    if (s_.positions == Positions::kRope) {
      for (Block* angle : {&cos_, &sin_}) {
        Block made = r_.take(t_ * s_.head_dim / 2 * p);
        if (casts_) {
          Block narrow = r_.take(t_ * s_.head_dim / 2 * c_);
          r_.give(made);
          made = narrow;
        }
        *angle = made;
      }
    }
    return x;
  }

  void embed_backward(Block g) {
    const std::int64_t p = o_.param_bytes;
    if (casts_) {
      Block wide = r_.take(th(p));
      r_.give(g);
      g = wide;
    }
    if (s_.positions == Positions::kLearned) {
      r_.mark(Kind::kPreBackward, 1);
      Block table = r_.take(s_.max_positions * s_.hidden * p);
      r_.give(positions_);
      r_.gradient("pos_embeddings.weight");
      r_.give(table);
    }
    r_.mark(Kind::kPreBackward, 0);
    Block table = r_.take(s_.padded_vocab() * s_.hidden * p);
    r_.give(g);
    r_.give(tokens_);
    r_.gradient("tok_embeddings.weight");
    r_.give(table);
    r_.give(head_grad_);  // of a tied head: added where the table's is
  }

  // ---- norms ----

  Block norm_forward(NormSaved& saved, std::int64_t rows, std::int64_t row, bool keep) {
    const std::int64_t wide = rows * row * f_;
    if (s_.norm == NormKind::kLayer && row == s_.hidden) {
      Block y = r_.take(rows * row * c_);
      saved.stats = r_.take(2 * rows * c_);
      if (!keep) r_.give(saved.stats);
      return y;
    }
    if (c_ != f_) saved.wide = r_.take(wide);
    Block square = r_.take(wide);
    Block mean = r_.take(rows * f_);
    saved.stats = r_.take(rows * f_);
    r_.give(mean);
    r_.give(square);
    saved.normal = r_.take(wide);
    Block y = r_.take(wide);
    if (c_ != f_) {
      Block narrow = r_.take(rows * row * c_);
      r_.give(y);
      y = narrow;
    }
    if (!keep) drop(saved);
    return y;
  }

  void drop(NormSaved& saved) {
    r_.give(saved.normal);
    r_.give(saved.stats);
    r_.give(saved.wide);
  }

  /// `x`: given up with the rest when this norm is what keeps it. `gives`: the gradient is its own.
  Block norm_backward(NormSaved& saved, Block& gy, Block& x, std::int64_t rows, std::int64_t row,
                      const std::string& name, bool gives) {
    const std::int64_t wide = rows * row * f_;
    if (s_.norm == NormKind::kLayer && row == s_.hidden) {
      Block d = r_.take(rows * row * c_);
      if (gives) r_.give(gy);
      r_.give(x);
      r_.give(saved.stats);
      r_.gradient(name + ".bias");
      r_.gradient(name + ".weight");
      return d;
    }
    Block wide_gy = kNone;
    if (c_ != f_) {
      wide_gy = r_.take(wide);
      if (gives) r_.give(gy);
    }
    Block weight_terms = r_.take(wide);
    Block to_normal = r_.take(wide);
    r_.give(weight_terms);
    if (c_ == f_ && gives) r_.give(gy);
    r_.give(wide_gy);
    r_.give(saved.normal);
    r_.gradient(name + ".weight");
    Block stat_terms = r_.take(wide);
    Block d = r_.take(wide);
    r_.give(stat_terms);
    r_.give(to_normal);
    r_.give(saved.stats);
    Block a = r_.take(wide), b = r_.take(wide), square = r_.take(wide), scaled = r_.take(wide);
    r_.give(square);
    r_.give(b);
    r_.give(a);
    r_.give(x);
    r_.give(saved.wide);
    r_.give(scaled);
    if (c_ != f_) {
      Block narrow = r_.take(rows * row * c_);
      r_.give(d);
      d = narrow;
    }
    return d;
  }

  /// Norm of hidden states, done again first where it was not kept.
  Block hidden_norm_backward(NormSaved& saved, Block& gy, Block& x, const std::string& name,
                             bool recomputed) {
    Block y = kNone, mine = kNone;
    if (recomputed) y = norm_forward(saved, t_, s_.hidden, true);
    Block d = norm_backward(saved, gy, recomputed ? mine : x, t_, s_.hidden, name, !recomputed);
    r_.give(y);
    r_.give(gy);
    r_.give(x);
    return d;
  }

  // ---- products ----

  Block linear_forward(LinearSaved& saved, std::int64_t in, std::int64_t out, bool keep) {
    if (casts_) saved.weight = r_.take(in * out * c_);
    Block y = r_.take(t_ * out * c_);
    if (!keep) r_.give(saved.weight);
    return y;
  }

  /// Gives `gy` and what the product kept. `meet`: what happens to the input's gradient at once.
  Block linear_backward(LinearSaved& saved, Block& gy, Block& input, std::int64_t in,
                        std::int64_t out, const std::string& name, bool bias,
                        const std::function<void(Block&)>& meet = {}) {
    Block weight_grad = kNone, dx = kNone;
    const auto make_weight = [&] { weight_grad = r_.take(in * out * c_); };
    const auto make_input = [&] { dx = r_.take(t_ * in * c_); };
    if (bias) {
      make_input();
      make_weight();
    } else {
      make_weight();
      make_input();
    }
    r_.give(gy);
    r_.give(input);
    r_.give(saved.weight);
    if (meet && !bias) meet(dx);
    if (casts_) {
      Block wide = r_.take(in * out * o_.param_bytes);
      r_.give(weight_grad);
      weight_grad = wide;
    }
    if (bias) r_.gradient(name + ".bias");
    r_.gradient(name + ".weight");
    r_.give(weight_grad);
    if (meet && bias) meet(dx);
    return dx;
  }

  /// A sum of gradients in new memory, as for the first two that meet.
  std::function<void(Block&)> meet_with(Block& other) {
    return [this, &other](Block& dx) {
      Block sum = r_.take(th(c_));
      r_.give(other);
      r_.give(dx);
      dx = sum;
    };
  }
  /// The third and later ones are added in place.
  std::function<void(Block&)> add_to(Block& sum) {
    return [this, &sum](Block& dx) {
      r_.give(dx);
      dx = sum;
      sum = kNone;
    };
  }

  // ---- attention ----

  /// Queries that LibTorch's flash kernel takes at a time, and their scores.
  std::int64_t queries() const {
    const std::int64_t s = o_.seq_len;
    return std::min<std::int64_t>(s, s >= 768 ? 256 : s >= 192 ? 64 : 32);
  }
  std::int64_t scores() const { return queries() * std::min<std::int64_t>(512, o_.seq_len); }
  std::int64_t narrow_scores() const { return c_ == f_ ? 0 : scores() * c_; }
  void kernel_scratch(std::int64_t bytes) {
    Block scratch = r_.take(bytes);
    r_.give(scratch);
  }
  std::int64_t row_part(std::int64_t columns, std::int64_t bytes) const {
    return o_.cut_rows ? o_.seq_len * columns * bytes : 0;
  }

  void attend(LayerSaved& s) {
    s.out = r_.take(t_ * width() * c_);
    s.lse = r_.take(t_ * s_.num_heads * f_);
    Block part = o_.cut_rows ? r_.take(row_part(width(), c_)) : kNone;
    kernel_scratch((scores() + queries() * (2 + s_.head_dim)) * f_ + narrow_scores());
    r_.give(part);
  }

  struct Heads {
    Block q = kNone, k = kNone, v = kNone;
  };
  Heads attend_backward(LayerSaved& s, Block& dout, bool recomputed) {
    Block first_out = s.out;
    if (recomputed) attend(s);
    Heads d{.q = r_.take(t_ * width() * c_),
            .k = r_.take(t_ * width_kv() * c_),
            .v = r_.take(t_ * width_kv() * c_)};
    Block part = o_.cut_rows ? r_.take(row_part(width() + 2 * width_kv(), c_)) : kNone;
    kernel_scratch(2 * (scores() * f_ + narrow_scores()));
    r_.give(part);
    if (recomputed) {
      r_.give(s.lse);
      r_.give(s.out);
      r_.give(dout);
    } else {
      r_.give(dout);
    }
    r_.give(s.q);
    r_.give(s.k);
    r_.give(s.v);
    if (!recomputed) {
      r_.give(first_out);
      s.out = kNone;
      r_.give(s.lse);
    }
    return d;
  }

  void turn(Block& x, std::int64_t columns) {
    if (s_.positions != Positions::kRope) return;
    Block turned = r_.take(t_ * columns * c_);
    r_.give(x);
    x = turned;
  }

  void make_heads(LayerSaved& s, bool keep) {
    s.q = linear_forward(s.wq, s_.hidden, width(), keep);
    s.k = linear_forward(s.wk, s_.hidden, width_kv(), keep);
    s.v = linear_forward(s.wv, s_.hidden, width_kv(), keep);
    if (s_.qk_norm) {
      s.q_raw = s.q;
      s.q = norm_forward(s.q_norm, t_ * s_.num_heads, s_.head_dim, keep);
      if (!keep || c_ != f_) r_.give(s.q_raw);
      s.k_raw = s.k;
      s.k = norm_forward(s.k_norm, t_ * s_.num_heads_kv, s_.head_dim, keep);
      if (!keep || c_ != f_) r_.give(s.k_raw);
    }
    turn(s.q, width());
    turn(s.k, width_kv());
  }

  // ---- blocks ----

  /// Takes over `x`. With `keep` backward can run afterwards; without, all but the result goes.
  Block layer_forward(LayerSaved& s, Block x, bool keep, bool chosen) {
    const TapeRecompute& re = o_.recompute;
    const bool norms = re.norms && chosen && !re.full;
    s.x = x;
    s.y = norm_forward(s.attention_norm, t_, s_.hidden, keep && !norms);
    make_heads(s, keep);
    attend(s);
    if (!keep || (re.attention_core && chosen && !re.full)) r_.give(s.lse);
    Block projected = linear_forward(s.wo, width(), s_.hidden, keep);
    if (!keep) {
      for (Block* block : {&s.out, &s.v, &s.k, &s.q}) r_.give(*block);
    }
    Block h = r_.take(th(c_));
    r_.give(projected);
    if (!keep) r_.give(s.y);
    s.h = h;
    s.y2 = norm_forward(s.ffn_norm, t_, s_.hidden, keep && !norms);
    Block down = feed_forward(s, keep, re.mlp_activation && chosen && !re.full);
    Block result = r_.take(th(c_));
    r_.give(down);
    if (!keep) r_.give(s.y2);
    if (!keep || (!norm_keeps_input() && !norms)) r_.give(s.h);
    return result;
  }

  void activate(LayerSaved& s) {
    s.act = r_.take(t_ * s_.ffn_hidden * c_);
    if (is_gated(s_.activation)) s.product = r_.take(t_ * s_.ffn_hidden * c_);
  }
  /// What goes into the last product.
  Block& activated(LayerSaved& s) { return is_gated(s_.activation) ? s.product : s.act; }

  Block feed_forward(LayerSaved& s, bool keep, bool recomputed) {
    const bool gated = is_gated(s_.activation);
    if (gated) s.gate = linear_forward(s.gate_proj, s_.hidden, s_.ffn_hidden, keep);
    s.up = linear_forward(s.up_proj, s_.hidden, s_.ffn_hidden, keep);
    activate(s);
    if (!recomputed && keep && s_.activation == Activation::kRelu) r_.give(s.up);
    if (gated && (!keep || recomputed)) r_.give(s.act);
    if (!keep) {
      r_.give(s.gate);
      r_.give(s.up);
    }
    Block down = linear_forward(s.down_proj, s_.ffn_hidden, s_.hidden, keep);
    if (!keep) r_.give(activated(s));
    return down;
  }

  /// From the gradient of what goes into the last product to those of gate and up.
  struct Inner {
    Block gate = kNone, up = kNone;
  };
  Inner activation_backward(LayerSaved& s, Block& d, bool recomputed) {
    const std::int64_t tf = t_ * s_.ffn_hidden * c_;
    if (recomputed) activate(s);
    if (!is_gated(s_.activation)) {
      Inner inner{.up = r_.take(tf)};
      r_.give(d);
      r_.give(s.act);
      r_.give(s.up);
      return inner;
    }
    Block to_act = r_.take(tf);
    Inner inner{.up = r_.take(tf)};
    if (!recomputed) {
      r_.give(d);
      r_.give(s.up);
    }
    r_.give(s.act);
    inner.gate = r_.take(tf);
    r_.give(to_act);
    r_.give(s.product);
    r_.give(d);
    r_.give(s.gate);
    r_.give(s.up);
    return inner;
  }

  /// Takes over `g`, the gradient of the layer's output, unless `keeps_g`.
  Block layer_backward(LayerSaved& s, Block g, const std::string& name, bool chosen, bool is_last,
                       bool keeps_g = false) {
    const TapeRecompute& re = o_.recompute;
    const bool selective = chosen && !re.full;
    const std::string ffn = name + "feed_forward.", attention = name + "attention.";
    Block theirs = g, nobodys = kNone;

    // The last product's gradient is that of the sum: nobody owns it alone.
    Block input = activated(s);
    activated(s) = kNone;
    Block d = linear_backward(s.down_proj, nobodys, input, s_.ffn_hidden, s_.hidden, ffn + "down",
                              s_.linear_bias);
    Inner inner = activation_backward(s, d, re.mlp_activation && selective);
    Block dy;
    if (is_gated(s_.activation)) {
      Block part = linear_backward(s.up_proj, inner.up, nobodys, s_.hidden, s_.ffn_hidden,
                                   ffn + "up", s_.linear_bias);
      dy = linear_backward(s.gate_proj, inner.gate, s.y2, s_.hidden, s_.ffn_hidden, ffn + "gate",
                           s_.linear_bias, meet_with(part));
    } else {
      dy = linear_backward(s.up_proj, inner.up, s.y2, s_.hidden, s_.ffn_hidden, ffn + "up",
                           s_.linear_bias);
    }
    Block dh = hidden_norm_backward(s.ffn_norm, dy, s.h, name + "ffn_norm", re.norms && selective);
    // The gradient of the root's input is held by others, too; one from above is added to in place.
    Block sum = theirs;
    if (is_last || keeps_g) {
      sum = r_.take(th(c_));
      if (!keeps_g) r_.give(theirs);
    }
    r_.give(dh);

    const bool core = re.attention_core && selective;
    Block out = core ? s.out : kNone;  // kept by the product alone
    if (core) s.out = kNone;
    Block dout =
        linear_backward(s.wo, nobodys, out, width(), s_.hidden, attention + "wo", s_.linear_bias);
    Heads heads = attend_backward(s, dout, core);
    turn(heads.k, width_kv());
    turn(heads.q, width());
    if (last_angles_) {
      r_.give(cos_);
      r_.give(sin_);
    }
    if (s_.qk_norm) {
      heads.k = norm_backward(s.k_norm, heads.k, s.k_raw, t_ * s_.num_heads_kv, s_.head_dim,
                              attention + "k_norm", true);
      heads.q = norm_backward(s.q_norm, heads.q, s.q_raw, t_ * s_.num_heads, s_.head_dim,
                              attention + "q_norm", true);
    }
    Block from_v = linear_backward(s.wv, heads.v, nobodys, s_.hidden, width_kv(), attention + "wv",
                                   s_.qkv_bias);
    Block from_k = linear_backward(s.wk, heads.k, nobodys, s_.hidden, width_kv(), attention + "wk",
                                   s_.qkv_bias, meet_with(from_v));
    dy = linear_backward(s.wq, heads.q, s.y, s_.hidden, width(), attention + "wq", s_.qkv_bias,
                         add_to(from_k));
    Block dx = hidden_norm_backward(s.attention_norm, dy, s.x, name + "attention_norm",
                                    re.norms && selective);
    r_.give(dx);  // added to the sum in place
    return sum;
  }

  /// A block whose forward kept its input only.
  Block again(LayerSaved& s, Block g, const std::string& name) {
    Block input = s.x;
    s = LayerSaved{};
    Block result = layer_forward(s, kNone, true, false);
    s.x = kNone;
    Block dx = layer_backward(s, g, name, false, false, /*keeps_g=*/true);
    r_.give(result);
    r_.give(g);
    r_.give(input);
    return dx;
  }

  // ---- head and loss ----

  /// Forward and backward of the last unit; takes over `x`, returns its gradient.
  Block root(Block x) {
    const std::size_t unit = first_layer_ + static_cast<std::size_t>(s_.num_layers);
    r_.mark(Kind::kPreForward, unit);
    NormSaved saved;
    Block y = norm_forward(saved, t_, s_.hidden, true);
    Block grad_x = kNone;
    const std::int64_t vh = s_.padded_vocab() * s_.hidden;
    Block weight = casts_ ? r_.take(vh * c_) : kNone;
    Block targets = r_.take(t_ * 8);
    Block counts = r_.take(t_ * f_), losses = r_.take(t_ * f_);
    grad_x = r_.take(th(c_));
    head_grad_ = r_.take(vh * c_);
    const std::int64_t chunk =
        std::max<std::int64_t>(1, o_.head_chunk_bytes / (s_.padded_vocab() * c_));
    for (std::int64_t begin = 0; begin < t_; begin += chunk) {
      const std::int64_t rows = std::min(chunk, t_ - begin);
      Block logits = r_.take(rows * s_.padded_vocab() * c_);
      if (c_ != f_) {
        const std::int64_t at_once =
            std::max<std::int64_t>(1, (std::int64_t{1} << 20) / (s_.vocab_size * f_));
        Block wide = r_.take(std::min(at_once, rows) * s_.vocab_size * f_);
        r_.give(wide);
      }
      Block term = begin > 0 ? r_.take(vh * c_) : kNone;
      r_.give(term);
      r_.give(logits);
    }
    r_.give(losses);
    r_.give(counts);
    r_.give(targets);
    r_.give(weight);
    r_.give(y);
    r_.mark(Kind::kPostForward, unit);
    if (!norm_keeps_input()) r_.give(x);

    r_.mark(Kind::kPreBackward, unit);
    if (casts_) {
      Block wide = r_.take(vh * o_.param_bytes);
      r_.give(head_grad_);
      head_grad_ = wide;
    }
    if (!s_.tie_embeddings) {
      r_.gradient("output.weight");
      r_.give(head_grad_);
    }
    Block g = norm_backward(saved, grad_x, x, t_, s_.hidden, "norm", true);
    r_.mark(Kind::kPostBackward, unit);
    return g;
  }

  const ModelShape& s_;
  const TapeOptions& o_;
  std::int64_t t_, c_, f_;
  bool casts_;
  std::size_t first_layer_;
  bool last_angles_ = false;
  Recorder r_;
  Block tokens_ = kNone, positions_ = kNone, cos_ = kNone, sin_ = kNone, head_grad_ = kNone;
};

}  // namespace

StepTape decoder_tape(const ModelShape& shape, const TapeOptions& options) {
  return DecoderTape(shape, options).make();
}

StepTape plain_tape(const std::vector<DpUnit>& units) {
  Recorder r;
  for (std::size_t u = 0; u < units.size(); ++u) {
    r.mark(Kind::kPreForward, u);
    r.mark(Kind::kPostForward, u);
  }
  for (std::size_t u = units.size(); u-- > 0;) {
    r.mark(Kind::kPreBackward, u);
    for (std::size_t i = units[u].params.size(); i-- > 0;) r.gradient(units[u].params[i].fqn);
    r.mark(Kind::kPostBackward, u);
  }
  return r.finish();
}

}  // namespace sx
