// SPDX-License-Identifier: MIT
// The lock objects: used as the standard library's, between threads and processes, and lost.
#include "check.hpp"

#include <shared_mutex>

using namespace std::chrono_literals;
using holdfast::store;

// The requirements of the standard, as far as a compiler can see them.
template <typename L, typename = void> struct timed_lockable : std::false_type {
};
template <typename L>
struct timed_lockable<
    L, std::void_t<decltype(std::declval<L &>().lock()), decltype(std::declval<L &>().unlock()),
                   std::enable_if_t<std::is_same_v<bool, decltype(std::declval<L &>().try_lock())>>,
                   decltype(std::unique_lock<L>(std::declval<L &>(), 1ms)),
                   decltype(std::unique_lock<L>(
                       std::declval<L &>(), std::chrono::system_clock::now()))>> : std::true_type {
};
static_assert(timed_lockable<holdfast::mutex>::value);
static_assert(timed_lockable<holdfast::recursive_mutex>::value);
static_assert(timed_lockable<holdfast::shared_mutex>::value);
static_assert(std::is_same_v<
              bool, decltype(std::declval<holdfast::shared_mutex &>().try_lock_shared_for(1ns))>);
static_assert(noexcept(std::declval<holdfast::mutex &>().unlock()));

CASE(unique_lock_and_try)
{
    store s(check::url);
    holdfast::mutex one(s, "locks/unique"), other(s, "locks/unique");
    std::unique_lock lock(one);

    CHECK(lock.owns_lock() && one.held() && one.token() != 0 && one.fence() == one.token());
    CHECK(one.remaining() > 0ms);
    CHECK(!other.held() && other.token() == 0);
    CHECK_THROWS(holdfast::invalid_error, other.fence());
    CHECK(!other.try_lock());
    CHECK(!other.try_lock_for(20ms));
    CHECK(!other.try_lock_for(1ns));
    CHECK(!other.try_lock_for(-5h));
    CHECK(!other.try_lock_until(std::chrono::steady_clock::now() + 10ms));
    CHECK(!other.try_lock_until(std::chrono::system_clock::now() - 10min));
    lock.unlock();
    CHECK(!one.held() && one.token() == 0);
    CHECK(other.try_lock());
    other.unlock();
    {
        std::unique_lock timed(one, check::patience);
        CHECK(timed.owns_lock());
    }
    std::unique_lock late(one, std::chrono::system_clock::now() + check::patience);
    CHECK(late.owns_lock() && one.release() && !one.held());
    late.release();
}

// Two threads take two locks in opposite order with std::scoped_lock: no deadlock.
CASE(scoped_lock_of_two)
{
    store s(check::url);
    holdfast::mutex a(s, "locks/a"), b(s, "locks/b");
    std::atomic<int> inside{ 0 };
    int rounds = 0;
    const auto work = [&](holdfast::mutex &first, holdfast::mutex &second) {
        for (int i = 0; i < 50; i++) {
            std::scoped_lock both(first, second);
            CHECK(inside++ == 0);
            rounds++;
            inside--;
        }
    };
    std::thread other(work, std::ref(b), std::ref(a));

    work(a, b);
    other.join();
    CHECK(rounds == 100);
    CHECK(!a.held() && !b.held());
}

CASE(one_object_and_many_threads)
{
    store s(check::url);
    holdfast::mutex m(s, "locks/threads");
    std::vector<std::thread> threads;
    int plain = 0; // the mutex protects it
    std::uint64_t last = 0;

    for (int t = 0; t < 8; t++)
        threads.emplace_back([&] {
            for (int i = 0; i < 100; i++) {
                std::lock_guard lock(m);
                CHECK(m.held() && m.token() > last);
                last = m.token();
                plain++;
            }
        });
    for (std::thread &thread : threads)
        thread.join();
    CHECK(plain == 800);
}

