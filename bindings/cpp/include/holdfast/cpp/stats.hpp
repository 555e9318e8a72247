// SPDX-License-Identifier: MIT
/// @file
/// What this process has done with a store, as numbers.
#ifndef HOLDFAST_CPP_STATS_HPP
#define HOLDFAST_CPP_STATS_HPP

#include <holdfast/cpp/options.hpp>
#include <holdfast/observe.h>

#include <map>

namespace holdfast
{

/// Durations, counted by their length. Bucket 0 counts those below 1 ms, bucket i those of at least
/// 2^(i-1) and less than 2^i ms, and the last one all longer ones.
class histogram
{
  public:
    /// A copy of what the C library counted.
    explicit histogram(const hf_histogram &raw = {}) : raw_(raw)
    {
    }

    /// How many durations there are.
    std::uint64_t count() const noexcept
    {
        return raw_.count;
    }

    /// Their sum.
    std::chrono::milliseconds sum() const noexcept
    {
        return std::chrono::milliseconds(raw_.sum_ms);
    }

    /// How many buckets there are.
    static constexpr std::size_t size() noexcept
    {
        return HF_HISTOGRAM_BUCKETS;
    }

    /// How many durations are in a bucket; 0 behind the last one.
    std::uint64_t operator[](std::size_t bucket) const noexcept
    {
        return bucket < size() ? raw_.buckets[bucket] : 0;
    }

    /// The upper bound of a bucket; max(): none, which is so for the last one.
    static std::chrono::milliseconds bound(std::size_t bucket) noexcept
    {
        return detail::from_ms(hf_histogram_bound_ms(bucket));
    }

    /// The bound below which `share` of the durations lies (0.5: the median). Zero: there are none.
    std::chrono::milliseconds quantile(double share) const noexcept
    {
        return detail::from_ms(hf_histogram_quantile_ms(&raw_, share));
    }

  private:
    hf_histogram raw_;
};

/// What this process has done with a store since it was opened. Every number but `held` only grows.
struct store_stats {
    std::uint64_t granted = 0;         ///< Acquisitions that were granted.
    std::uint64_t busy = 0;            ///< Tries that found the name taken.
    std::uint64_t timeouts = 0;        ///< Waits that were too long.
    std::uint64_t cancelled = 0;       ///< Waits that were cancelled.
    std::uint64_t deadlocks = 0;       ///< Acquisitions that ended with status::deadlock.
    std::uint64_t unknown = 0;         ///< With status::unknown: settled in the background.
    std::uint64_t failed = 0;          ///< With any other status.
    std::uint64_t reentries = 0;       ///< One hold more of what was held; not in `granted`.
    std::uint64_t handovers = 0;       ///< Granted by the store, after a wait there.
    std::uint64_t passes = 0;          ///< Granted by a thread of this process that released it.
    std::uint64_t lingered = 0;        ///< It had stayed with the process: options::linger.
    histogram waits;                   ///< Of granted acquisitions.
    std::uint64_t held = 0;            ///< Held now.
    histogram holds;                   ///< Of holds that have ended, lost ones too.
    std::uint64_t renewals = 0;        ///< That were confirmed.
    std::uint64_t renewals_failed = 0; ///< That were refused, or not confirmed.
    std::map<std::string, std::uint64_t> losses; ///< By reason: "expired", "broken", ...
    std::uint64_t releases_unknown = 0;          ///< Releases that are settled in the background.
    std::uint64_t reconnects = 0;                ///< Connections that were made again.
    std::uint64_t commands = 0;                  ///< Requests that were sent to servers.
};

namespace detail
{

inline std::map<std::string, std::uint64_t> losses_of(const hf_stats &raw)
{
    std::map<std::string, std::uint64_t> losses;

    // Reasons are appended only. Those that this library does not know come last, and have one name.
    for (int i = HF_LOSS_NONE + 1; i < HF_LOSSES_MAX; i++) {
        const std::string name = hf_loss_name(static_cast<hf_loss>(i));
        if (name == "unknown")
            break;
        losses[name] = raw.losses[i];
    }
    return losses;
}

inline store_stats stats_of(const hf_stats &raw)
{
    store_stats s;

    s.granted = raw.granted;
    s.busy = raw.busy;
    s.timeouts = raw.timeouts;
    s.cancelled = raw.cancelled;
    s.deadlocks = raw.deadlocks;
    s.unknown = raw.unknown;
    s.failed = raw.failed;
    s.reentries = raw.reentries;
    s.handovers = raw.handovers;
    s.passes = raw.passes;
    s.lingered = raw.lingered;
    s.waits = histogram(raw.waits);
    s.held = raw.held;
    s.holds = histogram(raw.holds);
    s.renewals = raw.renewals;
    s.renewals_failed = raw.renewals_failed;
    s.losses = losses_of(raw);
    s.releases_unknown = raw.releases_unknown;
    s.reconnects = raw.reconnects;
    s.commands = raw.commands;
    return s;
}

} // namespace detail

} // namespace holdfast

#endif
