#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace sx {

/// Memory of one page: blocks are handed out from front to back and all given back at once by
/// `reset()`, which keeps the first blocks for the next page. Large pieces get their own
/// allocation, with room to grow when they are resized. Not thread-safe.
class HtmlArena {
 public:
  HtmlArena();
  ~HtmlArena();
  HtmlArena(const HtmlArena&) = delete;
  HtmlArena& operator=(const HtmlArena&) = delete;

  void* allocate(std::size_t bytes);  ///< aligned to 16; nullptr when the system has none
  void* reallocate(void* piece, std::size_t bytes);
  void reset();
  /// Bytes handed out since the last reset (pieces that were resized count at their new size as
  /// well).
  std::size_t used_bytes() const { return used_; }

  /// While a Scope lives, allocations of lexbor on this thread go to its arena and lexbor's `free`
  /// does nothing; outside one they go to the C library. Scopes nest.
  class Scope {
   public:
    explicit Scope(HtmlArena& arena);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    HtmlArena* outer_;
  };

 private:
  struct Header;
  struct Block {
    std::unique_ptr<std::byte[]> data;
    std::size_t size = 0;
  };
  std::vector<Block> blocks_;
  std::size_t block_index_ = 0;
  std::size_t block_pos_ = 0;
  std::vector<Header*> large_;
  std::size_t used_ = 0;
};

}  // namespace sx