CASE(readers_and_writers)
{
    store s(check::url);
    holdfast::shared_mutex rw(s, "locks/rw"), other(s, "locks/rw");
    {
        std::shared_lock one(rw);
        CHECK(rw.held());
        std::shared_lock two(other, check::patience);
        CHECK(two.owns_lock());
        CHECK(!other.try_lock());
        CHECK_THROWS(holdfast::deadlock_error, other.try_lock_for(check::patience));
        std::thread([&] {
            CHECK(!other.try_lock_for(10ms));
            CHECK(!other.try_lock_until(std::chrono::steady_clock::now() + 10ms));
        }).join();
    }
    std::unique_lock writer(rw);
    CHECK(rw.fence() != 0);
    CHECK(!other.try_lock_shared());
    std::thread([&] { CHECK(!other.try_lock_shared_for(10ms)); }).join();
    CHECK(!other.try_lock_shared_until(std::chrono::steady_clock::now()));
    writer.unlock();
    CHECK(other.try_lock_shared());
    CHECK(other.release_shared());
    CHECK(rw.try_lock() && rw.release());
    CHECK(!rw.release() && rw.release().status() == holdfast::status::invalid);
}

// The readers of one object belong to threads.
CASE(readers_of_many_threads)
{
    store s(check::url);
    holdfast::shared_mutex rw(s, "locks/rw-threads");
    std::atomic<int> inside{ 0 };
    std::vector<std::thread> threads;

    for (int t = 0; t < 4; t++)
        threads.emplace_back([&] {
            std::shared_lock lock(rw);
            inside++;
            CHECK(check::await([&] { return inside == 4; }));
            CHECK(rw.held());
        });
    for (std::thread &thread : threads)
        thread.join();
    CHECK(check::holders(s, "locks/rw-threads") == 0);
}

CASE(recursion)
{
    store s(check::url);
    holdfast::recursive_mutex m(s, "locks/recursive");
    std::atomic<bool> got{ true };

    {
        std::lock_guard outer(m);
        const std::uint64_t token = m.token();
        {
            std::lock_guard inner(m);
            CHECK(m.try_lock());
            CHECK(m.token() == token);
            m.unlock();
        }
        CHECK(m.held());
        std::thread([&] { got = m.try_lock(); }).join();
        CHECK(!got);
    }
    std::thread([&] {
        got = m.try_lock();
        m.unlock();
    }).join();
    CHECK(got);
}

CASE(a_thread_that_waits_for_itself)
{
    store s(check::url);
    holdfast::mutex m(s, "locks/self");
    std::lock_guard lock(m);

    CHECK_THROWS(holdfast::deadlock_error, m.lock());
    CHECK(m.held());
}

CASE(permits)
{
    store s(check::url);
    holdfast::semaphore three(s, "locks/permits", 3), other(s, "locks/permits", 3);

    three.acquire();
    CHECK(three.try_acquire() && other.try_acquire_for(check::patience));
    CHECK(!other.try_acquire());
    CHECK(!other.try_acquire_for(5ms));
    CHECK(!other.try_acquire_until(std::chrono::steady_clock::now() + 5ms));
    std::thread([&] { three.release(2); }).join(); // any thread may
    CHECK(other.try_acquire() && other.try_acquire());
    other.release(3);
    CHECK_THROWS(holdfast::invalid_error, other.release());
    if (s.info().can(HF_CAP_RESIZE)) {
        three.resize(1);
        CHECK(three.try_acquire() && !other.try_acquire());
        three.release();
        three.resize(0);
    }
    holdfast::semaphore wrong(s, "locks/permits", 4);
    three.acquire();
    CHECK_THROWS(holdfast::mismatch_error, wrong.try_acquire());
    three.release();
}

static std::atomic<int> told{ 0 };

// A lock that an operator breaks: visible at once, told, and harmless to unlock.
CASE(loss)
{
    store s(check::url), operators(check::url);
    holdfast::mutex m(s, "locks/loss"), next(s, "locks/loss");
    std::atomic<int> lost{ 0 };

    told = 0;
    const holdfast::release_hook before = holdfast::set_release_hook(
        [](const holdfast::failure &why) { told += why.status() == holdfast::status::lost; });
    m.on_lost([&](std::string_view why) { lost += !why.empty(); });
    {
        std::unique_lock lock(m);
        operators.break_lease("locks/loss", m.token());
        CHECK(check::await([&] { return lost == 1; }));
        CHECK(!m.held() && m.remaining() == 0ms);
        CHECK_THROWS(holdfast::lost_error, m.fence());
        CHECK(next.try_lock());
    }
    CHECK(told == 1);
    CHECK(next.held()); // unlock() of the one that was lost has not touched it
    CHECK(next.release());
    holdfast::set_release_hook(before);
}

