// SPDX-License-Identifier: MIT
// Two workers, a token, a loss: workers [URL]. The first one loses its lock to an operator, does not
// look, and writes all the same. The guard refuses it, because a newer token has been used.
#include <holdfast/holdfast.hpp>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <thread>

namespace
{

// Without a URL: an embedded store in a directory that is removed again.
struct place {
    std::string url, directory;

    explicit place(const char *given)
    {
        char name[] = "/tmp/holdfast-workers.XXXXXX";

        if (given)
            url = given;
        else if (mkdtemp(name))
            url = "file:" + (directory = name);
    }

    ~place()
    {
        if (!directory.empty())
            std::filesystem::remove_all(directory);
    }
};

void say(const char *line)
{
    std::puts(line);
}

void holds(const char *who, std::uint64_t token)
{
    std::printf("%s: holds report, token %llu\n", who, static_cast<unsigned long long>(token));
}

struct story {
    std::promise<std::uint64_t> first_holds;
    std::promise<void> first_lost, second_wrote, first_ended;
};

void first(const std::string &url, story &tell)
{
    holdfast::store store(url);
    holdfast::guard page(store, "page");
    std::promise<void> lost;
    holdfast::options how;

    how.on_event = [&](const holdfast::event &what) {
        if (what.kind == holdfast::event_kind::lost)
            lost.set_value();
    };
    holdfast::lease lease = store.acquire("report", how);
    const std::uint64_t token = lease.fence();

    holds("first", token);
    page.set(token, "by first");
    say("first: wrote page");
    tell.first_holds.set_value(token);

    lost.get_future().wait();
    say("first: lost report");
    tell.first_lost.set_value();

    // It should stop here. It does not, and the token stops it.
    tell.second_wrote.get_future().wait();
    try {
        page.set(token, "by first, late");
    } catch (const holdfast::fenced_error &) {
        say("first: refused, a newer token was used");
    }
    (void)lease.release(std::nothrow); // lost: there is nothing to give back
    tell.first_ended.set_value();
}

void second(const std::string &url, story &tell)
{
    holdfast::store store(url);
    holdfast::guard page(store, "page");
    holdfast::lease lease = store.acquire("report");
    const std::uint64_t token = lease.fence();

    tell.first_lost.get_future().wait();
    holds("second", token);
    (void)page.claim(token); // before reading: from now on no older token counts
    page.set(token, "by second");
    say("second: wrote page");
    tell.second_wrote.set_value();

    tell.first_ended.get_future().wait();
    lease.release();
    say("second: released");
}

bool somebody_waits(const holdfast::store &store)
{
    const holdfast::view seen = store.inspect("report");
    return !seen.entries.empty() && !seen.entries[0].waiters.empty();
}

void run(const std::string &url)
{
    holdfast::store store(url);
    story tell;
    std::thread one([&] { first(url, tell); });
    const std::uint64_t token = tell.first_holds.get_future().get();
    std::thread two([&] { second(url, tell); });

    while (!somebody_waits(store))
        std::this_thread::yield();
    store.break_lease("report", token); // as an operator would
    one.join();
    two.join();

    const holdfast::lease lease = store.acquire("report");
    std::printf("page: %s\n", holdfast::guard(store, "page").claim(lease.fence())->c_str());
}

} // namespace

int main(int argc, char **argv)
{
    try {
        const place where(argc > 1 ? argv[1] : nullptr);
        run(where.url);
    } catch (const std::exception &thrown) {
        std::fprintf(stderr, "workers: %s\n", thrown.what());
        return 1;
    }
    return 0;
}
