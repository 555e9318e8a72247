// SPDX-License-Identifier: MIT
// Calls that are awaited (C++20): every one of them, cancellation, and coroutines that end early.
#include "check.hpp"

#if !defined(HOLDFAST_HAS_COROUTINES)
CASE(this_compiler_has_no_coroutines)
{
}
#else

using namespace std::chrono_literals;
using holdfast::async;
using holdfast::kind;
using holdfast::lease;
using holdfast::options;
using holdfast::status;
using holdfast::store;
using holdfast::task;

static task<int> add(store &s, int n)
{
    holdfast::counter counter(s, "co/counter");
    co_return static_cast<int>(co_await counter.add(n, async));
}

static task<int> hold_and_add(store &s)
{
    lease got = co_await s.acquire_async("co/lock");
    CHECK(got.held() && !s.try_acquire("co/lock"));
    const int sum = co_await add(s, 2) + co_await add(s, 3);
    co_await got.release_async();
    CHECK(!got);
    co_return sum;
}

CASE(awaited)
{
    store s(check::url);
    holdfast::driver driver(s);

    CHECK(driver.run(hold_and_add(s)) == 7);
    CHECK(s.try_acquire("co/lock").has_value());
}

static task<> refused(store &s)
{
    lease held = co_await s.acquire("co/busy", {}, async);
    auto busy = co_await s.acquire("co/busy", holdfast::no_wait, async).as_result();
    CHECK(busy.status() == status::busy);
    bool thrown = false;
    try {
        (void)co_await s.acquire("co/busy", 1ms, async);
    } catch (const holdfast::timeout_error &) {
        thrown = true;
    }
    CHECK(thrown);
    (void)co_await s.acquire("", {}, async); // it does not even begin
}

CASE(exceptions_come_out)
{
    store s(check::url);
    holdfast::driver driver(s);

    CHECK_THROWS(holdfast::invalid_error, (driver.run(refused(s)), 0));
    CHECK(check::await([&] { return s.try_acquire("co/busy").has_value(); }));
}

static task<> stopped(store &s, std::stop_token token, std::optional<status> &said)
{
    auto got = co_await s.acquire("co/stop", {}, async(token)).as_result();
    said = got.status();
}

CASE(a_stop_token_cancels)
{
    store s(check::url);
    holdfast::driver driver(s);
    std::stop_source source;
    std::optional<status> said;
    const lease held = s.acquire("co/stop");
    task<> waiting = stopped(s, source.get_token(), said);

    waiting.start();
    driver.process();
    CHECK(!waiting.done());
    source.request_stop();
    driver.run_until([&] { return waiting.done(); });
    CHECK(said == status::cancelled);
    said.reset();
    driver.run(stopped(s, source.get_token(), said)); // stopped before it begins
    CHECK(said == status::cancelled);

    // The same for a blocking call.
    std::thread waiter([&] {
        holdfast::stop_canceller cancel(source.get_token());
        options how;
        how.cancel = &cancel;
        CHECK_THROWS(holdfast::cancelled_error, s.acquire("co/stop", how));
    });
    waiter.join();
}

static task<> take(store &s, int &granted, std::stop_token token)
{
    auto got = co_await s.acquire("co/moment", {}, async(token)).as_result();
    CHECK(got || got.status() == status::cancelled);
    granted += got.has_value();
}

// Stopped while the holder releases: the lease is given to the coroutine or to nobody.
CASE(stopped_at_the_moment_of_the_grant)
{
    store s(check::url);
    holdfast::driver driver(s);
    int granted = 0;

    for (int i = 0; i < 200; i++) {
        lease held = s.acquire("co/moment");
        std::stop_source source;
        task<> waiting = take(s, granted, source.get_token());
        waiting.start();
        driver.process();
        std::thread releasing([&] { held.release(); });
        source.request_stop();
        driver.run_until([&] { return waiting.done(); });
        releasing.join();
        options how;
        how.wait = check::patience;
        s.acquire("co/moment", how).release();
    }
    CHECK(granted >= 0 && granted <= 200);
}

