#include "sextant/crawl/verdict.h"

namespace sx {

const char* to_string(Reason reason) {
  switch (reason) {
#define SX_REASON_TEXT(name, text, meaning) \
  case Reason::name: return text;
    SX_CRAWL_REASONS(SX_REASON_TEXT)
#undef SX_REASON_TEXT
    default: return "kept";
  }
}

const char* meaning(Reason reason) {
  switch (reason) {
#define SX_REASON_MEANING(name, text, meaning) \
  case Reason::name: return meaning;
    SX_CRAWL_REASONS(SX_REASON_MEANING)
#undef SX_REASON_MEANING
    default: return "became a document";
  }
}

}  // namespace sx