// What a thread of the same object has lost is not what another thread holds.
CASE(a_lost_owner_unlocks_only_its_own)
{
    store s(check::url);
    holdfast::mutex m(s, "locks/owners");

    m.lock();
    s.break_lease("locks/owners", m.token());
    CHECK(check::await([&] { return !m.held(); }));
    std::atomic<int> step{ 0 };
    std::thread other([&] {
        m.lock();
        step = 1;
        CHECK(check::await([&] { return step == 2; }));
        CHECK(m.held());
        m.unlock();
    });
    CHECK(check::await([&] { return step == 1; }));
    CHECK(!m.held());
    m.unlock();
    CHECK(check::holders(s, "locks/owners") == 1);
    step = 2;
    other.join();
}

// A has lost its lease, and B has locked through the same object. `unlock` says how it went.
template <typename Lock, typename Unlock>
static void check_two_holders(const store &s, std::string_view name, Lock lock, Unlock unlock)
{
    const auto holder = [&] {
        const holdfast::view seen = s.inspect(name);
        CHECK(seen.entries.size() == 1 && seen.entries[0].holders.size() == 1);
        return seen.entries.empty() ? std::uint64_t{ 0 } : seen.entries[0].holders[0].token;
    };
    std::atomic<int> step{ 0 };
    const auto reach = [&](int wanted) { CHECK(check::await([&] { return step >= wanted; })); };

    // Two threads: each gets what is its own.
    std::thread a([&] {
        lock();
        step = 1;
        reach(3);
        CHECK(unlock().status() == holdfast::status::lost);
        step = 4;
    });
    reach(1);
    s.break_lease(name, holder());
    std::thread b([&] {
        lock();
        step = 2;
        reach(5);
        CHECK(unlock().status() == holdfast::status::ok);
        step = 6;
    });
    reach(2);
    const std::uint64_t held = holder();
    step = 3;
    reach(4);
    CHECK(holder() == held);
    step = 5;
    reach(6);
    a.join();
    b.join();
    CHECK(check::holders(s, name) == 0);

    // One thread, and one that has locked nothing: the lost one first.
    for (const bool same : { true, false }) {
        lock();
        s.break_lease(name, holder());
        lock();
        const std::uint64_t again = holder();
        holdfast::status first{}, second{};
        const auto both = [&] {
            first = unlock().status();
            CHECK(holder() == again);
            second = unlock().status();
        };
        if (same)
            both();
        else
            std::thread(both).join();
        CHECK(first == holdfast::status::lost && second == holdfast::status::ok);
        CHECK(check::holders(s, name) == 0);
        CHECK(unlock().status() == holdfast::status::invalid);
    }
}

CASE(two_holders_through_one_object)
{
    store s(check::url);
    holdfast::mutex m(s, "locks/two");
    holdfast::recursive_mutex again(s, "locks/two-recursive");
    holdfast::shared_mutex rw(s, "locks/two-rw");
    holdfast::semaphore one(s, "locks/two-permits", 1);

    check_two_holders(
        s, m.name(), [&] { m.lock(); }, [&] { return m.release(); });
    check_two_holders(
        s, again.name(), [&] { again.lock(); }, [&] { return again.release(); });
    check_two_holders(
        s, rw.name(), [&] { rw.lock(); }, [&] { return rw.release(); });
    check_two_holders(
        s, rw.name(), [&] { rw.lock_shared(); }, [&] { return rw.release_shared(); });
    check_two_holders(
        s, one.name(), [&] { one.acquire(); },
        [&]() -> holdfast::result<void> {
            try {
                one.release();
            } catch (const holdfast::error &thrown) {
                return holdfast::failure(thrown.status(), thrown.what());
            }
            return {};
        });
}

// One lost permit does not keep the others.
CASE(permits_of_which_one_is_lost)
{
    store s(check::url);
    holdfast::semaphore three(s, "locks/permits-lost", 3);

    for (int i = 0; i < 3; i++)
        three.acquire();
    s.break_lease("locks/permits-lost",
                  s.inspect("locks/permits-lost").entries[0].holders[1].token);
    CHECK_THROWS(holdfast::lost_error, three.release(3));
    CHECK(check::holders(s, "locks/permits-lost") == 0);
    CHECK_THROWS(holdfast::invalid_error, three.release());
}

CASE(a_mutex_that_ends_locked_is_released)
{
    store s(check::url);
    {
        holdfast::mutex m(s, "locks/ends");
        m.lock();
    }
    CHECK(s.try_acquire("locks/ends").has_value());
}
