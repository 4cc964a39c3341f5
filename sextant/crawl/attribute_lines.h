#pragma once

#include <string>
#include <string_view>

#include "sextant/base/hash.h"
#include "sextant/base/result.h"
#include "sextant/crawl/policy.h"

namespace sx {

/// One line of an attribute file in Dolma's form: {"id": ..., "attributes": {"<group>__<name>":
/// [[0, length, value]]}} with one group a rule's preset ("gopher_quality_datatrove") and the
/// document's length in code points. Holds what was counted on the text as it is written; counts of
/// earlier forms of it are left out.
std::string to_attribute_line(const Hash128& id, const PolicyTrail& trail, std::string_view text);

/// What such a line holds of this program's presets; groups and names of others are passed over.
/// Errors: kCorrupt when it is no such line or belongs to another document.
Result<PolicyTrail> parse_attribute_line(std::string_view line, std::string_view id);

/// Counts of every preset that measures, for the text as it is, added to what is known.
void measure_all(const PolicyText& page, PolicyTrail& trail);

}  // namespace sx