static task<> hold_for_ever(store &s)
{
    lease got = co_await s.acquire_async("co/destroyed");
    co_await std::suspend_always();
}

// A coroutine that is destroyed while it waits, and one that is destroyed while it holds.
CASE(destroyed_coroutines_hold_nothing)
{
    store s(check::url), other(check::url);
    holdfast::driver driver(s);

    for (int i = 0; i < 100; i++) {
        std::optional<lease> held(s.acquire("co/destroyed"));
        {
            task<> waiting = hold_for_ever(s);
            waiting.start();
            if (i % 3 == 0)
                driver.process();
            if (i % 2 == 0)
                held.reset(); // granted, but nobody has been told yet
        }
        held.reset();
        // The answer still comes, and what it brings is given back.
        std::optional<lease> next;
        const auto end = std::chrono::steady_clock::now() + check::patience;
        while (!next && std::chrono::steady_clock::now() < end) {
            driver.run_once(1ms);
            next = other.try_acquire("co/destroyed");
        }
        CHECK(next.has_value());
    }
    {
        task<> holding = hold_for_ever(s);
        holding.start();
        CHECK(check::await([&] {
            driver.process();
            return check::holders(other, "co/destroyed") == 1;
        }));
    }
    CHECK(check::await([&] {
        driver.process();
        return other.try_acquire("co/destroyed").has_value();
    }));
}

// An awaitable that nobody awaits is cancelled.
CASE(never_awaited)
{
    store s(check::url), other(check::url);
    holdfast::driver driver(s);
    const auto waiting = [&](std::size_t count) {
        return check::await([&] {
            driver.process();
            return check::waiters(other, "co/never") == count;
        });
    };
    {
        const lease held = other.acquire("co/never");
        {
            auto forgotten = s.acquire_async("co/never");
            CHECK(waiting(1));
        }
        CHECK(waiting(0)); // it has left the queue
        auto cancelled = s.acquire_async("co/never");
        cancelled.cancel();
        CHECK(waiting(0));
    }
    {
        auto ignored = s.acquire_async("co/never");
        driver.process();
    }
    CHECK(check::await([&] {
        driver.process();
        return s.try_acquire("co/never").has_value();
    }));
}

static task<> one_of_many(store &s, int &inside, int &rounds)
{
    lease got = co_await s.acquire_async("co/many");
    CHECK(inside++ == 0);
    rounds++;
    inside--;
    co_await got.release_async();
}

CASE(a_thousand_coroutines)
{
    store s(check::url);
    holdfast::driver driver(s);
    int inside = 0, rounds = 0;
    std::vector<task<>> tasks;

    for (int i = 0; i < 1000; i++) {
        tasks.push_back(one_of_many(s, inside, rounds));
        tasks.back().start();
    }
    const auto end = std::chrono::steady_clock::now() + check::patience;
    while (rounds < 1000 && std::chrono::steady_clock::now() < end)
        driver.run_once(100ms);
    CHECK(rounds == 1000);
    for (task<> &each : tasks)
        driver.run_until([&] { return each.done(); });
}

static task<> every_lock_call(store &s)
{
    const std::vector<holdfast::request> two{ { "co/all1" }, { "co/all2" } };
    std::vector<lease> all = co_await s.acquire_all(two, async);
    CHECK(all.size() == 2 && all[0].held() && all[1].held());
    co_await holdfast::release_all(std::move(all), async);
    {
        const holdfast::any_lease any = co_await s.acquire_any(two, async);
        CHECK(any.index == 0 && any.lease.held());
    }
    options how;
    how.ttl = 30s;
    lease got = co_await s.acquire("co/each", how, async);
    co_await got.renew(60s, async);
    CHECK(got.remaining() > 30s);
    co_await got.set_cell("co/bound", "x", async);
    CHECK((co_await s.read_lease_cell("co/bound", async))->bytes == "x");
    CHECK((co_await s.inspect("co/each", async)).entries.size() == 1);
    CHECK(!(co_await s.inspect_all("co/*", async)).entries.empty());
    co_await s.break_lease("co/each", got.token(), async);
    auto ended = co_await got.release(async).as_result();
    CHECK(ended.status() == status::lost);
    CHECK(!(co_await s.check(async)).empty());
    CHECK((co_await s.deadlocks(async)).empty());
    auto nobody = co_await s.ask("co/nobody", {}, async).as_result();
    CHECK(nobody.status() == status::not_found);
    auto nothing = co_await s.adopt("co/nobody", "nonsense", {}, true, async).as_result();
    CHECK(nothing.status() == status::invalid);
    auto quiet = co_await s.wait(0, 1ms, nullptr, async).as_result();
    CHECK(quiet ||
          quiet.status() == (s.info().can(HF_CAP_WATCH) ? status::timeout : status::unsupported));
}

