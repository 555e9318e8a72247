// SPDX-License-Identifier: MIT
// Leases: what they tell, how they end, and what happens to them.
#include "check.hpp"

using namespace std::chrono_literals;
using holdfast::kind;
using holdfast::lease;
using holdfast::options;
using holdfast::status;
using holdfast::store;

static_assert(!std::is_copy_constructible_v<lease> && std::is_nothrow_move_constructible_v<lease>);
static_assert(std::is_nothrow_move_assignable_v<lease>);

CASE(a_guard)
{
    store s(check::url);
    lease moved;

    CHECK(!moved && !moved.held() && moved.token() == 0);
    {
        lease got = s.acquire("leases/guard");
        CHECK(got && got.held() && got.fence() == got.token());
        CHECK(!s.try_acquire("leases/guard"));
        moved = std::move(got);
    }
    CHECK(moved.held());
    const holdfast::lease_info info = moved.info();
    CHECK(info.name == "leases/guard" && info.token == moved.token() && info.holds == 1);
    CHECK(info.state == HF_STATE_HELD && info.kind == kind::mutex && moved.fd() >= 0);
    moved = s.acquire("leases/other"); // the one before is released
    CHECK(s.try_acquire("leases/guard").has_value());
    moved.release();
    CHECK(!moved);
    CHECK_THROWS(holdfast::invalid_error, moved.release());
    CHECK_THROWS(holdfast::invalid_error, moved.info());
    CHECK_THROWS(holdfast::invalid_error, moved.renew());
}

CASE(names_of_any_bytes)
{
    store s(check::url);
    const std::string name("\0\xff\n name", 8), label("l\xc3\xa4\xff", 4);
    options how;

    how.label = label;
    lease got = s.acquire(name, how);
    CHECK(got.info().name == name);
    const holdfast::view seen = s.inspect(name);
    CHECK(seen.entries.size() == 1 && seen.entries[0].name == name);
    CHECK(seen.entries.size() == 1 && seen.entries[0].holders[0].token == got.token());
    CHECK(s.acquire(std::string(HF_NAME_MAX + 1, 'x'), {}, std::nothrow).status() ==
          status::invalid);
    CHECK(s.acquire("", {}, std::nothrow).status() == status::invalid);
}

CASE(waiting)
{
    store s(check::url), other(check::url);
    lease first = s.acquire("leases/wait");

    CHECK(s.acquire("leases/wait", holdfast::no_wait, std::nothrow).status() == status::busy);
    CHECK_THROWS(holdfast::busy_error, s.acquire("leases/wait", 0ms));
    std::thread([&] {
        CHECK(s.acquire("leases/wait", 20ms, std::nothrow).status() == status::timeout);
        CHECK_THROWS(holdfast::timeout_error, s.acquire("leases/wait", 1ns));
        CHECK(!s.try_acquire_for("leases/wait", 5ms));
    }).join();
    std::thread waiter([&] { CHECK(other.acquire("leases/wait", check::patience).held()); });
    CHECK(check::await([&] { return check::waiters(s, "leases/wait") == 1; }));
    first.release();
    waiter.join();
}

CASE(a_canceller)
{
    store s(check::url), other(check::url);
    lease first = s.acquire("leases/cancel");
    holdfast::canceller cancel;
    std::thread waiter([&] {
        options how;
        how.cancel = &cancel;
        CHECK_THROWS(holdfast::cancelled_error, other.acquire("leases/cancel", how));
        // Fired once, it stays fired.
        CHECK(other.acquire("leases/cancel", how, std::nothrow).status() == status::cancelled);
    });

    CHECK(check::await([&] { return check::waiters(s, "leases/cancel") == 1; }));
    cancel.fire();
    waiter.join();
    CHECK(first.held());
}

