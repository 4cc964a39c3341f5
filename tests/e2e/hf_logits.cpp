// hf_logits MODEL TOKENS.safetensors OUT.safetensors: logits of a folder of Hugging Face's or of a
// checkpoint of ours, for tests that compare them with another program's.
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <exception>

#include "sextant/base/check.h"
#include "sextant/ckpt/safetensors.h"
#include "sextant/tensor/rank_thread.h"
#include "sextant/train/load_model.h"

namespace {

int run(const std::string& model, const std::string& tokens_path, const std::string& out) {
  sx::prepare_rank_thread({});
  const sx::LoadedModel loaded = sx::load_model(model);
  const auto file = sx::safetensors::File::open(tokens_path).value();
  const at::Tensor tokens = sx::load_tensor(file, "tokens").value();
  const c10::AutoGradMode no_grad(false);
  const at::Tensor logits = loaded.decoder->forward({tokens, {}, {}})
                                .narrow(2, 0, loaded.decoder->shape().vocab_size)
                                .to(at::kFloat);
  const sx::NamedTensor named[] = {{"logits", logits}};
  sx::save_safetensors(out, named).value();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  try {
    return run(argv[1], argv[2], argv[3]);
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 1;
  }
}
