// SPDX-License-Identifier: MIT
// What is built on leases and cells: every call once, blocking.
#include "check.hpp"

using namespace std::chrono_literals;
using holdfast::lease;
using holdfast::status;
using holdfast::store;

CASE(cells)
{
    store s(check::url);
    holdfast::cell cell(s, "prim/cell");
    const std::string bytes("a\0b", 3);

    CHECK(!cell.get());
    const std::uint64_t one = cell.set(bytes);
    auto got = cell.get();
    CHECK(got && got->bytes == bytes && got->version == one);
    CHECK(got->ttl == std::chrono::milliseconds::max());
    CHECK(!cell.swap(one + 1, "no"));
    const auto two = cell.swap(one, "");
    CHECK(two && *two != one && cell.get()->bytes.empty());
    CHECK(!cell.remove(one));
    CHECK(cell.wait(one, 0ms) == *two);
    CHECK_THROWS(holdfast::timeout_error, cell.wait(*two, 5ms));
    CHECK(cell.remove(*two) && !cell.get());
    CHECK(cell.swap(0, "first").has_value() && !cell.swap(0, "second"));
    CHECK(cell.name() == "prim/cell");
    if (s.info().can(HF_CAP_CELL_TTL)) {
        cell.set("short", 60s);
        CHECK(cell.get()->ttl <= 70s && cell.get()->ttl > 0ms); // some engines round up
    }
    CHECK(cell.set(std::string(HF_CELL_MAX + 1, 'x'), {}, std::nothrow).status() ==
          status::invalid);
}

CASE(cells_are_updated)
{
    store s(check::url);
    holdfast::cell cell(s, "prim/update");
    const auto add_one = [](const std::optional<holdfast::cell_value> &old) {
        return holdfast::cell_change::write(std::to_string(old ? std::stoi(old->bytes) + 1 : 1));
    };
    std::vector<std::thread> threads;

    for (int t = 0; t < 4; t++)
        threads.emplace_back([&] {
            for (int i = 0; i < 25; i++)
                cell.update(add_one, check::patience);
        });
    for (std::thread &thread : threads)
        thread.join();
    CHECK(cell.get()->bytes == "100");
    // What the function throws comes out, and nothing is written.
    CHECK_THROWS(std::runtime_error, cell.update([](const auto &) -> holdfast::cell_change {
        throw std::runtime_error("no");
    }));
    CHECK(cell.get()->bytes == "100");
    CHECK(cell.update([](const auto &) { return holdfast::cell_change::leave(); }) ==
          cell.get()->version);
    CHECK(cell.update([](const auto &) { return holdfast::cell_change::remove(); }) == 0);
    CHECK(!cell.get());
    CHECK(cell.update(add_one, holdfast::forever, nullptr, std::nothrow).value() != 0);
}

CASE(cells_wake)
{
    store s(check::url);
    holdfast::cell cell(s, "prim/wake");
    const std::uint64_t one = cell.set("1");
    std::thread writer([&] { cell.set("2"); });

    CHECK(cell.wait(one, check::patience) != one);
    writer.join();
    CHECK(cell.get()->bytes == "2");
}

CASE(cells_are_committed)
{
    store s(check::url);

    if (!s.info().can(HF_CAP_COMMIT))
        return;
    const auto done =
        holdfast::commit(s, { holdfast::cell_item::write("prim/c1", 0, "one"),
                              holdfast::cell_item::write("prim/c2", HF_CELL_ANY, "two") });
    CHECK(done.committed && done.versions.size() == 2);
    CHECK(holdfast::cell(s, "prim/c2").get()->version == done.versions[1]);
    const auto not_done =
        holdfast::commit(s, { holdfast::cell_item::expect("prim/c1", done.versions[0]),
                              holdfast::cell_item::remove("prim/c2", done.versions[1] + 1) });
    CHECK(!not_done.committed && not_done.index == 1 && not_done.version == done.versions[1]);
    CHECK(holdfast::cell(s, "prim/c2").get().has_value());
}

