// SPDX-License-Identifier: MIT
/// @file
/// Lock objects with the interface of the standard library's, for std::unique_lock,
/// std::scoped_lock and std::shared_lock. One object may be used by many threads; objects of one
/// name, in any process, exclude each other. What the standard's locks do not know, a lock that is
/// lost while it is held, is seen by held() and told to on_lost().
#ifndef HOLDFAST_CPP_LOCKS_HPP
#define HOLDFAST_CPP_LOCKS_HPP

#include <holdfast/cpp/store.hpp>

#include <thread>

namespace holdfast
{

/// What all lock objects have in common: a name, options, and the leases that are held through the
/// object.
class lock_object
{
  public:
    lock_object(const lock_object &) = delete;
    lock_object &operator=(const lock_object &) = delete;

    /// Its name.
    const std::string &name() const noexcept
    {
        return name_;
    }

    /// Call this when a lease of this object is lost while it is held; to be set before the object
    /// is locked. It is called from a thread of the library. `why` is good during the call only.
    void on_lost(std::function<void(std::string_view why)> handler)
    {
        how_.on_event = [handler = std::move(handler), next = user_event_](const event &what) {
            if (what.kind == event_kind::lost)
                handler(what.text);
            if (next)
                next(what);
        };
    }

    /// Is it locked through this object, and not lost? Asks for the lease of the calling thread; if
    /// that has none, for the one that was taken last. Validity is judged by our own clock.
    bool held() const
    {
        return with_lease(false, [](const lease &mine) { return mine.held(); });
    }

    /// The fencing token of the same lease; 0 if there is none.
    std::uint64_t token() const
    {
        return with_lease(std::uint64_t{ 0 }, [](const lease &mine) { return mine.token(); });
    }

    /// The token of the same lease as a fence for a guard. Throws lost_error, unsupported_error, and
    /// invalid_error if nothing is locked.
    std::uint64_t fence() const
    {
        return with_lease(result<std::uint64_t>(unlocked()),
                          [](const lease &mine) { return mine.fence(std::nothrow); })
            .value();
    }

    /// How long the same lease is still valid: zero if there is none.
    std::chrono::milliseconds remaining() const
    {
        return with_lease(std::chrono::milliseconds::zero(),
                          [](const lease &mine) { return mine.remaining(); });
    }

  protected:
    /// @cond internal
    lock_object(const store &where, std::string name, options how)
        : store_(where.native()), name_(std::move(name)), how_(std::move(how)),
          user_event_(how_.on_event)
    {
    }

    ~lock_object() = default;

    // false: it was not granted in that time.
    bool take(kind as, wait_time wait)
    {
        options how = how_;
        how.kind = as;
        how.wait = wait;
        result<lease> got = store::obtain(
            name_, how, std::nothrow,
            [&](const hf_acquire_request &request, hf_lease **ret, hf_error *err) {
                return hf_acquire(store_, &request, ret, err);
            },
            nullptr);
        const bool ends = wait.ms() != HF_FOREVER;
        if (ends && (got.status() == status::busy || got.status() == status::timeout))
            return false;
        lease granted = std::move(got).value();
        const std::lock_guard<std::mutex> guard(lock_);
        held_.push_back({ std::this_thread::get_id(), as, std::move(granted) });
        return true;
    }

    template <typename Clock, typename Duration>
    bool take_until(kind as, const std::chrono::time_point<Clock, Duration> &deadline)
    {
        return take(as, deadline - Clock::now());
    }

    result<void> let_go(kind as)
    {
        lease mine;
        {
            const std::lock_guard<std::mutex> guard(lock_);
            const std::size_t at = find_to_end(as);
            if (at == held_.size())
                return unlocked();
            mine = std::move(held_[at].granted);
            held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(at));
        }
        return mine.release(std::nothrow);
    }

    // The same, of unlock(), which must not throw.
    void let_go_silently(kind as) noexcept
    {
        const result<void> ended = let_go(as);
        if (!ended && ended.status() != status::forked)
            if (const release_hook told = detail::hook().load())
                told(ended.error());
    }

    hf_store *store_;
    std::string name_;
    options how_;
    /// @endcond

