// SPDX-License-Identifier: MIT
/// @file
/// How calls are made. Every call is written once, as three functions: the blocking C call, the C
/// call that begins it, and what makes the C++ value of an hf_result. The last argument of the
/// method, its mode, says which form is meant:
///
///   (nothing)       block, and throw holdfast::error
///   std::nothrow    block, and return a result<T>
///   a callable      begin; it is called with a result<T>, by driver::process(); returns an operation
///   holdfast::async begin; returns something to co_await (C++20; async.hpp)
#ifndef HOLDFAST_CPP_CALL_HPP
#define HOLDFAST_CPP_CALL_HPP

#include <holdfast/cpp/options.hpp>

#include <cstring>
#include <memory>
#include <new>
#include <type_traits>

namespace holdfast
{

/// The mode of a call that says nothing: block, and throw holdfast::error.
struct throwing_t {
};

/// A call that was begun with a callback.
class operation
{
  public:
    /// None.
    operation() = default;

    /// Of a C handle.
    explicit operation(hf_op *handle) noexcept : handle_(handle)
    {
    }

    /// Ask for an early end. The callback still comes: with status::cancelled, or with another
    /// answer if it was too late. Without effect once the callback was called.
    void cancel() noexcept
    {
        if (handle_)
            (void)hf_op_cancel(handle_);
    }

  private:
    hf_op *handle_ = nullptr;
};

namespace detail
{

// The statuses of which a call makes a value.
template <hf_status... More> struct answers {
    static constexpr bool has(hf_status status) noexcept
    {
        return status == HF_OK || (false || ... || (status == More));
    }
};

inline failure failure_of(const hf_result &raw)
{
    if (raw.error && raw.error->status == raw.status)
        return failure(*raw.error);
    return { static_cast<status>(raw.status), hf_status_text(raw.status) };
}

// Some have something to do also when the call has failed.
template <typename Take, typename = void> struct hears_refusal : std::false_type {
};
template <typename Take>
struct hears_refusal<
    Take, std::void_t<decltype(std::declval<Take &>().refused(std::declval<const hf_result &>()))>>
    : std::true_type {
};

template <typename T, typename Answers, typename Take>
result<T> value_of(const hf_result &raw, Take &take)
{
    if (!Answers::has(raw.status)) {
        if constexpr (hears_refusal<Take>::value)
            take.refused(raw);
        return failure_of(raw);
    }
    if constexpr (std::is_same_v<decltype(take(raw)), result<T>>) {
        return take(raw);
    } else if constexpr (std::is_void_v<T>) {
        take(raw);
        return {};
    } else {
        return take(raw);
    }
}

// Within a callback of the library there is nobody to throw at.
template <typename T, typename Answers, typename Take>
result<T> value_in_callback(const hf_result &raw, Take &take)
{
    HOLDFAST_TRY
    {
        return value_of<T, Answers>(raw, take);
    }
    HOLDFAST_CATCH(const std::bad_alloc &)
    {
        return failure(status::no_memory, "");
    }
}

template <typename T, typename Answers, typename Call, typename Take>
result<T> block(Call &call, Take &take)
{
    hf_result raw{};
    hf_error err;

    err.status = HF_OK; // some calls take no hf_error
    raw.error = &err;
    raw.status = call(raw, &err);
    return value_of<T, Answers>(raw, take);
}

// A call that was begun, until `done` comes.
template <typename T, typename Answers, typename Function, typename Take> struct callback_call {
    Function function;
    Take take;

    static void done(const hf_result *raw, void *arg) noexcept
    {
        std::unique_ptr<callback_call> self(static_cast<callback_call *>(arg));
        self->function(value_in_callback<T, Answers>(*raw, self->take));
    }
};

// Begins a call in the mode Mode; async.hpp has another one.
template <typename Mode> struct starter {
    template <typename> using returned = operation;

    template <typename T, typename Answers, typename Begin, typename Take>
    static operation start(Mode mode, Begin &begin, Take take)
    {
        static_assert(std::is_invocable_v<Mode &, result<T>>,
                      "the last argument is std::nothrow, holdfast::async, or takes a result<T>");
        using call_type = callback_call<T, Answers, Mode, Take>;
        auto call = std::unique_ptr<call_type>(new call_type{ std::move(mode), std::move(take) });
        hf_op *op = nullptr;
        hf_error err;

        if (begin(&call_type::done, static_cast<void *>(call.get()), &op, &err) != HF_OK)
            failure(err).raise();
        (void)call.release(); // done() has it
        return operation(op);
    }
};

template <typename T, typename Mode> struct answer_of {
    using type = typename starter<Mode>::template returned<T>;
};
template <typename T> struct answer_of<T, throwing_t> {
    using type = T;
};
template <typename T> struct answer_of<T, std::nothrow_t> {
    using type = result<T>;
};

} // namespace detail

/// What a call returns: T, a result<T>, an operation or an awaitable<T>, as its mode says.
template <typename T, typename Mode> using answer = typename detail::answer_of<T, Mode>::type;

namespace detail
{

// call(hf_result &, hf_error *), begin(done, arg, ret_op, err), take(const hf_result &) -> T
template <typename T, typename Answers = answers<>, typename Mode, typename Call, typename Begin,
          typename Take>
answer<T, Mode> run(Mode mode, Call &&call, Begin &&begin, Take &&take)
{
    if constexpr (std::is_same_v<Mode, throwing_t>) {
        (void)mode;
        (void)begin;
        return block<T, Answers>(call, take).value();
    } else if constexpr (std::is_same_v<Mode, std::nothrow_t>) {
        (void)mode;
        (void)begin;
        return block<T, Answers>(call, take);
    } else {
        (void)call;
        return starter<Mode>::template start<T, Answers>(std::move(mode), begin,
                                                         std::forward<Take>(take));
    }
}

// Text that identifies something must not be cut at a NUL inside it.
inline bool holds_nul(const std::string &text, hf_error *err) noexcept
{
    static constexpr char why[] = "a text with a NUL in it";

    if (text.find('\0') == std::string::npos)
        return false;
    err->status = HF_INVALID;
    err->native = 0;
    std::memcpy(err->text, why, sizeof why);
    return true;
}

struct nothing {
    void operator()(const hf_result &) const noexcept
    {
    }
};

struct free_memory {
    void operator()(void *memory) const noexcept
    {
        hf_free(memory);
    }
};

template <typename T> using owned = std::unique_ptr<T, free_memory>;

inline std::string text_of(const char *text)
{
    return text ? text : "";
}

} // namespace detail

} // namespace holdfast

#endif
