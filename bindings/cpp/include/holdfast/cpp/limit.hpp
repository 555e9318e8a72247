// SPDX-License-Identifier: MIT
/// @file
/// Rate limits.
#ifndef HOLDFAST_CPP_LIMIT_HPP
#define HOLDFAST_CPP_LIMIT_HPP

#include <holdfast/cpp/cells.hpp>

namespace holdfast
{

/// How a limit counts.
enum class limit_algorithm {
    fixed = HF_LIMIT_ALGORITHM_FIXED,     ///< A window begins with its first call.
    sliding = HF_LIMIT_ALGORITHM_SLIDING, ///< Never more than `rate` in any interval.
    bucket = HF_LIMIT_ALGORITHM_BUCKET    ///< `burst` at once, refilled at `rate`.
};

/// The rule of a limit: the same for all that share it.
struct limit_rule {
    limit_algorithm algorithm = limit_algorithm::fixed; ///< How it counts.
    std::uint32_t rate = 0;                             ///< Permits in `per`.
    time_span per;                                      ///< The interval.
    std::uint32_t burst = 0;                            ///< Bucket: the most at once; 0: `rate`.
};

/// What a limit has said.
struct limit_state {
    bool granted = false;               ///< take(): the permits were taken.
    std::uint64_t left = 0;             ///< Permits that could be taken at once.
    std::chrono::milliseconds refill{}; ///< Until all are available again.
    std::chrono::milliseconds waited{}; ///< How long the call slept.
    std::chrono::milliseconds retry{};  ///< Refused: the wait that would have been enough.
    std::chrono::microseconds at{};     ///< Granted: when, since 1970, by the store's clock.
    limit_rule rule;                    ///< The rule in force.
    bool is_set = false;                ///< It was set by limit::set().
};

/// A rate limit, which exists by being used. Only the store's clock counts.
class limit : public named
{
  public:
    /// The limit of this name and rule.
    limit(const store &where, std::string name, limit_rule rule)
        : named(where, std::move(name)), rule_(rule)
    {
    }

    /// Take permits, all or none. Returns a limit_state; refused because it would have to wait
    /// longer than `wait`: `granted` is false. Waits for ever unless told otherwise.
    template <typename Mode = throwing_t>
    answer<limit_state, Mode> take(std::uint32_t permits = 1, wait_time wait = forever,
                                   canceller *cancel = nullptr, Mode mode = {})
    {
        hf_limit_request request = asking(rule_);
        request.permits = permits;
        request.wait_ms = wait.ms();
        request.cancel = detail::native(cancel);
        return make<detail::answers<HF_BUSY, HF_TIMEOUT>>(std::move(mode), request, hf_limit_take,
                                                          hf_limit_take_async);
    }

    /// Take permits if that needs no wait. Returns a limit_state.
    template <typename Mode = throwing_t>
    answer<limit_state, Mode> try_take(std::uint32_t permits = 1, Mode mode = {})
    {
        return take(permits, no_wait, nullptr, std::move(mode));
    }

    /// What is left of it. Takes nothing.
    template <typename Mode = throwing_t> answer<limit_state, Mode> get(Mode mode = {}) const
    {
        return make<detail::answers<>>(std::move(mode), asking(rule_), hf_limit_get,
                                       hf_limit_get_async);
    }

    /// Set the rule for all that share the limit, whatever they say; with rate 0 until the next
    /// request brings its own.
    template <typename Mode = throwing_t>
    answer<limit_state, Mode> set(const limit_rule &rule, Mode mode = {})
    {
        return make<detail::answers<>>(std::move(mode), asking(rule), hf_limit_set,
                                       hf_limit_set_async);
    }

  private:
    hf_limit_request asking(const limit_rule &rule) const
    {
        hf_limit_request request = HF_LIMIT_REQUEST_INIT;
        request.name = name_.data();
        request.name_len = name_.size();
        request.algorithm = static_cast<hf_limit_algorithm>(rule.algorithm);
        request.rate = rule.rate;
        request.per_ms = rule.per.ms();
        request.burst = rule.burst;
        return request;
    }

    template <typename Answers, typename Mode, typename Call, typename Begin>
    answer<limit_state, Mode> make(Mode mode, const hf_limit_request &request, Call call,
                                   Begin begin) const
    {
        hf_limit_result found = HF_LIMIT_RESULT_INIT;
        return detail::run<limit_state, Answers>(
            std::move(mode),
            [&](hf_result &raw, hf_error *err) {
                raw.limit = &found;
                return call(store_, &request, &found, err);
            },
            [&](auto... rest) { return begin(store_, &request, rest...); },
            [](const hf_result &raw) {
                return raw.limit ? state_of(*raw.limit, raw.status == HF_OK) : limit_state();
            });
    }

    static limit_state state_of(const hf_limit_result &raw, bool granted)
    {
        limit_state state;

        state.granted = granted;
        state.left = raw.left;
        state.refill = std::chrono::milliseconds(raw.refill_ms);
        state.waited = std::chrono::milliseconds(raw.waited_ms);
        state.retry = std::chrono::milliseconds(raw.retry_ms);
        state.at = std::chrono::microseconds(raw.at_us);
        state.rule = { static_cast<limit_algorithm>(raw.algorithm), raw.rate,
                       std::chrono::milliseconds(raw.per_ms), raw.burst };
        state.is_set = raw.is_set;
        return state;
    }

    limit_rule rule_;
};

} // namespace holdfast

#endif
