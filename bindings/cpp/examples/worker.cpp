// SPDX-License-Identifier: MIT
// The C++ worker of the test in which all languages share a lock, a semaphore and a counter:
// worker URL SEED SECONDS. It writes one line for each event, each with one write.
#include <holdfast/holdfast.hpp>

#include <cinttypes>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <thread>
#include <unistd.h>

using namespace std::chrono_literals;
using clock_type = std::chrono::steady_clock;

namespace
{

std::int64_t now()
{
    return std::chrono::nanoseconds(clock_type::now().time_since_epoch()).count();
}

// One write(): a SIGKILL never leaves half a line.
[[gnu::format(printf, 2, 3)]] void line(std::int64_t at, const char *format, ...)
{
    char text[512];
    va_list args;
    int len = std::snprintf(text, sizeof text, "%" PRId64 " ", at);

    va_start(args, format);
    len +=
        std::vsnprintf(text + len, sizeof text - static_cast<std::size_t>(len) - 1, format, args);
    va_end(args);
    text[len++] = '\n';
    if (::write(STDOUT_FILENO, text, static_cast<std::size_t>(len)) != len)
        std::_Exit(1);
}

class worker
{
  public:
    worker(const std::string &url, unsigned seed)
        : store_(url), driver_(store_), guard_(store_, "shared-counter"), random_(seed),
          timed_(!store_.info().can(HF_CAP_PROCESS))
    {
    }

    void step()
    {
        static const char *const whats[] = { "mutex", "semaphore", "counter" };
        static const char *const names[] = { "shared-mutex", "shared-semaphore",
                                             "shared-counter-lock" };
        const int what = roll(3);
        holdfast::options how;

        how.wait = choose_wait();
        if (timed_)
            how.ttl = 1000ms;
        if (what == 1) {
            how.kind = holdfast::kind::semaphore;
            how.capacity = 3;
            how.permits = 1 + static_cast<std::uint32_t>(roll(2));
        }
        request_++;
        line(now(), "ask %d %s %u", request_, whats[what], what == 1 ? how.permits : 1);
        holdfast::result<holdfast::lease> got = acquire(names[what], how);
        if (got)
            hold(*got, what == 2);
        else
            line(now(), "not %d %s", request_, holdfast::status_name(got.status()));
    }

  private:
    int roll(int sides)
    {
        return std::uniform_int_distribution<int>(0, sides - 1)(random_);
    }

    holdfast::wait_time choose_wait()
    {
        switch (roll(5)) {
        case 0:
            return holdfast::no_wait;
        case 1:
            return std::chrono::milliseconds(1 + roll(50));
        default:
            return 2s;
        }
    }

    // A third of them without blocking.
    holdfast::result<holdfast::lease> acquire(const char *name, const holdfast::options &how)
    {
        std::optional<holdfast::result<holdfast::lease>> answer;

        if (roll(3) != 0)
            return store_.acquire(name, how, std::nothrow);
        store_.acquire(name, how,
                       [&](holdfast::result<holdfast::lease> got) { answer = std::move(got); });
        driver_.run_until([&] { return answer.has_value(); });
        return std::move(*answer);
    }

    // The time first, then the question.
    bool valid(const holdfast::lease &lease, std::int64_t &at)
    {
        at = now();
        return lease.remaining() > 0ms;
    }

    void hold(holdfast::lease &lease, bool counts)
    {
        std::int64_t at = 0;
        const std::uint64_t token = lease.token();

        if (!valid(lease, at)) {
            lost(lease);
            return;
        }
        line(at, "got %d %" PRIu64, request_, token);
        if (counts)
            count(token);
        std::this_thread::sleep_for(std::chrono::milliseconds(roll(4)));
        if (!valid(lease, at)) {
            lost(lease);
            return;
        }
        line(at, "still %d", request_);
        line(now(), "letting %d", request_);
        const holdfast::status ended = lease.release(std::nothrow).status();
        line(now(), "let %d %s", request_, holdfast::status_name(ended));
    }

    void lost(holdfast::lease &lease)
    {
        line(now(), "lost %d", request_);
        (void)lease.release(std::nothrow);
    }

    void count(std::uint64_t token)
    {
        auto before = guard_.claim(token, std::nothrow);
        if (!before)
            return;
        const long long value = *before ? std::atoll((*before)->c_str()) + 1 : 1;
        line(now(), "adding %lld %" PRIu64, value, token);
        const holdfast::status said =
            guard_.set(token, std::to_string(value), std::nothrow).status();
        const char *word = said == holdfast::status::ok       ? "added"
                           : said == holdfast::status::fenced ? "fenced"
                                                              : "unsure";
        line(now(), "%s %lld %" PRIu64, word, value, token);
    }

    holdfast::store store_;
    holdfast::driver driver_;
    holdfast::guard guard_;
    std::mt19937 random_;
    bool timed_;
    int request_ = 0;
};

} // namespace

int main(int argc, char **argv)
{
    if (argc != 4) {
        std::fputs("usage: worker URL SEED SECONDS\n", stderr);
        return 2;
    }
    try {
        const auto end = clock_type::now() + std::chrono::duration<double>(std::atof(argv[3]));
        worker works(argv[1], static_cast<unsigned>(std::atoi(argv[2])));

        while (clock_type::now() < end)
            works.step();
    } catch (const std::exception &thrown) {
        std::fprintf(stderr, "worker: %s\n", thrown.what());
        return 1;
    }
    return 0;
}