// Cancel while the holder releases: whatever the answer is, nothing stays held.
CASE(cancelled_at_the_moment_of_the_grant)
{
    store s(check::url), other(check::url);
    int granted = 0, cancelled = 0;

    for (int i = 0; i < 100; i++) {
        lease first = s.acquire("leases/moment");
        holdfast::canceller cancel;
        std::thread waiter([&] {
            options how;
            how.cancel = &cancel;
            auto got = other.acquire("leases/moment", how, std::nothrow);
            CHECK(got || got.status() == status::cancelled);
            (got ? granted : cancelled)++;
        });
        if (i % 2 == 0)
            CHECK(check::await([&] { return check::waiters(s, "leases/moment") == 1; }));
        std::thread canceller([&] { cancel.fire(); });
        first.release();
        canceller.join();
        waiter.join();
        CHECK(s.try_acquire("leases/moment").has_value());
    }
    CHECK(granted + cancelled == 100);
}

CASE(events_of_a_loss)
{
    store s(check::url);
    std::atomic<int> lost{ 0 }, others{ 0 };
    options how;

    how.on_event = [&](const holdfast::event &what) {
        (what.kind == holdfast::event_kind::lost && !what.text.empty() ? lost : others)++;
    };
    lease got = s.acquire("leases/lost", how);
    CHECK_THROWS(holdfast::not_found_error, s.break_lease("leases/lost", got.token() + 1));
    s.break_lease("leases/lost", got.token());
    CHECK(check::await([&] { return lost == 1; }));
    CHECK(got && !got.held() && got.remaining() == 0ms);
    CHECK_THROWS(holdfast::lost_error, got.fence());
    CHECK_THROWS(holdfast::lost_error, got.release());
    CHECK(!got && others == 0);
}

// A callback that ends the very lease whose event it hears.
CASE(released_by_its_own_callback)
{
    store s(check::url);
    lease got;
    std::mutex lock;
    std::atomic<bool> ended{ false };
    options how;

    how.on_event = [&](const holdfast::event &what) {
        std::lock_guard guard(lock);
        if (what.kind != holdfast::event_kind::lost)
            return;
        CHECK(got.release(std::nothrow).status() == status::lost);
        got = lease(); // what we run in goes with it
        ended = true;
    };
    std::uint64_t token;
    {
        std::lock_guard guard(lock);
        got = s.acquire("leases/own", how);
        token = got.token();
    }
    s.break_lease("leases/own", token);
    CHECK(check::await([&] { return ended.load(); }));
}

CASE(without_a_url_it_is_the_store_of_the_environment)
{
    ::setenv("HOLDFAST_STORE", check::url.c_str(), 1);
    store s;
    ::unsetenv("HOLDFAST_STORE");
    CHECK(s.info().location == store(check::url).info().location);
    CHECK(s.info().source == "HOLDFAST_STORE");
    CHECK(store(check::url).info().source == "the caller");
    CHECK_THROWS(holdfast::config_error, store(""));
    CHECK(!store::open("", {}, std::nothrow));
}

CASE(a_ttl)
{
    store s(check::url);
    const holdfast::store_info info = s.info();
    options how;

    if (!info.can(HF_CAP_TTL))
        return;
    how.ttl = 30s;
    lease got = s.acquire("leases/ttl", how);
    CHECK(got.info().ttl == 30s && got.remaining() > 0ms && got.remaining() <= 30s);
    got.renew(60s);
    CHECK(got.remaining() > 30s);
    got.renew();
    how.max_hold = 1s;
    how.ttl = {};
    lease limited = s.acquire("leases/limited", how);
    CHECK(check::await([&] { return !limited.held(); }));
    CHECK(limited.release(std::nothrow).status() == status::lost);
    how.max_hold = -1s;
    CHECK_THROWS(holdfast::invalid_error, s.acquire("leases/limited", how));
}

CASE(wanted_asked_and_yielded)
{
    store s(check::url), other(check::url);
    std::atomic<int> wanted{ 0 }, asked{ 0 };
    options how;

    if (!s.info().can(HF_CAP_WANTED))
        return;
    how.watch = true;
    how.on_event = [&](const holdfast::event &what) {
        wanted += what.kind == holdfast::event_kind::wanted;
        asked += what.kind == holdfast::event_kind::asked && what.text == "please";
    };
    lease got = s.acquire("leases/wanted", how);
    const std::uint64_t token = got.token();
    CHECK(!got.wanted() && !got.yield());
    CHECK(got.token() == token);
    other.ask("leases/wanted", "please");
    CHECK(check::await([&] { return asked == 1; }));
    CHECK_THROWS(holdfast::not_found_error, other.ask("leases/nobody"));
    std::thread waiter([&] { CHECK(other.acquire("leases/wanted", check::patience).held()); });
    CHECK(check::await([&] { return wanted == 1; }));
    CHECK(got.wanted());
    CHECK(got.yield(check::patience));
    CHECK(got.held() && got.token() > token);
    waiter.join();
    CHECK(got.info().asks == 1 || got.info().asks == 0);
}

