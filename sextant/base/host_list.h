#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sextant/base/result.h"

namespace sx {

/// Expands a Slurm host list: "node[001-003,007]" = node001 node002 node003 node007; several
/// bracket groups in one name multiply, the last one fastest. Errors: kCorrupt with the column
/// (from 1); kLimit above 65,536 hosts.
Result<std::vector<std::string>> expand_host_list(std::string_view list);

}  // namespace sx
