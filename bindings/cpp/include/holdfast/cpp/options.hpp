// SPDX-License-Identifier: MIT
/// @file
/// What is asked for: durations, kinds, the options of an acquire, cancellers and events.
#ifndef HOLDFAST_CPP_OPTIONS_HPP
#define HOLDFAST_CPP_OPTIONS_HPP

#include <holdfast/cpp/error.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#if __has_include(<stop_token>)
#include <stop_token>
#endif

namespace holdfast
{

namespace detail
{

// Up to whole milliseconds: what is not zero never becomes zero. -1: it is negative.
template <typename Rep, typename Period>
constexpr std::int64_t to_ms(std::chrono::duration<Rep, Period> duration)
{
    const long double exact = std::chrono::duration<long double, std::milli>(duration).count();

    if (!(exact > 0))
        return exact < 0 ? -1 : 0;
    if (exact >= static_cast<long double>(INT64_MAX))
        return INT64_MAX;
    const auto whole = static_cast<std::int64_t>(exact);
    return static_cast<long double>(whole) < exact ? whole + 1 : whole;
}

// The library's -1 or INT64_MAX, "no limit", is a limit that never comes.
constexpr std::chrono::milliseconds from_ms(std::int64_t ms)
{
    return ms < 0 || ms == INT64_MAX ? std::chrono::milliseconds::max()
                                     : std::chrono::milliseconds(ms);
}

} // namespace detail

/// A length of time for the library, made of any std::chrono duration; rounded up to a millisecond.
class time_span
{
  public:
    /// Zero: the default of whatever it is for.
    constexpr time_span() = default;

    /// Of a duration.
    template <typename Rep, typename Period>
    constexpr time_span(std::chrono::duration<Rep, Period> duration) : ms_(detail::to_ms(duration))
    {
    }

    /// In milliseconds, as the C library takes it.
    constexpr std::int64_t ms() const noexcept
    {
        return ms_;
    }

  private:
    std::int64_t ms_ = 0;
};

/// How long to wait: `forever`, `no_wait`, or any std::chrono duration. A duration that is not
/// positive tries once, as with the locks of the standard library.
class wait_time
{
  public:
    /// For ever.
    constexpr wait_time() = default;

    /// At most this long.
    template <typename Rep, typename Period>
    constexpr wait_time(std::chrono::duration<Rep, Period> duration)
        : ms_(limited(detail::to_ms(duration)))
    {
    }

    /// In milliseconds, as the C library takes it; HF_FOREVER is -1.
    constexpr std::int64_t ms() const noexcept
    {
        return ms_;
    }

  private:
    static constexpr std::int64_t limited(std::int64_t ms)
    {
        if (ms < 0)
            return 0;
        return ms > HF_DURATION_MAX_MS ? HF_DURATION_MAX_MS : ms;
    }

    std::int64_t ms_ = HF_FOREVER;
};

inline constexpr wait_time forever{};                               ///< Wait without a limit.
inline constexpr wait_time no_wait{ std::chrono::seconds::zero() }; ///< Try once.
/// options::linger: do not linger, whatever the URL says.
inline constexpr time_span linger_never{ std::chrono::milliseconds(HF_LINGER_NEVER) };

/// What a name is used as.
enum class kind {
    mutex = HF_KIND_MUTEX,            ///< One holder.
    shared = HF_KIND_SHARED,          ///< Read-write lock: a reader.
    exclusive = HF_KIND_EXCLUSIVE,    ///< Read-write lock: the writer.
    semaphore = HF_KIND_SEMAPHORE,    ///< `capacity` permits.
    upgradeable = HF_KIND_UPGRADEABLE ///< Read-write lock: the reader that may become the writer.
};

/// What may happen to a lease.
enum class event_kind {
    at_risk = HF_EVENT_AT_RISK,   ///< A renewal was not confirmed.
    held = HF_EVENT_HELD,         ///< The next one was.
    lost = HF_EVENT_LOST,         ///< It is lost. The last event of a lease.
    wanted = HF_EVENT_WANTED,     ///< Others wait for it (options::watch).
    unwanted = HF_EVENT_UNWANTED, ///< No longer.
    asked = HF_EVENT_ASKED        ///< store::ask(); `text` is a stranger's, with any bytes in it.
};

/// One event of a lease. `text` is good during the callback only.
struct event {
    event_kind kind;       ///< What has happened.
    std::string_view text; ///< Why, in words.
    hf_lease *lease;       ///< The C handle of the lease; for hf_lease_token() and so on.
};

/// Called from a thread of the library, or by driver::process() if the lease was acquired
/// asynchronously; perhaps before the acquire has returned. It may call anything but
/// store::close(). An exception out of it ends the program, as one out of a std::thread does.
using event_handler = std::function<void(const event &)>;

/// Ends the waiting of every request that names it. Fired once, it stays fired. It must outlive
/// the requests that name it.
class canceller
{
  public:
    /// A new one; throws holdfast::error without memory.
    canceller()
    {
        hf_status status = hf_cancel_open(&handle_);
        if (status != HF_OK)
            failure(static_cast<holdfast::status>(status), "a canceller").raise();
    }

