// SPDX-License-Identifier: MIT
// Calls that are begun with a callback, and a driver: one thread for everything.
#include "check.hpp"

#include <poll.h>

using namespace std::chrono_literals;
using holdfast::lease;
using holdfast::result;
using holdfast::status;
using holdfast::store;

// Run what has been begun until `done`, for as long as a test may take.
template <typename Predicate> static void run(holdfast::driver &driver, Predicate done)
{
    const auto end = std::chrono::steady_clock::now() + check::patience;

    while (!done() && std::chrono::steady_clock::now() < end)
        driver.run_once(100ms);
    CHECK(done());
}

CASE(acquire_and_release)
{
    store s(check::url);
    holdfast::driver driver(s);
    bool released = false;
    lease got;

    s.acquire("cb/one", {}, [&](result<lease> granted) { got = std::move(granted).value(); });
    run(driver, [&] { return got.held(); });
    CHECK(!s.try_acquire("cb/one"));
    got.release([&](result<void> ended) { released = ended.has_value(); });
    CHECK(!got);
    run(driver, [&] { return released; });
    CHECK(s.try_acquire("cb/one").has_value());
    CHECK_THROWS(holdfast::invalid_error, s.acquire("", {}, [](result<lease>) { CHECK(false); }));
}

// The loop is somebody else's: a poll() with the driver's descriptor and timeout.
CASE(in_a_foreign_loop)
{
    store s(check::url);
    holdfast::driver driver(s);
    std::optional<std::int64_t> sum;

    holdfast::counter(s, "cb/loop").add(41, [&](result<std::int64_t> one) {
        CHECK(*one == 41);
        holdfast::counter(s, "cb/loop").add(1, [&](result<std::int64_t> two) { sum = *two; });
    });
    const auto end = std::chrono::steady_clock::now() + check::patience;
    while (!sum && std::chrono::steady_clock::now() < end) {
        struct pollfd fd = { driver.fd(), POLLIN, 0 };
        const auto timeout = std::min<std::chrono::milliseconds>(driver.timeout(), 1s);
        (void)poll(&fd, 1, static_cast<int>(timeout.count()));
        driver.process();
    }
    CHECK(sum == 42);
}

// A release beside a yield that waits: what comes back has no owner, and is given back.
CASE(release_beside_yield)
{
    store s(check::url), other(check::url);
    holdfast::driver driver(s), theirs(other);
    holdfast::options watched;
    std::optional<status> yielded;
    lease taken;

    if (!s.info().can(HF_CAP_WANTED))
        return;
    watched.watch = true;
    lease mine = s.acquire("cb/beside", watched);
    other.acquire("cb/beside", {}, [&](result<lease> got) { taken = std::move(got).value(); });
    CHECK(check::await([&] {
        theirs.process();
        return mine.wanted();
    }));
    mine.yield(holdfast::forever, [&](result<bool> back) { yielded = back.status(); });
    CHECK(check::await([&] {
        driver.process();
        theirs.process();
        return taken.held();
    }));
    CHECK(mine.release(std::nothrow).status() == status::invalid && !mine);
    const lease next = s.acquire("cb/next");
    CHECK(taken.release(std::nothrow));
    run(driver, [&] { return yielded.has_value(); });
    CHECK(yielded == status::invalid);
    CHECK(check::await([&] {
        driver.process();
        return check::holders(other, "cb/beside") == 0;
    }));
    CHECK(next.held() && check::holders(other, "cb/next") == 1);
}

// The same beside a conversion, and in the moment in which it ends.
CASE(release_beside_conversion)
{
    store s(check::url), other(check::url);
    holdfast::driver driver(s);
    holdfast::options upgradeable, shared;

    if (!s.info().can(HF_CAP_CONVERT))
        return;
    upgradeable.kind = holdfast::kind::upgradeable;
    shared.kind = holdfast::kind::shared;
    for (const bool at_once : { true, false }) {
        std::optional<status> converted;
        lease reader = other.acquire("cb/converted", shared);
        lease mine = s.acquire("cb/converted", upgradeable);
        mine.convert(holdfast::kind::exclusive, holdfast::forever,
                     [&](result<void> ended) { converted = ended.status(); });
        CHECK(check::await([&] {
            driver.process();
            return check::waiters(other, "cb/converted") == 1;
        }));
        if (at_once)
            CHECK(mine.release(std::nothrow));
        reader.release();
        if (!at_once)
            (void)mine.release(std::nothrow);
        CHECK(!mine);
        run(driver, [&] { return converted.has_value(); });
        CHECK(converted != status::ok);
        CHECK(check::await([&] {
            driver.process();
            return check::holders(other, "cb/converted") == 0;
        }));
    }
}

