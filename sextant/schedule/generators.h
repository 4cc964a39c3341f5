#pragma once

// The generators behind make_schedule(), which has checked the request.

#include "sextant/schedule/schedule.h"

namespace sx::detail {

Schedule make_gpipe(const ScheduleRequest& request);
Schedule make_one_f_one_b(const ScheduleRequest& request);
Schedule make_interleaved(const ScheduleRequest& request);
Schedule make_zb_h1(const ScheduleRequest& request);
Schedule make_zb_h2(const ScheduleRequest& request);
Schedule make_zb_v(const ScheduleRequest& request);
Schedule make_v_half(const ScheduleRequest& request);
Schedule make_v_min(const ScheduleRequest& request);
Schedule make_dualpipe(const ScheduleRequest& request);
Schedule make_dualpipev(const ScheduleRequest& request);

/// An empty schedule of the request's size, with a list for every rank.
Schedule empty_schedule(const ScheduleRequest& request, Placement placement, std::int32_t chunks);

/// Orders by list scheduling with F, I and W of equal length: at each instant every free rank takes
/// the best ready op, I before F before W, the lowest microbatch first, except that an F of a later
/// stage goes before one of an earlier stage. F is ready while fewer than `cap` activations live on
/// the rank; with two stages a rank, F of the first one needs one more free, so that the second can
/// always go on.
void list_schedule(Schedule& schedule, std::int32_t cap);

}  // namespace sx::detail