    canceller(const canceller &) = delete;
    canceller &operator=(const canceller &) = delete;

    ~canceller()
    {
        (void)hf_cancel_close(handle_);
    }

    /// End the waiting. Any thread may call it; not a signal handler.
    void fire() noexcept
    {
        (void)hf_cancel_fire(handle_);
    }

    /// The C handle.
    hf_cancel *native() const noexcept
    {
        return handle_;
    }

  private:
    hf_cancel *handle_ = nullptr;
};

#if defined(__cpp_lib_jthread)
/// A canceller that a std::stop_token fires (C++20), for blocking calls.
class stop_canceller : public canceller
{
  public:
    /// Fired when a stop is requested of `token`; at once if it has been.
    explicit stop_canceller(std::stop_token token) : callback_(std::move(token), firing{ this })
    {
    }

  private:
    struct firing {
        canceller *target;
        void operator()() const noexcept
        {
            target->fire();
        }
    };
    std::stop_callback<firing> callback_;
};
#endif

/// How to open a store.
struct open_options {
    time_span wait;        ///< Give up opening after this; zero: 5 s.
    std::string label;     ///< For people: who we are; empty: host, pid, user, program.
    bool existing = false; ///< Use only what exists: nothing is created.
    bool once = false;     ///< Each address of the server is tried once.
    bool no_wait = false;  ///< Do not wait for the server.
};

/// The options of an acquire. Every field has a default.
///
/// It is no aggregate on purpose: GCC 12 makes broken copies of aggregates that are temporaries of
/// a co_await expression. For the same reason others here have a constructor.
struct options {
    options() = default;

    /// Only with a wait: `store.acquire("job", 5s)`.
    options(wait_time limit) : wait(limit)
    {
    }

    /// Only with a wait: `store.acquire("job", 5s)`.
    template <typename Rep, typename Period>
    options(std::chrono::duration<Rep, Period> limit) : wait(limit)
    {
    }

    wait_time wait;                              ///< How long to wait; default: for ever.
    time_span ttl;                               ///< Zero: the engine's default.
    holdfast::kind kind = holdfast::kind::mutex; ///< What the name is used as.
    std::uint32_t capacity = 0;                  ///< Semaphores: how many permits there are.
    std::uint32_t permits = 0;                   ///< Semaphores: how many to take; 0 means 1.
    time_span max_hold;                          ///< End the lease after this; zero: no.
    time_span min_valid;         ///< A grant with less validity left is given back: too_short.
    time_span min_hold;          ///< The name stays held for this long, even if released before.
    time_span lock_delay;        ///< After an unclean loss the name stays closed this long.
    time_span linger;            ///< How long the released lease may stay with this process.
    std::string label;           ///< For people; empty: that of the store.
    std::uint64_t scope = 0;     ///< Identity for `reentrant` and deadlocks; 0: the calling thread.
    std::string session;         ///< lease::session() of the process that we work for.
    canceller *cancel = nullptr; ///< Ends the waiting.
    event_handler on_event;      ///< Hears what happens to the lease.
    bool barge = false;          ///< May overtake waiters.
    bool reentrant = false;      ///< The same thread or scope may take it again.
    bool no_renew = false;       ///< A lease with a ttl is not renewed by itself.
    bool detached = false;       ///< It outlives this process: lease::export_text().
    bool strict = false;         ///< First come, first served, across all processes.
    bool no_deadlock_check = false; ///< Another thread will release it.
    bool watch = false;             ///< The holder learns that others wait.
    bool numbered = false;          ///< Semaphores: each permit has a number.
};

namespace detail
{

inline std::uint64_t flags_of(const options &o) noexcept
{
    return (o.barge ? HF_FLAG_BARGE : 0) | (o.reentrant ? HF_FLAG_REENTRANT : 0) |
           (o.no_renew ? HF_FLAG_NO_RENEW : 0) | (o.detached ? HF_FLAG_DETACHED : 0) |
           (o.strict ? HF_FLAG_STRICT : 0) | (o.no_deadlock_check ? HF_FLAG_NO_DEADLOCK_CHECK : 0) |
           (o.watch ? HF_FLAG_WATCH : 0) | (o.numbered ? HF_FLAG_NUMBERED : 0);
}

inline const char *text_or_null(const std::string &text) noexcept
{
    return text.empty() ? nullptr : text.c_str();
}

inline hf_cancel *native(canceller *cancel) noexcept
{
    return cancel ? cancel->native() : nullptr;
}

} // namespace detail

} // namespace holdfast

#endif
