#pragma once

#include "sextant/base/fs.h"
#include "sextant/base/result.h"
#include "sextant/crawl/shard_runner.h"

namespace sx {

/// Runs the steps behind extraction - policy, personal data, deduplication - of `options` over the
/// documents and attributes that an earlier run left in `run`, and writes as that run would have:
/// the archive is not read. Rules whose counts are stored for the text as it is are not measured
/// again.
///
/// A replay of a run that dropped and changed nothing behind extraction (policy none, pii off,
/// no deduplication) gives the bytes of a run from the archive with the same options.
/// Errors: kNotFound when `run` holds no documents; kCorrupt for documents this program did not
/// write, or attributes of other documents.
Result<CrawlSummary> run_replay(const fs::path& run, const CrawlOptions& options,
                                const fs::path& folder);

}  // namespace sx