CASE(conversion)
{
    store s(check::url);
    options how;

    if (!s.info().can(HF_CAP_CONVERT))
        return;
    how.kind = kind::upgradeable;
    lease got = s.acquire("leases/convert", how);
    how.kind = kind::shared;
    lease reader = s.acquire("leases/convert", how);
    CHECK_THROWS(holdfast::busy_error, got.convert(kind::exclusive, 0ms));
    CHECK(got.held());
    reader.release();
    got.convert(kind::exclusive);
    CHECK(got.held() && got.info().kind == kind::exclusive);
    CHECK(!s.try_acquire("leases/convert", how));
    got.convert(kind::shared);
    CHECK(s.try_acquire("leases/convert", how).has_value());
    CHECK_THROWS(holdfast::invalid_error, got.convert(kind::exclusive));
    got.release();
    how.kind = kind::exclusive;
    CHECK(s.try_acquire("leases/convert", how).has_value());
}

CASE(several_names)
{
    store s(check::url);
    std::vector<lease> all = s.acquire_all({ { "leases/s2" }, { "leases/s1" } });

    CHECK(all.size() == 2 && all[0].info().name == "leases/s2" && all[1].held());
    CHECK(all[0].token() != 0);
    {
        holdfast::any_lease any = s.acquire_any({ { "leases/s1", 1min }, { "leases/s3", 1min } });
        CHECK(any.index == 1 && any.lease.info().name == "leases/s3");
    }
    CHECK_THROWS(holdfast::busy_error,
                 s.acquire_all({ { "leases/s1", 0ms }, { "leases/s4", 0ms } }));
    CHECK(s.try_acquire("leases/s4").has_value());
    holdfast::release_all(std::move(all));
    CHECK(s.try_acquire("leases/s1") && s.try_acquire("leases/s2"));
    CHECK_THROWS(holdfast::invalid_error,
                 s.acquire_all({ { "leases/s1", 1s }, { "leases/s4", 2s } }));
}

// The library calls the callback of the first acquire until the last hold has ended.
CASE(reentrant_holds_end_in_any_order)
{
    store s(check::url);
    auto lost = std::make_shared<std::atomic<int>>(0);
    options how;

    how.reentrant = true;
    how.scope = 7;
    how.on_event = [lost](const holdfast::event &what) {
        *lost += what.kind == holdfast::event_kind::lost;
    };
    lease first = s.acquire("leases/reentrant", how), second = s.acquire("leases/reentrant", how);
    CHECK(first.token() == second.token() && second.info().holds == 2);
    how.on_event = {};
    first = lease(); // its callback is still needed
    CHECK(second.held() && second.info().holds == 1);
    s.break_lease("leases/reentrant", second.token());
    CHECK(check::await([&] { return *lost == 1; }));
    CHECK(second.release(std::nothrow).status() == status::lost);
    second = lease();
    CHECK(lost.use_count() == 1); // and now it is gone
    how.scope = 8;
    CHECK(s.try_acquire("leases/reentrant", how).has_value());
}

CASE(numbered_permits)
{
    store s(check::url);
    options how;

    if (!s.info().can(HF_CAP_NUMBERED))
        return;
    how.kind = kind::semaphore;
    how.capacity = 4;
    how.permits = 2;
    how.numbered = true;
    lease one = s.acquire("leases/numbers", how), two = s.acquire("leases/numbers", how);
    std::vector<std::uint32_t> slots = one.info().slots;
    for (std::uint32_t slot : two.info().slots)
        slots.push_back(slot);
    CHECK(slots == (std::vector<std::uint32_t>{ 0, 1, 2, 3 }));
    CHECK_THROWS(holdfast::unsupported_error, one.fence());
    CHECK(s.inspect("leases/numbers").entries[0].holders[0].slots.size() == 2);
}

