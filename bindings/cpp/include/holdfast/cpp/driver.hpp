// SPDX-License-Identifier: MIT
/// @file
/// What runs asynchronous calls: callbacks and coroutines go on inside driver::process().
#ifndef HOLDFAST_CPP_DRIVER_HPP
#define HOLDFAST_CPP_DRIVER_HPP

#include <holdfast/cpp/store.hpp>
#include <holdfast/cpp/task.hpp>

#include <cerrno>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace holdfast
{

/// Drives the asynchronous calls of one store, by one thread. Either it is the loop (run_until(),
/// run()), or another loop waits until fd() is readable or timeout() has passed, and calls
/// process(). The store must outlive it.
class driver
{
  public:
    /// For a store; throws holdfast::error if it has no descriptor.
    explicit driver(const store &driven)
        : store_(driven.native()), store_fd_(hf_store_fd(store_)),
          wake_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))
    {
        if (store_fd_ < 0 || wake_fd_ < 0) {
            const int native = errno;
            if (wake_fd_ >= 0)
                ::close(wake_fd_);
            failure(status::invalid, "no descriptor for this store", native).raise();
        }
    }

    driver(const driver &) = delete;
    driver &operator=(const driver &) = delete;

    ~driver()
    {
        ::close(wake_fd_);
    }

    /// To be polled for reading, by another loop. It belongs to the store.
    int fd() const noexcept
    {
        return store_fd_;
    }

    /// Call process() after this at the latest; max(): no limit. It may change with each call that
    /// begins and with each process(): ask again before each wait.
    std::chrono::milliseconds timeout() const noexcept
    {
        return detail::from_ms(hf_store_timeout_ms(store_));
    }

    /// Do what is due, and never block. Callbacks and coroutines run in here; they must not close
    /// the store.
    void process()
    {
        const hf_status code = hf_store_process(store_);
        if (code != HF_OK)
            failure(static_cast<status>(code), hf_status_text(code)).raise();
    }

    /// Wait until something is due, or wake() is called, or `wait` is over; then process().
    void run_once(wait_time wait = forever)
    {
        struct pollfd fds[] = { { store_fd_, POLLIN, 0 }, { wake_fd_, POLLIN, 0 } };
        const std::int64_t limit = wait.ms();
        int timeout_ms = hf_store_timeout_ms(store_);
        std::uint64_t count;

        if (limit >= 0 && (timeout_ms < 0 || timeout_ms > limit))
            timeout_ms = limit > INT32_MAX ? INT32_MAX : static_cast<int>(limit);
        (void)::poll(fds, 2, timeout_ms);
        if (fds[1].revents != 0)
            (void)!::read(wake_fd_, &count, sizeof count);
        process();
    }

    /// Run until `done()` is true. It is asked after each step.
    template <typename Predicate> void run_until(Predicate done)
    {
        process();
        while (!done())
            run_once();
    }

    /// Let the thread that runs look at its condition again. Any thread may call it.
    void wake() noexcept
    {
        const std::uint64_t one = 1;
        (void)!::write(wake_fd_, &one, sizeof one);
    }

#if defined(HOLDFAST_HAS_COROUTINES)
    /// Run until a stop is requested.
    void run(std::stop_token token)
    {
        const std::stop_callback waking(token, [this]() noexcept { wake(); });
        run_until([&] { return token.stop_requested(); });
    }

    /// Run a coroutine to its end, and return what it returns.
    template <typename T> T run(task<T> work)
    {
        work.start();
        run_until([&] { return work.done(); });
        return work.get();
    }
#endif

  private:
    hf_store *store_;
    int store_fd_;
    int wake_fd_;
};

} // namespace holdfast

#endif
