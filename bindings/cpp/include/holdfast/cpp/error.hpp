// SPDX-License-Identifier: MIT
/// @file
/// What a call has to say when it does not succeed: a status, the engine's own number, and a text.
/// result<T> carries it without an exception, holdfast::error throws it, and std::error_code holds
/// the status alone.
#ifndef HOLDFAST_CPP_ERROR_HPP
#define HOLDFAST_CPP_ERROR_HPP

#include <holdfast/holdfast.h>
#include <holdfast/primitives.h>

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

/// @cond internal
// Without exceptions (-fno-exceptions) the forms with std::nothrow work; what would throw prints why, and aborts.
#ifdef __cpp_exceptions
#define HOLDFAST_TRY         try
#define HOLDFAST_CATCH(what) catch (what)
#else
#define HOLDFAST_TRY         if (true)
#define HOLDFAST_CATCH(what) else
#endif
/// @endcond

namespace holdfast
{

/// The statuses of the C library, with its numbers. The text of each is hf_status_text().
enum class status : int {
    ok = HF_OK,                   ///< It was done.
    busy = HF_BUSY,               ///< Another holder has it.
    timeout = HF_TIMEOUT,         ///< The deadline passed before it was granted.
    cancelled = HF_CANCELLED,     ///< A canceller, a stop token or close() ended the wait.
    mismatch = HF_MISMATCH,       ///< The name is in use as another kind or capacity.
    lost = HF_LOST,               ///< The lease is lost.
    not_found = HF_NOT_FOUND,     ///< There is no such thing.
    invalid = HF_INVALID,         ///< An argument is invalid; the text names it.
    config = HF_CONFIG,           ///< The URL of the store is bad.
    unsupported = HF_UNSUPPORTED, ///< This engine cannot do that.
    unavailable = HF_UNAVAILABLE, ///< The store cannot be reached.
    denied = HF_DENIED,           ///< The store denied access.
    unknown = HF_UNKNOWN,         ///< The store may or may not have done it.
    corrupt = HF_CORRUPT,         ///< The store's data is damaged.
    no_memory = HF_NO_MEMORY,     ///< Out of memory.
    forked = HF_FORKED,           ///< The handle belongs to the parent process.
    in_use = HF_IN_USE,           ///< It is still in use.
    too_short = HF_TOO_SHORT,     ///< It was granted with too little validity left, and given back.
    full = HF_FULL,               ///< The store is full.
    version = HF_VERSION,         ///< The store was made by another version.
    internal = HF_INTERNAL,       ///< An internal error.
    fenced = HF_FENCED,           ///< A newer token has already been used.
    deadlock = HF_DEADLOCK,       ///< Waiting for it would be a deadlock.
    changed = HF_CHANGED,         ///< It was changed in the meantime.
    overflow = HF_OVERFLOW,       ///< The result is out of range.
    broken = HF_BROKEN,           ///< A participant died.
    done = HF_DONE,               ///< It has been done already.
    yielded = HF_YIELDED          ///< It was given away, and is ours again.
};

/// The C name of a status, like "BUSY".
inline const char *status_name(status code) noexcept
{
    return hf_status_name(static_cast<hf_status>(code));
}

namespace detail
{

class category_type final : public std::error_category
{
  public:
    const char *name() const noexcept override
    {
        return "holdfast";
    }

    std::string message(int code) const override
    {
        return hf_status_text(static_cast<hf_status>(code));
    }