CASE(cancelled)
{
    store s(check::url);
    holdfast::driver driver(s);
    std::optional<status> said;
    lease held = s.acquire("cb/cancel");

    holdfast::operation op =
        s.acquire("cb/cancel", {}, [&](result<lease> got) { said = got.status(); });
    driver.process();
    op.cancel();
    run(driver, [&] { return said.has_value(); });
    CHECK(said == status::cancelled);
    op.cancel(); // too late, and harmless
    holdfast::operation().cancel();

    holdfast::canceller cancel;
    holdfast::options how;
    how.cancel = &cancel;
    said.reset();
    s.acquire("cb/cancel", how, [&](result<lease> got) { said = got.status(); });
    cancel.fire();
    run(driver, [&] { return said.has_value(); });
    CHECK(said == status::cancelled && held.held());
}

// 1,000 waiters, one thread, no thread for each of them.
CASE(a_thousand_waiters)
{
    store s(check::url);
    holdfast::driver driver(s);
    int granted = 0, inside = 0;
    const auto threads = [] {
        std::FILE *file = std::fopen("/proc/self/status", "r");
        char line[256];
        int count = 0;
        while (file && std::fgets(line, sizeof line, file))
            if (std::sscanf(line, "Threads: %d", &count) == 1)
                break;
        if (file)
            std::fclose(file);
        return count;
    };
    lease first = s.acquire("cb/thousand");

    for (int i = 0; i < 1000; i++)
        s.acquire("cb/thousand", {}, [&](result<lease> got) {
            CHECK(got.has_value() && inside++ == 0);
            granted++;
            inside--;
            // The guard ends here, and its release does not block.
        });
    driver.process();
    CHECK(granted == 0 && threads() < 20);
    first.release();
    run(driver, [&] { return granted == 1000; });
    CHECK(threads() < 20);
    s.acquire("cb/thousand", {}, [&](result<lease> got) { granted += got.has_value(); });
    run(driver, [&] { return granted == 1001; });
}

// Events of a lease that was acquired asynchronously come in process(), on our thread.
CASE(events_come_on_our_thread)
{
    store s(check::url), operators(check::url);
    holdfast::driver driver(s);
    const std::thread::id self = std::this_thread::get_id();
    bool lost = false;
    holdfast::options how;
    lease got;

    how.on_event = [&](const holdfast::event &what) {
        CHECK(std::this_thread::get_id() == self);
        lost = what.kind == holdfast::event_kind::lost;
    };
    s.acquire("cb/events", how, [&](result<lease> granted) { got = std::move(granted).value(); });
    run(driver, [&] { return got.held(); });
    operators.break_lease("cb/events", got.token());
    run(driver, [&] { return lost; });
    CHECK(!got.held());
}

CASE(woken_by_another_thread)
{
    store s(check::url);
    holdfast::driver driver(s);
    std::atomic<bool> stop{ false };
    std::thread other([&] {
        stop = true;
        driver.wake();
    });

    driver.run_until([&] { return stop.load(); });
    other.join();
}

// Another thread begins while this one drives, and the answer comes here.
CASE(begun_by_another_thread)
{
    store s(check::url);
    holdfast::driver driver(s);
    std::atomic<int> granted{ 0 };
    std::thread other([&] {
        for (int i = 0; i < 100; i++)
            s.acquire("cb/other", {}, [&](result<lease> got) { granted += got.has_value(); });
    });

    run(driver, [&] { return granted == 100; });
    other.join();
}

// A store that is closed with calls under way: each callback comes, exactly once.
CASE(closed_with_calls_under_way)
{
    int answers = 0;
    lease held;
    {
        store s(check::url);
        holdfast::driver driver(s);
        held = s.acquire("cb/close");
        for (int i = 0; i < 10; i++)
            s.acquire("cb/close", {},
                      [&](result<lease> got) { answers += got.status() == status::cancelled; });
        driver.process();
    }
    CHECK(answers == 10 && held && !held.held());
    store again(check::url);
    CHECK(again.try_acquire("cb/close").has_value());
}
