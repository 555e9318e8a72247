// SPDX-License-Identifier: MIT
// A program without exceptions, of two translation units: this file, and this file with OTHER. The forms with std::nothrow are all it needs.
#include <holdfast/holdfast.hpp>

bool is_busy(const char *url);

#ifdef OTHER

bool is_busy(const char *url)
{
    const auto store = holdfast::store::open(url, {}, std::nothrow);
    const auto got = store->acquire("no-exceptions", std::chrono::seconds(0), std::nothrow);

    return !got && got.status() == holdfast::status::busy;
}

#else

int main(int argc, char **argv)
{
    const auto store = argc > 1 ? holdfast::store::open(argv[1], {}, std::nothrow)
                                : holdfast::failure(holdfast::status::invalid, "usage");
    if (!store)
        return 1;
    auto lease = store->acquire("no-exceptions", {}, std::nothrow);
    if (!lease || !is_busy(argv[1]))
        return 2;
    if (!lease->release(std::nothrow) || is_busy(argv[1]))
        return 3;
    return lease->renew({}, std::nothrow) ? 4 : 0;
}

#endif