    // So that `code == std::errc::timed_out` says what a reader expects.
    std::error_condition default_error_condition(int code) const noexcept override
    {
        switch (static_cast<status>(code)) {
        case status::busy:
            return std::errc::device_or_resource_busy;
        case status::timeout:
            return std::errc::timed_out;
        case status::cancelled:
            return std::errc::operation_canceled;
        case status::invalid:
            return std::errc::invalid_argument;
        case status::unsupported:
            return std::errc::not_supported;
        case status::denied:
            return std::errc::permission_denied;
        case status::no_memory:
            return std::errc::not_enough_memory;
        case status::full:
            return std::errc::no_space_on_device;
        case status::deadlock:
            return std::errc::resource_deadlock_would_occur;
        case status::overflow:
            return std::errc::value_too_large;
        default:
            return { code, *this };
        }
    }
};

} // namespace detail

/// The category of Holdfast's statuses.
inline const std::error_category &category() noexcept
{
    static const detail::category_type instance;
    return instance;
}

/// A status as a std::error_code; found by std::error_code's own constructor.
inline std::error_code make_error_code(status code) noexcept
{
    return { static_cast<int>(code), category() };
}

/// Why a call did not succeed, as a value. The text never holds a password.
class failure
{
  public:
    /// Of what the C library has filled in.
    explicit failure(const hf_error &err)
        : failure(static_cast<holdfast::status>(err.status), err.text, err.native)
    {
    }

    /// Of its parts.
    failure(holdfast::status code, std::string text, int native = 0)
        : status_(code), native_(native), text_(std::move(text))
    {
    }

    /// What kind of failure it is.
    holdfast::status status() const noexcept
    {
        return status_;
    }

    /// The same, as a std::error_code.
    std::error_code code() const noexcept
    {
        return make_error_code(status_);
    }

    /// The engine's own number (errno for the embedded store), 0 if there is none.
    int native() const noexcept
    {
        return native_;
    }

    /// For people: "file:/srv/locks: acquire 'job': ...".
    const std::string &text() const noexcept
    {
        return text_;
    }

    /// Throw it as an exception of the type of its status.
    [[noreturn]] void raise() const;

  private:
    holdfast::status status_;
    int native_;
    std::string text_;
};

/// What throwing forms throw. code() has the status too, in category().
class error : public std::system_error
{
  public:
    /// Of a failure.
    explicit error(holdfast::failure why)
        : std::system_error(why.code(), why.text()), why_(std::move(why))
    {
    }

    /// What kind of failure it is.
    holdfast::status status() const noexcept
    {
        return why_.status();
    }

    /// The engine's own number, 0 if there is none.
    int native() const noexcept
    {
        return why_.native();
    }

    /// The library's text, which says more than that of the status.
    const char *what() const noexcept override
    {
        return why_.text().c_str();
    }

    /// The same text.
    const std::string &text() const noexcept
    {
        return why_.text();
    }

    /// All of it as a value.
    const holdfast::failure &failure() const noexcept
    {
        return why_;
    }