static task<> convert_and_yield(store &s)
{
    options how;
    how.kind = kind::upgradeable;
    lease got = co_await s.acquire("co/convert", how, async);
    co_await got.convert(kind::exclusive, holdfast::forever, async);
    CHECK(got.held() && got.info().kind == kind::exclusive);
    co_await got.release_async();

    options watching;
    watching.watch = true;
    lease wanted = co_await s.acquire("co/yield", watching, async);
    const std::uint64_t token = wanted.token();
    CHECK(!co_await wanted.yield(check::patience, async));
    auto waiter = s.acquire("co/yield", check::patience, async);
    while (!wanted.wanted())
        (void)co_await s.inspect("co/yield", async);
    {
        auto yielding = wanted.yield(check::patience, async);
        lease other = co_await waiter;
        CHECK(other.token() > token);
        co_await other.release_async();
        CHECK(co_await yielding);
    }
    CHECK(wanted.held() && wanted.token() > token);
    // The lease ends while it is given away: what comes back is given back.
    auto third = s.acquire("co/yield", check::patience, async);
    while (!wanted.wanted())
        (void)co_await s.inspect("co/yield", async);
    auto yielding = wanted.yield(check::patience, async);
    wanted = lease();
    {
        lease other = co_await third;
    }
    CHECK((co_await yielding.as_result()).status() == status::invalid);
    options wait;
    wait.wait = check::patience;
    CHECK((co_await s.acquire("co/yield", wait, async)).held());
}

static task<> every_cell_call(store &s)
{
    holdfast::cell cell(s, "co/cell");
    CHECK(!co_await cell.get(async));
    const std::uint64_t one = co_await cell.set("a", {}, async);
    CHECK((co_await cell.get(async))->bytes == "a");
    const auto two = co_await cell.swap(one, "b", {}, async);
    CHECK(two && !co_await cell.swap(one, "c", {}, async));
    CHECK(co_await cell.wait(one, 1min, nullptr, async) == *two);
    const holdfast::cell_function more = [](const std::optional<holdfast::cell_value> &old) {
        return holdfast::cell_change::write(old->bytes + "!");
    };
    const std::uint64_t three = co_await cell.update(more, 1min, nullptr, async);
    CHECK((co_await cell.get(async))->bytes == "b!");
    CHECK(!co_await cell.remove(*two, async));
    CHECK(co_await cell.remove(three, async));
    const std::vector<holdfast::cell_item> items{ holdfast::cell_item::write("co/c1", 0, "x"),
                                                  holdfast::cell_item::expect("co/c2", 0) };
    CHECK((co_await holdfast::commit(s, items, async)).committed);
    const auto changed = co_await holdfast::commit(s, items, async);
    CHECK(!changed.committed && changed.index == 0 && changed.version != 0);

    holdfast::counter counter(s, "co/number");
    co_await counter.set(5, async);
    CHECK((co_await counter.swap(5, 6, async)).swapped);
    CHECK((co_await counter.swap(5, 7, async)).current == 6);
    CHECK(co_await counter.get(async) == 6);
    co_await counter.remove(async);

    holdfast::guard guard(s, "co/guard");
    CHECK(!co_await guard.claim(5, async));
    co_await guard.set(5, "five", async);
    CHECK(co_await guard.claim(6, async) == "five");
    auto fenced = co_await guard.set(5, "late", async).as_result();
    CHECK(fenced.status() == status::fenced);

    holdfast::limit limit(s, "co/limit", { holdfast::limit_algorithm::fixed, 1, 1h, 0 });
    CHECK((co_await limit.take(1, holdfast::forever, nullptr, async)).granted);
    CHECK(!(co_await limit.try_take(1, async)).granted);
    CHECK((co_await limit.get(async)).left == 0);
    CHECK((co_await limit.set({ holdfast::limit_algorithm::fixed, 9, 1h, 0 }, async)).is_set);
    holdfast::semaphore semaphore(s, "co/semaphore", 2);
    co_await semaphore.resize(3, async);
    co_await semaphore.resize(0, async);
}

