// SPDX-License-Identifier: MIT
// What several processes share, and what a child after fork() may do. Built without sanitizers: the address sanitizer of GCC 12 does
// not hold its allocator's locks during a fork, so a child of a process with threads can wait for one for ever.
#include "check.hpp"

using namespace std::chrono_literals;
using holdfast::lease;
using holdfast::options;
using holdfast::store;

CASE(exclusion_between_processes)
{
    std::FILE *shared = std::tmpfile();
    std::vector<pid_t> children;
    const int fd = fileno(shared);

    // A read and a write that are two steps: without the lock some are lost.
    for (int c = 0; c < 4; c++)
        children.push_back(check::in_child([&] {
            store mine(check::url);
            holdfast::mutex m(mine, "locks/processes");
            for (int i = 0; i < 100; i++) {
                std::lock_guard lock(m);
                int number = 0;
                CHECK(pread(fd, &number, sizeof number, 0) >= 0);
                std::this_thread::yield();
                number++;
                CHECK(pwrite(fd, &number, sizeof number, 0) == sizeof number);
            }
        }));
    for (pid_t child : children)
        CHECK(check::ended_well(child));
    int number = 0;
    CHECK(pread(fd, &number, sizeof number, 0) == sizeof number && number == 400);
    std::fclose(shared);
}

CASE(exported_and_adopted)
{
    store s(check::url);
    options how;
    std::string text;

    if (!s.info().can(HF_CAP_DETACHED))
        return;
    how.detached = true;
    how.ttl = 60s;
    {
        lease got = s.acquire("leases/detached", how);
        text = got.export_text();
        got.forget();
        CHECK(!got);
    }
    CHECK(check::ended_well(check::in_child([&] {
        store mine(check::url);
        CHECK(!mine.try_acquire("leases/detached"));
        CHECK_THROWS(holdfast::invalid_error, mine.adopt("leases/detached", "nonsense"));
        mine.adopt("leases/detached", text).release();
    })));
    CHECK_THROWS(holdfast::not_found_error, s.adopt("leases/detached", text));
    CHECK(s.try_acquire("leases/detached").has_value());
    lease plain = s.acquire("leases/plain");
    CHECK_THROWS(holdfast::unsupported_error, plain.export_text());
}

static std::atomic<int> reported{ 0 };

// A child has copies of the parent's guards: each call says so, and their ends release nothing.
CASE(a_child_after_fork)
{
    auto s = std::make_unique<store>(check::url);
    auto held = std::make_unique<holdfast::lease>(s->acquire("errors/fork"));
    auto locked = std::make_unique<holdfast::mutex>(*s, "errors/fork-mutex");

    holdfast::set_release_hook([](const holdfast::failure &) { reported++; });
    locked->lock();
    CHECK(check::ended_well(check::in_child([&] {
        CHECK_THROWS(holdfast::forked_error, s->acquire("errors/fork"));
        CHECK_THROWS(holdfast::forked_error, held->renew());
        CHECK(!held->held() && held->token() == 0);
        locked->unlock();
        locked.reset();
        held.reset();
        s.reset();
        CHECK(reported == 0);
        store mine(check::url);
        CHECK(!mine.try_acquire("errors/fork") && !mine.try_acquire("errors/fork-mutex"));
    })));
    CHECK(held->held() && locked->held());
    CHECK(held->release(std::nothrow) && locked->release());
    CHECK(reported == 0);
    holdfast::set_release_hook(nullptr);
}