  private:
    holdfast::failure why_;
};

/// One type for each status, all of them derived from holdfast::error.
template <status Code> class status_error : public error
{
  public:
    using error::error;
};

using busy_error = status_error<status::busy>;               ///< Another holder has it.
using timeout_error = status_error<status::timeout>;         ///< The deadline passed.
using cancelled_error = status_error<status::cancelled>;     ///< The wait was cancelled.
using mismatch_error = status_error<status::mismatch>;       ///< Another kind or capacity.
using lost_error = status_error<status::lost>;               ///< The lease is lost.
using not_found_error = status_error<status::not_found>;     ///< There is no such thing.
using invalid_error = status_error<status::invalid>;         ///< An argument is invalid.
using config_error = status_error<status::config>;           ///< The URL is bad.
using unsupported_error = status_error<status::unsupported>; ///< The engine cannot do that.
using unavailable_error = status_error<status::unavailable>; ///< The store cannot be reached.
using denied_error = status_error<status::denied>;           ///< The store denied access.
using unknown_error = status_error<status::unknown>;         ///< The outcome is unknown.
using forked_error = status_error<status::forked>;           ///< A handle of the parent process.
using in_use_error = status_error<status::in_use>;           ///< It is still in use.
using fenced_error = status_error<status::fenced>;           ///< A newer token has been used.
using deadlock_error = status_error<status::deadlock>;       ///< It would be a deadlock.
using broken_error = status_error<status::broken>;           ///< A participant died.

inline void failure::raise() const
{
#ifndef __cpp_exceptions
    std::fprintf(stderr, "holdfast: %s\n", error(*this).what());
    std::abort();
#else
    switch (status_) {
/// @cond internal
#define HOLDFAST_RAISE(name) \
    case status::name:       \
        throw status_error<status::name>(*this);
        HOLDFAST_RAISE(busy)
        HOLDFAST_RAISE(timeout)
        HOLDFAST_RAISE(cancelled)
        HOLDFAST_RAISE(mismatch)
        HOLDFAST_RAISE(lost)
        HOLDFAST_RAISE(not_found)
        HOLDFAST_RAISE(invalid)
        HOLDFAST_RAISE(config)
        HOLDFAST_RAISE(unsupported)
        HOLDFAST_RAISE(unavailable)
        HOLDFAST_RAISE(denied)
        HOLDFAST_RAISE(unknown)
        HOLDFAST_RAISE(forked)
        HOLDFAST_RAISE(in_use)
        HOLDFAST_RAISE(fenced)
        HOLDFAST_RAISE(deadlock)
        HOLDFAST_RAISE(broken)
#undef HOLDFAST_RAISE
        /// @endcond
    default:
        throw error(*this);
    }
#endif
}

/// A value, or the reason why there is none: what the forms with std::nothrow return.
template <typename T> class [[nodiscard]] result
{
  public:
    /// A success.
    result(T value) : value_(std::move(value))
    {
    }

    /// A failure.
    result(failure why) : why_(std::move(why))
    {
    }

    /// Was it a success?
    explicit operator bool() const noexcept
    {
        return value_.has_value();
    }

    /// Was it a success?
    bool has_value() const noexcept
    {
        return value_.has_value();
    }

    /// The status; status::ok if there is a value.
    holdfast::status status() const noexcept
    {
        return why_ ? why_->status() : holdfast::status::ok;
    }

    /// The value; throws holdfast::error if there is none.
    T &value() &
    {
        check();
        return *value_;
    }

    /// The value, moved out; throws holdfast::error if there is none.
    T value() &&
    {
        check();
        return std::move(*value_);
    }

    /// The value, which must be there.
    T &operator*() noexcept
    {
        return *value_;
    }
    /// As above.
    const T &operator*() const noexcept
    {
        return *value_;
    }

    /// The value, which must be there.
    T *operator->() noexcept
    {
        return &*value_;
    }
    /// As above.
    const T *operator->() const noexcept
    {
        return &*value_;
    }

    /// Why there is no value; only if there is none.
    const failure &error() const noexcept
    {
        return *why_;
    }

  private:
    void check() const
    {
        if (why_)
            why_->raise();
    }

    std::optional<T> value_;
    std::optional<failure> why_;
};

/// Success or the reason why not, of a call that returns nothing.
template <> class [[nodiscard]] result<void>
{
  public:
    /// A success.
    result() = default;

    /// A failure.
    result(failure why) : why_(std::move(why))
    {
    }

    /// Was it a success?
    explicit operator bool() const noexcept
    {
        return !why_;
    }

    /// Was it a success?
    bool has_value() const noexcept
    {
        return !why_;
    }

    /// The status; status::ok if it was a success.
    holdfast::status status() const noexcept
    {
        return why_ ? why_->status() : holdfast::status::ok;
    }

    /// Throws holdfast::error if it was none.
    void value() const
    {
        if (why_)
            why_->raise();
    }

    /// Why it was none; only then.
    const failure &error() const noexcept
    {
        return *why_;
    }

  private:
    std::optional<failure> why_;
};

} // namespace holdfast

/// holdfast::status converts to std::error_code.
template <> struct std::is_error_code_enum<holdfast::status> : std::true_type {
};

#endif
