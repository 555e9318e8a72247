// SPDX-License-Identifier: MIT
/// @file
/// A store: where names are kept. It gives leases, and lists their holders.
#ifndef HOLDFAST_CPP_STORE_HPP
#define HOLDFAST_CPP_STORE_HPP

#include <holdfast/cpp/inspect.hpp>
#include <holdfast/cpp/lease.hpp>
#include <holdfast/cpp/stats.hpp>

namespace holdfast
{

/// A name and its options, for calls that take several.
struct request {
    /// Of its parts.
    request(std::string called, holdfast::options how = {})
        : name(std::move(called)), options(std::move(how))
    {
    }

    std::string name;          ///< 1 to HF_NAME_MAX bytes.
    holdfast::options options; ///< As of store::acquire().
};

/// What store::acquire_any() has got.
struct any_lease {
    std::size_t index = 0; ///< Of which request.
    holdfast::lease lease; ///< Its lease.
};

/// A cell that is bound to a lease.
struct lease_cell {
    std::string bytes;         ///< What it holds.
    std::uint64_t version = 0; ///< Its version.
};

/// An open store. Its destructor closes it and releases whatever is still held in it. Every method
/// may be called by any thread. For the last argument of most of them, `mode`, see call.hpp.
class store
{
  public:
    /// Open the store at `url`, like "file:/path" or "redis://host", or that of a profile. Throws
    /// config_error (also for an empty url), unavailable_error, denied_error, ...
    explicit store(const std::string &url, const open_options &how = {})
        : store(open(url, how, std::nothrow).value())
    {
    }

    /// Open the store that the command holdfast uses without -S: that of the variable HOLDFAST_STORE,
    /// else of the "default" of the configuration file, else the user's own embedded store.
    /// store_info::source says which of these it was.
    explicit store(const open_options &how = {}) : store(open(how, std::nothrow).value())
    {
    }

    /// The same, without an exception.
    static result<store> open(const std::string &url, const open_options &how, std::nothrow_t)
    {
        hf_error err;

        if (detail::holds_nul(url, &err))
            return failure(err);
        return open_at(url.c_str(), how);
    }

    /// The same, without an exception.
    static result<store> open(const open_options &how, std::nothrow_t)
    {
        return open_at(nullptr, how);
    }

    /// The other one has none then.
    store(store &&other) noexcept : handle_(std::exchange(other.handle_, nullptr))
    {
    }

    /// The one that was here before is closed.
    store &operator=(store &&other) noexcept
    {
        store before(std::move(*this));
        handle_ = std::exchange(other.handle_, nullptr);
        return *this;
    }

    store(const store &) = delete;
    store &operator=(const store &) = delete;

    /// Closes, and releases what is held. Not from within a callback of this store.
    ~store()
    {
        if (handle_)
            (void)hf_close(handle_, HF_CLOSE_FLAG_RELEASE);
    }

    /// Close now. While something is held or waits: in_use_error, and it stays open, unless
    /// `release` is true: then what is held is released, and what waits is cancelled.
    template <typename Mode = throwing_t>
    answer<void, Mode> close(bool release = false, Mode mode = {})
    {
        return detail::run<void>(
            mode,
            [&](hf_result &, hf_error *) {
                const hf_status status = hf_close(handle_, release ? HF_CLOSE_FLAG_RELEASE : 0);
                if (status == HF_OK)
                    handle_ = nullptr;
                return status;
            },
            nullptr, detail::nothing());
    }

    /// The C handle.
    hf_store *native() const noexcept
    {
        return handle_;
    }

    /// What this store is, and what it can do.
    template <typename Mode = throwing_t> answer<store_info, Mode> info(Mode mode = {}) const
    {
        hf_store_info raw = HF_STORE_INFO_INIT;
        return detail::run<store_info>(
            mode, [&](hf_result &, hf_error *) { return hf_store_get(handle_, &raw); }, nullptr,
            [&](const hf_result &) { return info_of(raw); });
    }

    /// What this process has done with this store, as numbers: for metrics.
    template <typename Mode = throwing_t> answer<store_stats, Mode> stats(Mode mode = {}) const
    {
        hf_stats raw = HF_STATS_INIT;
        return detail::run<store_stats>(
            mode, [&](hf_result &, hf_error *) { return hf_stats_get(handle_, &raw); }, nullptr,
            [&](const hf_result &) { return detail::stats_of(raw); });
    }