  private:
    struct entry_type {
        std::thread::id thread;
        kind as;
        lease granted;
    };

    static failure unlocked()
    {
        return { status::invalid, "it is not locked" };
    }

    // Is a to be released before b? One of this thread before others, then a lost one before a held
    // one: after a loss another thread may have locked through the same object. Then the lowest
    // token: of leases that exclude each other only the newest can be held, and the others are lost
    // even if we have not been told yet.
    static bool ends_before(const entry_type &a, const entry_type &b)
    {
        const std::thread::id self = std::this_thread::get_id();

        if ((a.thread == self) != (b.thread == self))
            return a.thread == self;
        if (a.granted.held() != b.granted.held())
            return b.granted.held();
        return a.granted.token() < b.granted.token();
    }

    // With the lock: the one that is to be released. held_.size(): none.
    std::size_t find_to_end(kind as) const
    {
        std::size_t found = held_.size();

        for (std::size_t i = held_.size(); i-- > 0;)
            if (held_[i].as == as && (found == held_.size() || ends_before(held_[i], held_[found])))
                found = i;
        return found;
    }

    // With the lock: the last one of this thread, else the last one. held_.size(): none.
    std::size_t find_to_ask() const
    {
        const std::thread::id self = std::this_thread::get_id();

        for (std::size_t i = held_.size(); i-- > 0;)
            if (held_[i].thread == self)
                return i;
        return held_.empty() ? 0 : held_.size() - 1;
    }

    template <typename T, typename Ask> T with_lease(T none, Ask ask) const
    {
        const std::lock_guard<std::mutex> guard(lock_);
        const std::size_t at = find_to_ask();

        return at == held_.size() ? std::move(none) : ask(held_[at].granted);
    }

    event_handler user_event_;
    mutable std::mutex lock_;
    std::vector<entry_type> held_;
};

/// A mutex between processes and machines: meets Lockable and TimedLockable. lock() and its kind
/// throw holdfast::error for whatever is not "busy" or "too late": deadlock_error,
/// unavailable_error, ... A mutex whose lease was lost stays locked for its owner's unlock(), which
/// does no harm then.
class mutex : public lock_object
{
  public:
    /// A mutex of this name. options::wait and options::kind are not used.
    mutex(const store &where, std::string name, options how = {})
        : lock_object(where, std::move(name), std::move(how))
    {
    }

    /// Wait for it, for ever.
    void lock()
    {
        take(kind::mutex, forever);
    }

    /// Try once.
    bool try_lock()
    {
        return take(kind::mutex, no_wait);
    }

    /// Wait for at most this long.
    template <typename Rep, typename Period>
    bool try_lock_for(const std::chrono::duration<Rep, Period> &wait)
    {
        return take(kind::mutex, wait);
    }

    /// Wait until then.
    template <typename Clock, typename Duration>
    bool try_lock_until(const std::chrono::time_point<Clock, Duration> &deadline)
    {
        return take_until(kind::mutex, deadline);
    }

    /// Release it. A failure is told to the hook of set_release_hook().
    void unlock() noexcept
    {
        let_go_silently(kind::mutex);
    }

    /// Release it, and say how it went.
    result<void> release()
    {
        return let_go(kind::mutex);
    }
};

/// A mutex that the same thread may lock again. Each lock() needs its unlock().
class recursive_mutex : public mutex
{
  public:
    /// A recursive mutex of this name.
    recursive_mutex(const store &where, std::string name, options how = {})
        : mutex(where, std::move(name), reentrant(std::move(how)))
    {
    }

  private:
    static options reentrant(options how)
    {
        how.reentrant = true;
        return how;
    }
};

/// A read-write lock between processes and machines: meets SharedTimedLockable.
class shared_mutex : public lock_object
{
  public:
    /// A read-write lock of this name. options::wait and options::kind are not used.
    shared_mutex(const store &where, std::string name, options how = {})
        : lock_object(where, std::move(name), std::move(how))
    {
    }

    /// Wait to be the writer.
    void lock()
    {
        take(kind::exclusive, forever);
    }

