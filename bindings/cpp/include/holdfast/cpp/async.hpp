// SPDX-License-Identifier: MIT
/// @file
/// C++20: calls that are awaited. HOLDFAST_HAS_COROUTINES is defined where the compiler has what
/// this needs; elsewhere this file is empty.
#ifndef HOLDFAST_CPP_ASYNC_HPP
#define HOLDFAST_CPP_ASYNC_HPP

#include <holdfast/cpp/call.hpp>

#if defined(__cpp_impl_coroutine) && defined(__cpp_lib_jthread) && __has_include(<coroutine>)
/// Defined if calls can be awaited.
#define HOLDFAST_HAS_COROUTINES 1

#include <atomic>
#include <coroutine>

namespace holdfast
{

/// The mode of a call that is awaited: `holdfast::async`, or `holdfast::async(token)`, which a stop
/// of the token cancels.
struct async_t {
    std::stop_token token; ///< Cancels the call.

    /// The same with a stop token.
    async_t operator()(std::stop_token stop) const
    {
        return { std::move(stop) };
    }
};

/// The mode of a call that is awaited.
inline const async_t async{};

namespace detail
{

// A call under way, which its awaitable and the library share. `done` comes exactly once, and
// whoever of the two comes last frees this.
//
//   under_way --await_suspend--> awaited --done--> answered (and the coroutine goes on)
//   under_way --done--> answered
//   under_way, awaited --the awaitable is destroyed--> abandoned --done--> (freed)
enum class phase { under_way, awaited, answered, abandoned };

template <typename T> struct pending {
    std::atomic<phase> now{ phase::under_way };
    std::coroutine_handle<> waiter;
    std::optional<result<T>> value;

    virtual ~pending() = default;

    void finish(result<T> found) noexcept
    {
        value.emplace(std::move(found));
        switch (now.exchange(phase::answered)) {
        case phase::awaited:
            waiter.resume();
            break;
        case phase::abandoned:
            delete this; // a lease that nobody waits for any more is released
            break;
        default:
            break;
        }
    }
};

template <typename T, typename Answers, typename Take> struct pending_call final : pending<T> {
    Take take;

    explicit pending_call(Take what) : take(std::move(what))
    {
    }

    static void done(const hf_result *raw, void *arg) noexcept
    {
        auto *self = static_cast<pending_call *>(arg);
        self->finish(value_in_callback<T, Answers>(*raw, self->take));
    }
};

struct cancel_op {
    hf_op *op;
    void operator()() const noexcept
    {
        (void)hf_op_cancel(op);
    }
};

} // namespace detail

/// A call that has begun, to be awaited once. If it is destroyed before the answer has come, also
/// because the coroutine that awaits it is destroyed, the call is cancelled; a lease that is
/// granted all the same is released. Destroy it on the thread that drives the store.
template <typename T> class [[nodiscard]] awaitable
{
  public:
    awaitable(const awaitable &) = delete;
    awaitable &operator=(const awaitable &) = delete;

    ~awaitable()
    {
        stop_.reset();
        if (!call_)
            return;
        if (call_->now.exchange(detail::phase::abandoned) == detail::phase::answered)
            delete call_;
        else
            (void)hf_op_cancel(op_);
    }

    /// Ask for an early end; the answer still comes.
    void cancel() noexcept
    {
        if (call_)
            (void)hf_op_cancel(op_);
    }

    /// Await the value; throws holdfast::error.
    auto operator co_await() noexcept
    {
        return awaiter<true>{ *this };
    }

    /// Await a result<T>, without an exception.
    auto as_result() noexcept
    {
        return awaiter<false>{ *this };
    }

    /// @cond internal
    explicit awaitable(failure why) : refusal_(std::move(why))
    {
    }

    awaitable(detail::pending<T> *call, hf_op *op, std::stop_token token) : call_(call), op_(op)
    {
        if (token.stop_possible())
            stop_.emplace(std::move(token), detail::cancel_op{ op });
    }
    /// @endcond

  private:
    template <bool Throws> struct awaiter {
        awaitable &self;

        bool await_ready() const noexcept
        {
            return !self.call_ || self.call_->now.load() == detail::phase::answered;
        }

        bool await_suspend(std::coroutine_handle<> waiter) const noexcept
        {
            auto expected = detail::phase::under_way;
            self.call_->waiter = waiter;
            return self.call_->now.compare_exchange_strong(expected, detail::phase::awaited);
        }

        auto await_resume() const
        {
            result<T> found =
                self.call_ ? std::move(*self.call_->value) : result<T>(*self.refusal_);
            if constexpr (Throws)
                return std::move(found).value();
            else
                return found;
        }
    };

    detail::pending<T> *call_ = nullptr;
    hf_op *op_ = nullptr;
    std::optional<failure> refusal_;
    std::optional<std::stop_callback<detail::cancel_op>> stop_;
};

namespace detail
{

template <> struct starter<async_t> {
    template <typename T> using returned = awaitable<T>;

    template <typename T, typename Answers, typename Begin, typename Take>
    static awaitable<T> start(async_t mode, Begin &begin, Take take)
    {
        using call_type = pending_call<T, Answers, Take>;
        auto call = std::make_unique<call_type>(std::move(take));
        hf_op *op = nullptr;
        hf_error err;

        if (begin(&call_type::done, static_cast<void *>(call.get()), &op, &err) != HF_OK)
            return awaitable<T>(failure(err));
        return awaitable<T>(call.release(), op, std::move(mode.token));
    }
};

} // namespace detail

} // namespace holdfast

#endif
#endif