    /// Is this store safe for what it promises?
    template <typename Mode = throwing_t>
    answer<std::vector<finding>, Mode> check(Mode mode = {}) const
    {
        return detail::run<std::vector<finding>>(
            std::move(mode),
            [&](hf_result &raw, hf_error *err) {
                return hf_store_check(handle_, &raw.report, err);
            },
            [&](auto... rest) { return hf_store_check_async(handle_, rest...); },
            detail::findings_of);
    }

    /// Acquire what is asked for; waits for ever unless `how` says otherwise. Returns a lease.
    template <typename Mode = throwing_t>
    answer<lease, Mode> acquire(std::string_view name, const options &how = {},
                                Mode mode = {}) const
    {
        return obtain(
            name, how, std::move(mode),
            [&](const hf_acquire_request &request, hf_lease **lease, hf_error *err) {
                return hf_acquire(handle_, &request, lease, err);
            },
            [&](const hf_acquire_request &request, auto... rest) {
                return hf_acquire_async(handle_, &request, rest...);
            });
    }

    /// Try once. Empty: another holder has it. options::wait is not used.
    std::optional<lease> try_acquire(std::string_view name, options how = {}) const
    {
        return try_acquire_for(name, no_wait, std::move(how));
    }

    /// Try for a while. Empty: it was not granted. options::wait is not used.
    std::optional<lease> try_acquire_for(std::string_view name, wait_time wait,
                                         options how = {}) const
    {
        how.wait = wait;
        auto got = acquire(name, how, std::nothrow);
        if (got.status() == status::busy || got.status() == status::timeout)
            return std::nullopt;
        return std::move(got).value();
    }

    /// Acquire all, or nothing; each has its own token. They have the same wait, cancel, scope and
    /// session. Returns a vector of leases, in the order of the requests.
    template <typename Mode = throwing_t>
    answer<std::vector<lease>, Mode> acquire_all(const std::vector<request> &requests,
                                                 Mode mode = {}) const
    {
        several raw(requests);
        return detail::run<std::vector<lease>>(
            std::move(mode),
            [&](hf_result &out, hf_error *err) {
                out.leases = raw.handles.data();
                return hf_acquire_all(handle_, raw.list.data(), raw.list.size(), raw.handles.data(),
                                      err);
            },
            [&](auto... rest) {
                raw.set_async();
                return hf_acquire_all_async(handle_, raw.list.data(), raw.list.size(), rest...);
            },
            [states = raw.states,
             leases = std::vector<lease>(requests.size())](const hf_result &out) mutable {
                for (std::size_t i = 0; i < states.size(); i++) {
                    states[i]->handle = out.leases[i];
                    leases[i] = lease(states[i]);
                }
                return std::move(leases);
            });
    }

    /// Acquire one of several, whichever comes free first. Returns an any_lease.
    template <typename Mode = throwing_t>
    answer<any_lease, Mode> acquire_any(const std::vector<request> &requests, Mode mode = {}) const
    {
        several raw(requests);
        return detail::run<any_lease>(
            std::move(mode),
            [&](hf_result &out, hf_error *err) {
                std::size_t index = 0;
                const hf_status status = hf_acquire_any(handle_, raw.list.data(), raw.list.size(),
                                                        &index, &out.lease, err);
                out.number = static_cast<std::int64_t>(index);
                return status;
            },
            [&](auto... rest) {
                raw.set_async();
                return hf_acquire_any_async(handle_, raw.list.data(), raw.list.size(), rest...);
            },
            [states = raw.states](const hf_result &out) {
                const auto index = static_cast<std::size_t>(out.number);
                states[index]->handle = out.lease;
                return any_lease{ index, lease(states[index]) };
            });
    }

    /// Take over a detached lease by the text of lease::export_text(). `renew`: go on renewing it.
    template <typename Mode = throwing_t>
    answer<lease, Mode> adopt(std::string_view name, const std::string &text, time_span ttl = {},
                              bool renew = true, Mode mode = {}) const
    {
        hf_adopt_request raw = HF_ADOPT_REQUEST_INIT;
        raw.name = name.data();
        raw.name_len = name.size();
        raw.text = text.c_str();
        raw.ttl_ms = ttl.ms();
        raw.renew = renew;
        return grant(
            detail::new_state({}), std::move(mode),
            [&](hf_lease **lease, hf_error *err) {
                return hf_lease_adopt(handle_, &raw, lease, err);
            },
            [&](auto... rest) { return hf_lease_adopt_async(handle_, &raw, rest...); });
    }

