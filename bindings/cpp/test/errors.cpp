// SPDX-License-Identifier: MIT
// Errors, durations and secrets.
#include "check.hpp"

using namespace std::chrono_literals;
using holdfast::status;
using holdfast::store;
using holdfast::time_span;
using holdfast::wait_time;

// What is not zero never becomes zero.
static_assert(time_span(1ns).ms() == 1 && time_span(0s).ms() == 0 && time_span().ms() == 0);
static_assert(time_span(1500us).ms() == 2 && time_span(3s).ms() == 3000);
static_assert(time_span(std::chrono::duration<double>(0.0001)).ms() == 1);
static_assert(time_span(-1ns).ms() == -1);
static_assert(wait_time().ms() == HF_FOREVER && wait_time(0s).ms() == 0);
static_assert(wait_time(-1s).ms() == 0 && wait_time(1ns).ms() == 1);
static_assert(wait_time(std::chrono::hours::max()).ms() == HF_DURATION_MAX_MS);
static_assert(wait_time(std::chrono::nanoseconds::min()).ms() == 0);

// Our names are the library's numbers, and none is missing.
CASE(every_status_has_a_name)
{
    int known = 0;

#define COUNT(name, number, text)                                                      \
    CHECK(std::string(holdfast::status_name(static_cast<status>(number))) == #name);   \
    CHECK(holdfast::make_error_code(static_cast<status>(number)).message() == (text)); \
    known++;
    HF_STATUS_MAP(COUNT)
#undef COUNT
    CHECK(known == static_cast<int>(status::yielded) + 1);
}

CASE(codes_are_conditions)
{
    const std::error_code code = status::timeout;

    CHECK(code == std::errc::timed_out && code.category() == holdfast::category());
    CHECK(std::string(code.category().name()) == "holdfast");
    CHECK(make_error_code(status::cancelled) == std::errc::operation_canceled);
    CHECK(make_error_code(status::deadlock) == std::errc::resource_deadlock_would_occur);
    CHECK(make_error_code(status::lost) == status::lost);
    CHECK(make_error_code(status::lost) != std::errc::timed_out);
    CHECK(!std::error_code(status::ok));
}

CASE(exceptions_have_it_all)
{
    store s(check::url);
    const holdfast::lease held = s.acquire("errors/busy");

    try {
        (void)s.acquire("errors/busy", holdfast::no_wait);
        CHECK(false);
    } catch (const std::system_error &thrown) {
        const auto *error = dynamic_cast<const holdfast::busy_error *>(&thrown);
        CHECK(error && error->status() == status::busy && error->code() == status::busy);
        CHECK(error->text().find("errors/busy") != std::string::npos);
        CHECK(error->text() == thrown.what() && error->native() == 0);
        CHECK(error->failure().text() == error->text());
    }
    auto got = s.acquire("errors/busy", holdfast::no_wait, std::nothrow);
    CHECK(!got && !got.has_value() && got.error().code() == status::busy);
    CHECK_THROWS(holdfast::busy_error, got.value());
    CHECK_THROWS(holdfast::busy_error, std::move(got).value());
    CHECK_THROWS(holdfast::error, holdfast::failure(status::full, "full").raise());
}

CASE(bad_arguments)
{
    store s(check::url);
    holdfast::options how;

    CHECK_THROWS(holdfast::config_error, store("nonsense://x"));
    CHECK_THROWS(holdfast::invalid_error, store(std::string("file:/tmp\0/x", 12)));
    CHECK_THROWS(holdfast::invalid_error, s.acquire(""));
    how.kind = holdfast::kind::semaphore;
    CHECK_THROWS(holdfast::invalid_error, s.acquire("errors/none", how));
    how.capacity = 2;
    const holdfast::lease permit = s.acquire("errors/mixed", how);
    CHECK_THROWS(holdfast::mismatch_error, s.acquire("errors/mixed"));
    how = {};
    how.barge = how.strict = how.no_renew = true;
    how.linger = holdfast::linger_never;
    how.session = "ignored";
    CHECK(s.acquire("errors/flags", how, std::nothrow).status() != status::busy);
    holdfast::open_options existing;
    existing.existing = true;
    CHECK(store::open("file:/nonexistent/holdfast", existing, std::nothrow).status() ==
          status::not_found);
}

CASE(a_server_that_is_not_there)
{
    holdfast::open_options once;

    once.once = true;
    once.label = "me";
    auto opened = store::open("redis://:sesame@127.0.0.1:1/", once, std::nothrow);
    CHECK(!opened && opened.status() == status::unavailable);
    CHECK(opened.error().text().find("sesame") == std::string::npos);
}

CASE(secrets_stay_secret)
{
    for (const char *url : { "redis://:sesame@127.0.0.1:1/?nonsense=1", "redis://u:sesame@/x y",
                             "postgresql://app:sesame@127.0.0.1:1/x?mode=nonsense" }) {
        holdfast::open_options once;
        once.once = true;
        auto opened = store::open(url, once, std::nothrow);
        CHECK(!opened);
        CHECK(opened.error().text().find("sesame") == std::string::npos);
    }
}

CASE(closed_and_moved)
{
    store s(check::url), gone(std::move(s));
    holdfast::lease held = gone.acquire("errors/closed");

    CHECK_THROWS(holdfast::invalid_error, s.info());
    CHECK_THROWS(holdfast::in_use_error, gone.close());
    gone.close(true);
    CHECK(!held.held() && held.release(std::nothrow).status() == status::lost);
    CHECK_THROWS(holdfast::invalid_error, gone.acquire("errors/closed"));
    CHECK_THROWS(holdfast::invalid_error, gone.close());
    gone = store(check::url);
    CHECK(gone.try_acquire("errors/closed").has_value());
}
