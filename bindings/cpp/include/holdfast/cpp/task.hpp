// SPDX-License-Identifier: MIT
/// @file
/// C++20: a coroutine type for programs that have none of their own. The awaitables of async.hpp
/// work in any other one too.
#ifndef HOLDFAST_CPP_TASK_HPP
#define HOLDFAST_CPP_TASK_HPP

#include <holdfast/cpp/async.hpp>

#if defined(HOLDFAST_HAS_COROUTINES)

#include <exception>
#include <variant>

namespace holdfast
{

template <typename T> class task;

namespace detail
{

struct task_promise_base {
    std::coroutine_handle<> next; // what awaits the task
    std::exception_ptr thrown;

    struct final_awaiter {
        bool await_ready() const noexcept
        {
            return false;
        }
        template <typename Promise>
        std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> ended) const noexcept
        {
            auto after = ended.promise().next;
            return after ? after : std::noop_coroutine();
        }
        void await_resume() const noexcept
        {
        }
    };

    std::suspend_always initial_suspend() const noexcept
    {
        return {};
    }
    final_awaiter final_suspend() const noexcept
    {
        return {};
    }
    void unhandled_exception() noexcept
    {
        thrown = std::current_exception();
    }
};

template <typename T> struct task_promise : task_promise_base {
    std::optional<T> value;

    task<T> get_return_object() noexcept;
    void return_value(T what)
    {
        value.emplace(std::move(what));
    }
    T take()
    {
        if (thrown)
            std::rethrow_exception(thrown);
        return std::move(*value);
    }
};

template <> struct task_promise<void> : task_promise_base {
    task<void> get_return_object() noexcept;
    void return_void() const noexcept
    {
    }
    void take() const
    {
        if (thrown)
            std::rethrow_exception(thrown);
    }
};

} // namespace detail

/// A coroutine that begins when it is awaited, or by start(). Destroying it while it waits for a
/// call of Holdfast cancels that call.
template <typename T = void> class [[nodiscard]] task
{
  public:
    /// What the compiler asks for.
    using promise_type = detail::task_promise<T>;

    /// Of its coroutine.
    explicit task(std::coroutine_handle<promise_type> coroutine) noexcept : coroutine_(coroutine)
    {
    }

    /// The other one is empty then.
    task(task &&other) noexcept : coroutine_(std::exchange(other.coroutine_, nullptr))
    {
    }

    /// The one that was here before is destroyed.
    task &operator=(task &&other) noexcept
    {
        task before(std::move(*this));
        coroutine_ = std::exchange(other.coroutine_, nullptr);
        return *this;
    }

    task(const task &) = delete;
    task &operator=(const task &) = delete;

    ~task()
    {
        if (coroutine_)
            coroutine_.destroy();
    }

    /// Begin, without waiting for the end: for the outermost one. driver::run() does it.
    void start()
    {
        coroutine_.resume();
    }

    /// Has it ended?
    bool done() const noexcept
    {
        return coroutine_.done();
    }

    /// What it has returned; throws what it has thrown. Only after its end.
    T get()
    {
        return coroutine_.promise().take();
    }

    /// Begin, and wait for the end.
    auto operator co_await() noexcept
    {
        struct awaiter {
            std::coroutine_handle<promise_type> coroutine;

            bool await_ready() const noexcept
            {
                return false;
            }
            std::coroutine_handle<> await_suspend(std::coroutine_handle<> waiter) const noexcept
            {
                coroutine.promise().next = waiter;
                return coroutine;
            }
            T await_resume() const
            {
                return coroutine.promise().take();
            }
        };
        return awaiter{ coroutine_ };
    }

  private:
    std::coroutine_handle<promise_type> coroutine_;
};

namespace detail
{

template <typename T> task<T> task_promise<T>::get_return_object() noexcept
{
    return task<T>(std::coroutine_handle<task_promise>::from_promise(*this));
}

inline task<void> task_promise<void>::get_return_object() noexcept
{
    return task<void>(std::coroutine_handle<task_promise>::from_promise(*this));
}

} // namespace detail

} // namespace holdfast

#endif
#endif