    /// End exactly the lease that holds `name` with `token`, whoever owns it; its holder is told.
    template <typename Mode = throwing_t>
    answer<void, Mode> break_lease(std::string_view name, std::uint64_t token, Mode mode = {}) const
    {
        return detail::run<void>(
            std::move(mode),
            [&](hf_result &, hf_error *err) {
                return hf_lease_break(handle_, name.data(), name.size(), token, err);
            },
            [&](auto... rest) {
                return hf_lease_break_async(handle_, name.data(), name.size(), token, rest...);
            },
            detail::nothing());
    }

    /// Ask whoever holds `name` to give it away: event_kind::asked with `text`.
    template <typename Mode = throwing_t>
    answer<void, Mode> ask(std::string_view name, const std::string &text = {},
                           Mode mode = {}) const
    {
        return detail::run<void>(
            std::move(mode),
            [&](hf_result &, hf_error *err) {
                return hf_ask(handle_, name.data(), name.size(), detail::text_or_null(text), err);
            },
            [&](auto... rest) {
                return hf_ask_async(handle_, name.data(), name.size(), detail::text_or_null(text),
                                    rest...);
            },
            detail::nothing());
    }

    /// Holders and waiters of one exact name. Returns a view.
    template <typename Mode = throwing_t>
    answer<view, Mode> inspect(std::string_view name, Mode mode = {}) const
    {
        return look(name, 0, std::move(mode));
    }

    /// Holders and waiters of all names that fit a pattern with * ? [a-z] and \.
    template <typename Mode = throwing_t>
    answer<view, Mode> inspect_all(std::string_view pattern = "*", Mode mode = {}) const
    {
        return look(pattern, HF_INSPECT_FLAG_PATTERN, std::move(mode));
    }

    /// The cycles of requests that wait for each other now.
    template <typename Mode = throwing_t>
    answer<std::vector<deadlock_cycle>, Mode> deadlocks(Mode mode = {}) const
    {
        return detail::run<std::vector<deadlock_cycle>>(
            std::move(mode),
            [&](hf_result &raw, hf_error *err) {
                return hf_deadlock_list(handle_, &raw.deadlocks, err);
            },
            [&](auto... rest) { return hf_deadlock_list_async(handle_, rest...); },
            detail::deadlocks_of);
    }

    /// Wait until something in the store has changed since `seq` (0: since now). Returns the number
    /// of the change, for the next call. timeout_error: nothing has.
    template <typename Mode = throwing_t>
    answer<std::uint64_t, Mode> wait(std::uint64_t seq = 0, wait_time wait = forever,
                                     canceller *cancel = nullptr, Mode mode = {}) const
    {
        return detail::run<std::uint64_t>(
            std::move(mode),
            [&](hf_result &raw, hf_error *err) {
                raw.version = seq;
                return hf_store_wait(handle_, &raw.version, wait.ms(), detail::native(cancel), err);
            },
            [&](auto... rest) {
                return hf_store_wait_async(handle_, seq, wait.ms(), detail::native(cancel),
                                           rest...);
            },
            [](const hf_result &raw) { return raw.version; });
    }

    /// Read a cell that is bound to a lease (lease::set_cell()). Empty: there is none, or its lease
    /// has ended.
    template <typename Mode = throwing_t>
    answer<std::optional<lease_cell>, Mode> read_lease_cell(std::string_view name,
                                                            Mode mode = {}) const
    {
        return detail::run<std::optional<lease_cell>, detail::answers<HF_NOT_FOUND>>(
            std::move(mode),
            [&](hf_result &raw, hf_error *err) {
                hf_cell cell = HF_CELL_INIT;
                const hf_status status =
                    hf_lease_cell_get(handle_, name.data(), name.size(), &cell, err);
                raw.bytes = cell.bytes;
                raw.len = cell.len;
                raw.version = cell.version;
                return status;
            },
            [&](auto... rest) {
                return hf_lease_cell_get_async(handle_, name.data(), name.size(), rest...);
            },
            [](const hf_result &raw) -> std::optional<lease_cell> {
                const detail::owned<void> bytes(raw.bytes);
                if (raw.status != HF_OK)
                    return std::nullopt;
                return lease_cell{ { static_cast<const char *>(bytes.get()), raw.len },
                                   raw.version };
            });
    }

