// SPDX-License-Identifier: MIT
// How fast is an uncontended acquire and release? bench URL SECONDS
#include <holdfast/holdfast.hpp>

#include <cstdio>
#include <cstdlib>

using clock_type = std::chrono::steady_clock;

static double pairs_per_second(const holdfast::store &store, std::chrono::duration<double> time)
{
    const auto begin = clock_type::now();
    std::chrono::duration<double> passed{};
    std::uint64_t pairs = 0;

    while ((passed = clock_type::now() - begin) < time) {
        for (int i = 0; i < 16; i++) {
            holdfast::lease lease = store.acquire("bench");
            lease.release();
        }
        pairs += 16;
    }
    return static_cast<double>(pairs) / passed.count();
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        std::fputs("usage: bench URL SECONDS\n", stderr);
        return 2;
    }
    try {
        const holdfast::store store(argv[1]);
        const std::chrono::duration<double> time(std::atof(argv[2]));

        (void)pairs_per_second(store, time / 10);
        std::printf("pairs_per_second %.0f\n", pairs_per_second(store, time));
    } catch (const std::exception &thrown) {
        std::fprintf(stderr, "bench: %s\n", thrown.what());
        return 1;
    }
    return 0;
}
