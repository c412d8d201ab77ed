#pragma once

#include "channel.h"
#include "error.h"
#include "json.h"
#include "options.h"
#include "role.h"

namespace kz {

/// Loads the role `options` ask for, says `ready` on `channel` and answers requests, one after another, until the input ends.
/// A request that fails is answered with an error and the next one is served. What comes back ends the process: nothing at the
/// end of input; LoadFailed and BadStream, already reported on `channel`; StreamClosed when nobody reads.
Status serve(const Options& options, Channel& channel);

/// What --version prints: one line of JSON.
Json version_info();

}  // namespace kz
