// A rank's own data files.
#include <fmt/format.h>

#include <set>
#include <utility>

#include "sextant/ckpt/commit.h"
#include "sextant/ckpt/safetensors.h"
#include "sextant/ckpt/save_plan.h"

namespace sx {
namespace {

constexpr char kFailed = '!';  // first letter of a rank's text that is an error: kind, message

Result<OwnPiece> make_piece(const TensorPart& part, const Region& region, std::int64_t begin) {
  const auto dtype = to_safetensors_dtype(part.values.scalar_type());
  if (!dtype) {
    return Error{ErrorKind::kInvalid,
                 fmt::format("tensor \"{}\": safetensors has no dtype for {}", part.name,
                             toString(part.values.scalar_type())),
                 ""};
  }
  const std::int64_t element = safetensors::size_bytes(*dtype);
  OwnPiece piece{part.name, part.shape, *dtype, region};
  if (region.is_whole(part.shape)) piece.region = Region::whole(part.shape);
  piece.bytes = static_cast<std::size_t>(region.num_elements() * element);
  if (piece.bytes > 0)
    piece.from = static_cast<const char*>(part.values.const_data_ptr()) + begin * element;
  piece.owner = part.values;
  return piece;
}

Result<std::vector<OwnPiece>> pieces_of(std::span<const TensorPart> parts) {
  std::vector<OwnPiece> pieces;
  for (const PlannedWrite& write : plan_writes(parts)) {
    const TensorPart& part = parts[write.part];
    // A share of a whole tensor is one range; of another box it is boxes.
    const bool range = part.region.is_whole(part.shape);
    std::int64_t at = write.begin;
    for (const Region& region :
         range ? std::vector<Region>{Region::flat(write.begin, write.end - write.begin)}
               : cut_region(part.region, write.begin, write.end)) {
      SX_TRY(OwnPiece piece, make_piece(part, region, at));
      pieces.push_back(std::move(piece));
      at += region.num_elements();
    }
  }
  for (const TensorPart& part : parts) {
    if (num_elements(part.shape) > 0 || part.copy != 0) continue;
    SX_TRY(OwnPiece piece, make_piece(part, Region::whole(part.shape), 0));
    pieces.push_back(std::move(piece));
  }
  return pieces;
}

Result<void> write_file(const fs::path& temp, const std::string& file,
                        std::span<const OwnPiece> own, const std::atomic<bool>* cancel,
                        Manifest& manifest) {
  if (own.empty()) return {};
  std::vector<DataPiece> pieces;
  std::vector<std::string> tensors;
  for (const OwnPiece& piece : own) {
    const std::int64_t element = safetensors::size_bytes(piece.dtype);
    pieces.push_back({entry_name(piece.tensor, piece.shape, piece.region), piece.dtype,
                      piece.region.size, piece.shape, piece.region,
                      [from = piece.from, element](std::int64_t first, std::int64_t count) {
                        return Result<std::string_view>(
                            {from + first * element, static_cast<std::size_t>(count * element)});
                      }});
    tensors.push_back(piece.tensor);
  }
  SX_TRY(const WrittenData written, write_data_file(temp / file, pieces, cancel));
  enter_written(file, pieces, tensors, written, manifest);
  return {};
}

Result<void> check_parts(std::span<const TensorPart> model, std::span<const TensorPart> optim) {
  std::set<std::string_view> names;
  for (const auto parts : {model, optim}) {
    for (const TensorPart& part : parts) {
      if (part.name.empty() || part.name.find('@') != std::string::npos)
        return Error{ErrorKind::kInvalid, fmt::format("tensor name \"{}\"", part.name), ""};
      if (!names.insert(part.name).second)
        return Error{ErrorKind::kInvalid, fmt::format("tensor \"{}\" twice", part.name), ""};
      if (!part.values.is_contiguous() || !part.values.is_cpu()) {
        return Error{ErrorKind::kInvalid,
                     fmt::format("tensor \"{}\" is not contiguous in host memory", part.name), ""};
      }
      if (part.region.num_elements() != part.values.numel()) {
        return Error{ErrorKind::kInvalid,
                     fmt::format("tensor \"{}\": {} values for {} elements", part.name,
                                 part.values.numel(), part.region.num_elements()),
                     ""};
      }
    }
  }
  return {};
}

}  // namespace

Result<OwnPieces> own_pieces(std::span<const TensorPart> model, std::span<const TensorPart> optim) {
  SX_TRY_VOID(check_parts(model, optim));
  OwnPieces pieces;
  SX_TRY(pieces.model, pieces_of(model));
  SX_TRY(pieces.optim, pieces_of(optim));
  return pieces;
}

void enter_written(const std::string& file, std::span<const DataPiece> pieces,
                   std::span<const std::string> tensors, const WrittenData& written,
                   Manifest& manifest) {
  manifest.files[file] = {written.bytes, written.xxh3};
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const auto [at, fresh] = manifest.tensors.try_emplace(
        tensors[i], StoredTensor{pieces[i].dtype, pieces[i].tensor_shape, 0, {}});
    StoredTensor& stored = at->second;
    const WrittenPiece& piece = written.pieces[i];
    if (piece.begin == piece.end) continue;  // a tensor without elements has no chunk
    Chunk chunk;
    static_cast<Region&>(chunk) = pieces[i].region;
    chunk.file = file;
    chunk.begin = piece.begin;
    chunk.end = piece.end;
    chunk.xxh3 = piece.xxh3;
    stored.chunks.push_back(std::move(chunk));
    stored.logical += piece.logical;
  }
}

Result<Manifest> write_pieces(const fs::path& temp, const OwnPieces& pieces, std::int64_t coord,
                              const std::atomic<bool>* cancel) {
  Manifest manifest;
  for (const auto& [kind, own] :
       {std::pair{"model", &pieces.model}, std::pair{"optim", &pieces.optim}}) {
    SX_TRY_VOID(
        write_file(temp, fmt::format("{}-{:05}.safetensors", kind, coord), *own, cancel, manifest));
  }
  return manifest;
}

std::string encode_part(const Result<Manifest>& written) {
  if (written.ok()) return format_manifest(*written);
  return fmt::format("{}{}{}", kFailed,
                     static_cast<char>('0' + static_cast<int>(written.error().kind)),
                     written.error().message);
}

bool is_failed_part(const std::string& text) { return text.size() >= 2 && text[0] == kFailed; }

Result<Manifest> decode_part(const std::string& text) {
  if (is_failed_part(text)) return Error{static_cast<ErrorKind>(text[1] - '0'), text.substr(2), ""};
  return parse_manifest_part(text);
}

}  // namespace sx