CASE(sessions_and_deadlocks)
{
    store s(check::url);
    lease got = s.acquire("leases/session");

    CHECK(!got.session().empty() && !got.session(got.session()).empty());
    CHECK(s.deadlocks().empty());
    // Two threads that wait for each other: one of them hears of it.
    std::atomic<int> holding{ 0 }, victims{ 0 };
    const auto work = [&](const char *first, const char *second) {
        lease one = s.acquire(first);
        holding++;
        CHECK(check::await([&] { return holding == 2; }));
        auto two = s.acquire(second, check::patience, std::nothrow);
        CHECK(two || two.status() == status::deadlock);
        victims += !two;
    };
    std::thread other(work, "leases/d1", "leases/d2");
    work("leases/d2", "leases/d1");
    other.join();
    CHECK(victims == 1);
}

CASE(numbers_of_a_store)
{
    store s(check::url);

    CHECK(s.stats().granted == 0 && s.stats().waits.quantile(0.5) == 0ms);
    lease got = s.acquire("leases/numbers");
    CHECK(!s.try_acquire("leases/numbers"));
    holdfast::store_stats now = s.stats();
    CHECK(now.granted == 1 && now.busy == 1 && now.held == 1 && now.waits.count() == 1);
    CHECK(now.waits.quantile(0.5) >= 1ms && now.holds.count() == 0);
    s.break_lease("leases/numbers", got.token());
    CHECK(got.release(std::nothrow).status() == status::lost);
    now = s.stats();
    CHECK(now.held == 0 && now.holds.count() == 1);
    // Who notices first decides the reason: the store's word, or our release.
    CHECK(now.losses.at("broken") + now.losses.at("forgotten") == 1 &&
          now.losses.at("expired") == 0);

    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < holdfast::histogram::size(); i++)
        sum += now.holds[i];
    CHECK(sum == 1 && now.holds[holdfast::histogram::size()] == 0);
    CHECK(holdfast::histogram::bound(0) == 1ms && holdfast::histogram::bound(3) == 8ms);
    CHECK(holdfast::histogram::bound(holdfast::histogram::size()) ==
          std::chrono::milliseconds::max());
}

CASE(a_store_that_is_watched_and_checked)
{
    store s(check::url);
    const holdfast::store_info info = s.info();

    CHECK(!info.engine.empty() && !info.location.empty() && info.can(HF_CAP_TOKEN));
    CHECK(!s.check().empty());
    CHECK(s.inspect_all("leases/watch*").entries.empty());
    if (!info.can(HF_CAP_WATCH))
        return;
    std::atomic<bool> changed{ false };
    std::thread watcher([&] {
        std::uint64_t seq = s.wait(0, check::patience);
        CHECK(seq != 0);
        changed = true;
    });
    CHECK(check::await([&] {
        (void)s.acquire("leases/watch").token();
        return changed.load();
    }));
    watcher.join();
    holdfast::canceller cancel;
    cancel.fire();
    CHECK_THROWS(holdfast::cancelled_error, s.wait(0, holdfast::forever, &cancel));
}

// Leases that end in a destructor leave nothing behind, however many.
CASE(nothing_leaks)
{
    store s(check::url);
    const auto descriptors = [] {
        int count = 0;
        for (int fd = 0; fd < 1024; fd++)
            count += fcntl(fd, F_GETFD) >= 0;
        return count;
    };
    (void)s.acquire("leases/leak").fd();
    const int before = descriptors();
    for (int i = 0; i < 2000; i++) {
        options how;
        how.on_event = [](const holdfast::event &) {};
        lease got = s.acquire("leases/leak", how);
        CHECK(got.fd() >= 0);
    }
    CHECK(descriptors() == before);
    CHECK(s.inspect_all("leases/leak").entries.empty());
    // One that is forgotten is ended by its store.
    lease forgotten = s.acquire("leases/leak");
    forgotten.forget();
    CHECK_THROWS(holdfast::in_use_error, s.close());
    s.close(true);
    store again(check::url);
    CHECK(again.try_acquire("leases/leak").has_value());
}