CASE(counters)
{
    store s(check::url);
    holdfast::counter counter(s, "prim/counter");

    CHECK(counter.get() == 0 && counter.add() == 1 && counter.add(-5) == -4);
    counter.set(10);
    CHECK(counter.swap(10, 20).swapped);
    const holdfast::counter_swap not_swapped = counter.swap(10, 30);
    CHECK(!not_swapped.swapped && not_swapped.current == 20);
    counter.set(INT64_MAX);
    CHECK(counter.add(1, std::nothrow).status() == status::overflow);
    counter.remove();
    CHECK(counter.get() == 0);
}

CASE(guards)
{
    store s(check::url);
    holdfast::guard guard(s, "prim/guard");
    std::uint64_t old_token;
    {
        const lease first = s.acquire("prim/guard-lock");
        old_token = first.fence();
        CHECK(!guard.claim(old_token));
        guard.set(old_token, "one");
    }
    const lease second = s.acquire("prim/guard-lock");
    CHECK(guard.claim(second.fence()) == "one");
    CHECK_THROWS(holdfast::fenced_error, guard.set(old_token, "late"));
    CHECK(guard.claim(old_token, std::nothrow).status() == status::fenced);
    guard.set(second.fence(), "");
    CHECK(guard.claim(second.fence()) == "");
}

CASE(limits)
{
    store s(check::url);
    const holdfast::limit_rule rule{ holdfast::limit_algorithm::bucket, 2, 1h, 2 };
    holdfast::limit limit(s, "prim/limit", rule);

    if (!s.info().can(HF_CAP_CLOCK))
        return;
    holdfast::limit_state state = limit.take();
    CHECK(state.granted && state.left == 1 && state.at > 0us);
    CHECK(limit.try_take().granted);
    state = limit.try_take();
    CHECK(!state.granted && state.retry > 0ms);
    state = limit.take(1, 1ms);
    CHECK(!state.granted);
    state = limit.get();
    CHECK(state.left == 0 && state.rule.rate == 2 && state.rule.per.ms() == 3600 * 1000);
    CHECK(state.rule.algorithm == holdfast::limit_algorithm::bucket && !state.is_set);
    state = limit.set({ holdfast::limit_algorithm::bucket, 10, 1h, 10 });
    CHECK(state.is_set && state.rule.burst == 10);
    CHECK(limit.try_take(2).granted); // as set now
    CHECK(limit.take(3, 0ms, nullptr, std::nothrow).status() == status::invalid);
    holdfast::limit other(s, "prim/limit", { holdfast::limit_algorithm::fixed, 2, 1h, 0 });
    CHECK(other.try_take(1, std::nothrow).status() == status::mismatch);
}

CASE(latches)
{
    store s(check::url);
    holdfast::latch latch(s, "prim/latch");

    CHECK_THROWS(holdfast::not_found_error, latch.get());
    latch.create(2);
    CHECK(latch.get().count == 2 && latch.get().left == 2);
    CHECK_THROWS(holdfast::timeout_error, latch.wait(5ms));
    lease joined = latch.join("one");
    CHECK(joined.held());
    CHECK(latch.count_down("one") == 1 && latch.count_down("one") == 1);
    joined.release();
    CHECK_THROWS(holdfast::invalid_error, latch.count_down(std::string("t\0o", 3)));
    std::thread last([&] { CHECK(latch.count_down("two") == 0); });
    latch.wait(check::patience);
    last.join();
    latch.remove();
    latch.create(1);
    lease dying = latch.join("dying");
    dying.release();
    CHECK_THROWS(holdfast::broken_error, latch.wait(check::patience));
    latch.remove();
}

CASE(barriers)
{
    store s(check::url);
    holdfast::barrier barrier(s, "prim/barrier", 3), both(s, "prim/double", 2);
    std::atomic<int> come{ 0 }, inside{ 0 };
    std::vector<std::thread> threads;

    CHECK_THROWS(holdfast::timeout_error, barrier.arrive_and_wait("alone", 5ms));
    for (int t = 0; t < 3; t++)
        threads.emplace_back([&] {
            come++;
            barrier.arrive_and_wait({}, check::patience);
            CHECK(come == 3);
        });
    for (int t = 0; t < 2; t++)
        threads.emplace_back([&, t] {
            lease party = both.enter("p" + std::to_string(t), check::patience);
            inside++;
            CHECK(check::await([&] { return inside == 2; }));
            holdfast::barrier::leave(party, check::patience);
            CHECK(!party);
        });
    for (std::thread &thread : threads)
        thread.join();
}