static task<> every_party_call(store &s)
{
    holdfast::latch latch(s, "co/latch");
    co_await latch.create(1, async);
    lease joined = co_await latch.join("me", 1min, nullptr, async);
    CHECK((co_await latch.get(async)).left == 1);
    CHECK(co_await latch.count_down("me", async) == 0);
    co_await latch.wait(1min, nullptr, async);
    co_await joined.release_async();
    co_await latch.remove(async);

    holdfast::barrier barrier(s, "co/barrier", 2), both(s, "co/double", 2);
    auto one = barrier.arrive_and_wait("one", 1min, nullptr, async);
    co_await barrier.arrive_and_wait("two", 1min, nullptr, async);
    co_await one;
    auto first = both.enter("one", 1min, nullptr, async);
    lease second = co_await both.enter("two", 1min, nullptr, async);
    lease entered = co_await first;
    auto leaving = holdfast::barrier::leave(entered, 1min, nullptr, async);
    co_await holdfast::barrier::leave(second, 1min, nullptr, async);
    co_await leaving;
    CHECK(!entered && !second);

    holdfast::election election(s, "co/election");
    lease leader = co_await election.campaign("a", {}, async);
    co_await holdfast::election::publish(leader, "b", async);
    const holdfast::leader_info seen = co_await election.wait({}, 1min, nullptr, async);
    CHECK(seen.leads && seen.value == "b");
    co_await holdfast::election::resign(leader, async);
    CHECK(!(co_await election.wait(seen, 1min, nullptr, async)).leads);

    holdfast::group group(s, "co/group");
    lease member = co_await group.join("me", {}, async);
    const holdfast::member_list list = co_await group.wait({}, 1min, nullptr, async);
    CHECK(list.members.size() == 1 && list.members[0].value == "me");
    co_await holdfast::group::leave(member, async);

    holdfast::once once(s, "co/once");
    CHECK(!co_await once.get(async));
    {
        holdfast::once_begun begun = co_await once.begin({}, {}, async);
        CHECK(begun);
        co_await holdfast::once::finish(begun.lease, async);
        co_await begun.lease.release_async();
    }
    const holdfast::once_begun again = co_await once.begin({}, {}, async);
    CHECK(!again && again.mark && (co_await once.get(async))->token == again.mark->token);
    lease held = co_await s.acquire_async("co/once");
    CHECK((co_await holdfast::once::claim(held, {}, async)).has_value());
    co_await once.remove(async);
}

CASE(every_call)
{
    store s(check::url);
    holdfast::driver driver(s);

    driver.run(every_lock_call(s));
    driver.run(convert_and_yield(s));
    driver.run(every_cell_call(s));
    driver.run(every_party_call(s));
}

CASE(a_thread_that_drives)
{
    store s(check::url);
    holdfast::driver driver(s);
    std::atomic<bool> granted{ false };
    std::jthread loop([&](std::stop_token token) { driver.run(token); });

    s.acquire("co/thread", {}, [&](holdfast::result<lease> got) { granted = got.has_value(); });
    CHECK(check::await([&] { return granted.load(); }));
}
#endif
