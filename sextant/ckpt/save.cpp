// A save that blocks: every rank writes, one commits, all learn the outcome.
#include "sextant/base/clock.h"
#include "sextant/ckpt/agree.h"
#include "sextant/ckpt/checkpoint_list.h"
#include "sextant/ckpt/commit.h"
#include "sextant/ckpt/save_plan.h"

namespace sx {

Result<SaveReport> save_checkpoint(const fs::path& root, const CheckpointContent& content,
                                   Communicator& world, const SaveOptions& options) {
  const std::int64_t begin = monotonic_microseconds();
  const fs::path path = root / checkpoint_name(content.step);
  const fs::path temp = temp_folder(root, content.step, options);
  // Coord 0 makes the folder, every rank writes into it, coord 0 commits; after each part all know
  // whether to go on.
  Result<SaveReport> outcome = SaveReport{};
  FolderLock lock;
  if (world.coord() == 0) {
    auto opened = open_temp(root, temp, options);
    if (opened.ok()) {
      lock = *std::move(opened);
    } else {
      outcome = opened.error();
    }
  }
  outcome = share_outcome(std::move(outcome), path, world);
  if (!outcome.ok()) return outcome;

  const AllParts parts = all_parts(content, world);
  const Result<OwnPieces> pieces = own_pieces(parts.model, parts.optim);
  const Result<Manifest> own =
      pieces.ok() ? write_pieces(temp, *pieces, world.coord()) : Result<Manifest>(pieces.error());
  const std::vector<std::string> texts = gather_texts(encode_part(own), world);
  if (world.coord() == 0) {
    std::vector<Manifest> written;
    for (const std::string& text : texts) {
      auto part = decode_part(text);
      if (!part.ok()) {
        outcome = std::move(part).error();
        break;
      }
      written.push_back(*std::move(part));
    }
    if (outcome.ok())
      outcome = commit_step(root, {temp, path, content, options}, std::move(written));
    if (outcome.ok())
      outcome->seconds = static_cast<double>(monotonic_microseconds() - begin) * 1e-6;
    std::error_code code;
    if (!outcome.ok()) fs::remove_all(temp, code);
  }
  return share_outcome(std::move(outcome), path, world);
}

}  // namespace sx