    /// Give back all idle leases (options::linger).
    template <typename Mode = throwing_t> answer<void, Mode> release_idle(Mode mode = {}) const
    {
        return detail::run<void>(
            mode, [&](hf_result &, hf_error *err) { return hf_idle_release(handle_, err); },
            nullptr, detail::nothing());
    }

#if defined(HOLDFAST_HAS_COROUTINES)
    /// acquire() for co_await; a stop of `token` cancels it.
    awaitable<lease> acquire_async(std::string_view name, const options &how = {},
                                   std::stop_token token = {}) const
    {
        return acquire(name, how, async(std::move(token)));
    }
#endif

    /// @cond internal
    // A call that gives a lease whose request is that of an acquire.
    template <typename Mode, typename Call, typename Begin>
    static answer<lease, Mode> obtain(std::string_view name, const options &how, Mode mode,
                                      Call call, Begin begin)
    {
        const detail::state_ptr state = detail::new_state(how);
        const hf_acquire_request request = detail::request_of(name, how, state.get());
        return grant(
            state, std::move(mode),
            [&](hf_lease **lease, hf_error *err) { return call(request, lease, err); },
            [&](auto... rest) { return begin(request, rest...); });
    }

    // A call that gives a lease.
    template <typename Mode, typename Call, typename Begin>
    static answer<lease, Mode> grant(detail::state_ptr state, Mode mode, Call call, Begin begin)
    {
        detail::lease_state *shared = state.get();
        return detail::run<lease>(
            std::move(mode), [&](hf_result &raw, hf_error *err) { return call(&raw.lease, err); },
            [&](auto... rest) {
                shared->is_async = true;
                return begin(rest...);
            },
            [state = std::move(state)](const hf_result &raw) mutable {
                state->handle = raw.lease;
                return lease(std::move(state));
            });
    }
    /// @endcond

  private:
    /// NULL: none is named.
    static result<store> open_at(const char *url, const open_options &how)
    {
        hf_open_options raw = HF_OPEN_OPTIONS_INIT;
        hf_store *handle = nullptr;
        hf_error err;

        raw.open_wait_ms = how.wait.ms();
        raw.label = detail::text_or_null(how.label);
        raw.flags = (how.existing ? HF_OPEN_FLAG_EXISTING : 0) |
                    (how.once ? HF_OPEN_FLAG_ONCE : 0) | (how.no_wait ? HF_OPEN_FLAG_NO_WAIT : 0);
        if (hf_open(url, &raw, &handle, &err) != HF_OK)
            return failure(err);
        return store(handle);
    }

    explicit store(hf_store *handle) noexcept : handle_(handle)
    {
    }

    // The requests of acquire_all() and acquire_any().
    struct several {
        std::vector<detail::state_ptr> states;
        std::vector<hf_acquire_request> list;
        std::vector<hf_lease *> handles;

        explicit several(const std::vector<request> &requests) : handles(requests.size())
        {
            for (const request &item : requests) {
                states.push_back(detail::new_state(item.options));
                list.push_back(detail::request_of(item.name, item.options, states.back().get()));
            }
        }

        void set_async() noexcept
        {
            for (const detail::state_ptr &state : states)
                state->is_async = true;
        }
    };

    template <typename Mode>
    answer<view, Mode> look(std::string_view name, std::uint64_t flags, Mode mode) const
    {
        return detail::run<view>(
            std::move(mode),
            [&](hf_result &raw, hf_error *err) {
                return hf_store_inspect(handle_, name.data(), name.size(), flags, &raw.view, err);
            },
            [&](auto... rest) {
                return hf_store_inspect_async(handle_, name.data(), name.size(), flags, rest...);
            },
            detail::view_of);
    }

    static store_info info_of(const hf_store_info &raw)
    {
        store_info info;

        info.engine = detail::text_of(raw.engine);
        info.location = detail::text_of(raw.location);
        info.caps = raw.caps;
        info.tokens = raw.tokens;
        info.default_ttl = std::chrono::milliseconds(raw.default_ttl_ms);
        info.min_ttl = std::chrono::milliseconds(raw.min_ttl_ms);
        info.max_ttl = std::chrono::milliseconds(raw.max_ttl_ms);
        info.lacks = detail::lacks_of(raw.lacks);
        info.source = raw.source;
        return info;
    }

    hf_store *handle_ = nullptr;
};

} // namespace holdfast

#endif