CASE(elections)
{
    store s(check::url), observer(check::url);
    holdfast::election election(s, "prim/election");
    const holdfast::election watched(observer, "prim/election");

    CHECK(!watched.wait().leads);
    lease leader = election.campaign("host:1");
    holdfast::leader_info seen = watched.wait();
    CHECK(seen.leads && seen.value == "host:1" && seen.token == leader.token());
    CHECK_THROWS(holdfast::timeout_error, watched.wait(seen, 5ms));
    holdfast::election::publish(leader, "host:2");
    seen = watched.wait(seen, check::patience);
    CHECK(seen.value == "host:2");
    holdfast::election::resign(leader);
    CHECK(!leader);
    seen = watched.wait(seen, check::patience);
    CHECK(!seen.leads);
    lease again = election.campaign("host:3", 0ms);
    s.break_lease("prim/election", again.token());
    CHECK(check::await([&] { return !again.held(); }));
    CHECK_THROWS(holdfast::lost_error, holdfast::election::publish(again, "late"));
}

CASE(groups)
{
    store s(check::url), other(check::url);
    holdfast::group group(s, "prim/group");
    const holdfast::group watched(other, "prim/group");

    if (!s.info().can(HF_CAP_SHARED | HF_CAP_INSPECT | HF_CAP_TOKEN))
        return;
    holdfast::member_list list = watched.wait();
    CHECK(list.members.empty());
    lease one = group.join("one");
    list = watched.wait(list, check::patience);
    CHECK(list.members.size() == 1 && list.members[0].value == "one");
    CHECK(list.members[0].token == one.token());
    CHECK_THROWS(holdfast::timeout_error, watched.wait(list, 5ms));
    holdfast::group::leave(one);
    list = watched.wait(list, check::patience);
    CHECK(list.members.empty() && !one);
}

CASE(work_that_is_done_once)
{
    store s(check::url);
    holdfast::once once(s, "prim/once");

    CHECK(!once.get());
    {
        const holdfast::once_begun begun = once.begin(); // and not finished
        CHECK(begun && !begun.mark && begun.lease.held());
    }
    {
        holdfast::once_begun begun = once.begin();
        CHECK(begun);
        holdfast::once::finish(begun.lease);
    }
    const holdfast::once_begun again = once.begin();
    CHECK(!again && again.mark && again.mark->token != 0 && again.mark->at > 0ms);
    CHECK(again.mark->ttl == std::chrono::milliseconds::max());
    CHECK(once.get()->token == again.mark->token);
    lease held = s.acquire("prim/once");
    CHECK(holdfast::once::claim(held).has_value());
    once.remove();
    CHECK_THROWS(holdfast::not_found_error, once.remove());
    CHECK(!holdfast::once::claim(held));
    holdfast::once::finish(held);
    CHECK(once.get().has_value());
}

CASE(cells_of_a_lease)
{
    store s(check::url);

    lease got = s.acquire("prim/owner");
    CHECK(!s.read_lease_cell("prim/bound"));
    got.set_cell("prim/bound", "alive");
    const auto seen = s.read_lease_cell("prim/bound");
    CHECK(seen && seen->bytes == "alive" && seen->version != 0);
    got.release();
    CHECK(!s.read_lease_cell("prim/bound"));
}

CASE(engines_and_version)
{
    bool embedded = false;

    for (const holdfast::engine_info &engine : holdfast::engines()) {
        CHECK(!engine.name.empty() && (engine.available || !engine.why_not.empty()));
        embedded = embedded || (engine.name == "lmdb" && engine.available && engine.caps != 0);
    }
    CHECK(embedded);
    CHECK(std::string(holdfast::version()) == std::to_string(HF_VERSION_MAJOR) + "." +
                                                  std::to_string(HF_VERSION_MINOR) + "." +
                                                  std::to_string(HF_VERSION_PATCH));
}
