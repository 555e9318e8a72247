// SPDX-License-Identifier: MIT
// A test program: cases, checks and a main. The URL of the store is its argument.
#ifndef HOLDFAST_TEST_CHECK_HPP
#define HOLDFAST_TEST_CHECK_HPP

#include <holdfast/holdfast.hpp>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace check
{

using namespace std::chrono_literals;

inline std::string url;
inline std::atomic<int> wrong{ 0 };

// Long enough for any machine: a test that waits this long has failed.
inline constexpr std::chrono::seconds patience{ 60 };

struct test_case {
    const char *name;
    void (*run)();
};

inline std::vector<test_case> &cases()
{
    static std::vector<test_case> list;
    return list;
}

struct add {
    add(const char *name, void (*run)())
    {
        cases().push_back({ name, run });
    }
};

inline void complain(const char *file, int line, const char *what)
{
    std::fprintf(stderr, "%s:%d: %s\n", file, line, what);
    wrong++;
}

// Wait for something that another thread or process does.
template <typename Predicate> bool await(Predicate done)
{
    const auto end = std::chrono::steady_clock::now() + patience;

    while (!done()) {
        if (std::chrono::steady_clock::now() > end)
            return false;
        std::this_thread::sleep_for(1ms);
    }
    return true;
}

// How many wait for a name, as the store sees it: not those of the same handle as the holder, which
// wait within the process.
inline std::size_t waiters(const holdfast::store &store, std::string_view name)
{
    const holdfast::view seen = store.inspect(name);
    return seen.entries.empty() ? 0 : seen.entries[0].waiters.size();
}

inline std::size_t holders(const holdfast::store &store, std::string_view name)
{
    const holdfast::view seen = store.inspect(name);
    return seen.entries.empty() ? 0 : seen.entries[0].holders.size();
}

// Does `call` throw a holdfast::error of this type, and nothing else?
template <typename Error, typename Call> bool throws(Call call)
{
    try {
        call();
    } catch (const Error &) {
        return true;
    } catch (const std::exception &other) {
        std::fprintf(stderr, "another exception: %s\n", other.what());
    }
    return false;
}

// Run something in a process of its own; its status.
template <typename Work> pid_t in_child(Work work)
{
    const pid_t pid = fork();

    if (pid != 0)
        return pid;
    try {
        work();
    } catch (const std::exception &thrown) {
        std::fprintf(stderr, "child: %s\n", thrown.what());
        wrong++;
    }
    _exit(wrong == 0 ? 0 : 1);
}

inline bool ended_well(pid_t pid)
{
    int status = 0;
    return waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

} // namespace check

#define CHECK(condition)                                     \
    do {                                                     \
        if (!(condition))                                    \
            check::complain(__FILE__, __LINE__, #condition); \
    } while (0)
#define CHECK_THROWS(error, call) CHECK(check::throws<error>([&] { (void)(call); }))
#define CASE(name)                                   \
    static void name();                              \
    static const check::add add_##name(#name, name); \
    static void name()

int main(int argc, char **argv)
{
    int failed = 0;

    if (argc < 2 || argv[argc - 1][0] == 0)
        return 2;
    check::url = argv[argc - 1];
    for (const check::test_case &item : check::cases()) {
        const char *only = std::getenv("ONLY");
        if (only && std::string(only) != item.name)
            continue;
        check::wrong = 0;
        try {
            item.run();
        } catch (const std::exception &thrown) {
            check::complain(item.name, 0, thrown.what());
        }
        std::printf("%s %s\n", check::wrong == 0 ? "ok    " : "FAILED", item.name);
        std::fflush(stdout);
        failed += check::wrong != 0;
    }
    std::printf("%zu passed, %d failed\n", check::cases().size() - static_cast<std::size_t>(failed),
                failed);
    return failed != 0;
}

#endif