    /// Try once to be the writer.
    bool try_lock()
    {
        return take(kind::exclusive, no_wait);
    }

    /// Wait for at most this long to be the writer.
    template <typename Rep, typename Period>
    bool try_lock_for(const std::chrono::duration<Rep, Period> &wait)
    {
        return take(kind::exclusive, wait);
    }

    /// Wait until then to be the writer.
    template <typename Clock, typename Duration>
    bool try_lock_until(const std::chrono::time_point<Clock, Duration> &deadline)
    {
        return take_until(kind::exclusive, deadline);
    }

    /// The writer leaves. A failure is told to the hook of set_release_hook().
    void unlock() noexcept
    {
        let_go_silently(kind::exclusive);
    }

    /// The writer leaves, and hears how it went.
    result<void> release()
    {
        return let_go(kind::exclusive);
    }

    /// Wait to be a reader.
    void lock_shared()
    {
        take(kind::shared, forever);
    }

    /// Try once to be a reader.
    bool try_lock_shared()
    {
        return take(kind::shared, no_wait);
    }

    /// Wait for at most this long to be a reader.
    template <typename Rep, typename Period>
    bool try_lock_shared_for(const std::chrono::duration<Rep, Period> &wait)
    {
        return take(kind::shared, wait);
    }

    /// Wait until then to be a reader.
    template <typename Clock, typename Duration>
    bool try_lock_shared_until(const std::chrono::time_point<Clock, Duration> &deadline)
    {
        return take_until(kind::shared, deadline);
    }

    /// A reader leaves. A failure is told to the hook of set_release_hook().
    void unlock_shared() noexcept
    {
        let_go_silently(kind::shared);
    }

    /// A reader leaves, and hears how it went.
    result<void> release_shared()
    {
        return let_go(kind::shared);
    }
};

/// A semaphore with the interface of std::counting_semaphore. Its permits are leases: those of a
/// process that dies come back, and release() gives back a permit that was acquired through this
/// object. Any thread may do that, so permits take no part in deadlock detection.
class semaphore : public lock_object
{
  public:
    /// A semaphore of this name with `capacity` permits: the same number for all that share it.
    semaphore(const store &where, std::string name, std::uint32_t capacity, options how = {})
        : lock_object(where, std::move(name), sized(std::move(how), capacity))
    {
    }

    /// Wait for a permit (options::permits: for as many of them).
    void acquire()
    {
        take(kind::semaphore, forever);
    }

    /// Try once.
    bool try_acquire()
    {
        return take(kind::semaphore, no_wait);
    }

    /// Wait for at most this long.
    template <typename Rep, typename Period>
    bool try_acquire_for(const std::chrono::duration<Rep, Period> &wait)
    {
        return take(kind::semaphore, wait);
    }

    /// Wait until then.
    template <typename Clock, typename Duration>
    bool try_acquire_until(const std::chrono::time_point<Clock, Duration> &deadline)
    {
        return take_until(kind::semaphore, deadline);
    }

    /// Give back what `count` calls of acquire() have got. Throws lost_error, unknown_error, and
    /// invalid_error if there is nothing to give back: the first failure, when all have been tried.
    void release(std::size_t count = 1)
    {
        result<void> first;

        for (std::size_t i = 0; i < count; i++) {
            const result<void> ended = let_go(kind::semaphore);

            if (first && !ended)
                first = ended;
        }
        first.value();
    }

    /// Set the number of permits, also while it is in use; 0: as requests say.
    template <typename Mode = throwing_t>
    answer<void, Mode> resize(std::uint32_t capacity, Mode mode = {})
    {
        return detail::run<void>(
            std::move(mode),
            [&](hf_result &, hf_error *err) {
                return hf_semaphore_resize(store_, name_.data(), name_.size(), capacity, err);
            },
            [&](auto... rest) {
                return hf_semaphore_resize_async(store_, name_.data(), name_.size(), capacity,
                                                 rest...);
            },
            detail::nothing());
    }

  private:
    static options sized(options how, std::uint32_t capacity)
    {
        how.capacity = capacity;
        how.no_deadlock_check = true;
        return how;
    }
};

} // namespace holdfast

#endif
