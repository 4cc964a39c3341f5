#pragma once

#include <cstdint>
#include <string>

#include "sextant/crawl/attributes.h"
#include "sextant/crawl/policy.h"

namespace sx {

// What each rule counts, one function for each way a program does it. Names of attributes are those
// of the comparisons in policy.cpp. Lengths are in code points.

// Gopher's quality rules (arXiv 2112.11446, A.1): words, symbols, bullets, stop words.
void measure_gopher_paper(const PolicyText& page, Attributes& out);
void measure_gopher_datatrove(const PolicyText& page, Attributes& out);
void measure_gopher_dclm(const PolicyText& page, Attributes& out);
void measure_gopher_dolma(const PolicyText& page, Attributes& out);
void measure_gopher_cs336(const PolicyText& page, Attributes& out);
void measure_gopher_sextant(const PolicyText& page, Attributes& out);

// Repetition (table A1 of the same paper).
void measure_repetition_datatrove(const PolicyText& page, Attributes& out);
void measure_repetition_dolma(const PolicyText& page, Attributes& out);
void measure_repetition_sextant(const PolicyText& page, Attributes& out);

// C4 (arXiv 1910.10683) as datatrove applies it: lines are left out, then sentences counted.
std::string edit_c4_datatrove(const PolicyText& page, Attributes& out, std::uint64_t& edits);
std::string edit_c4_fineweb(const PolicyText& page, Attributes& out, std::uint64_t& edits);
void measure_c4_dolma(const PolicyText& page, Attributes& out);
void measure_c4_paragraphs(const PolicyText& page, Attributes& out);

// FineWeb's own rules (arXiv 2406.17557).
void measure_fineweb(const PolicyText& page, Attributes& out);
void measure_fineweb_any_script(const PolicyText& page, Attributes& out);

// RefinedWeb's line corrections (arXiv 2306.01116) as DCLM applies them.
std::string edit_refinedweb(const PolicyText& page, Attributes& out, std::uint64_t& edits);

}  // namespace sx
