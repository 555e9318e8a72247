// SPDX-License-Identifier: MIT
/// @file
/// A lease, as a guard that releases it.
#ifndef HOLDFAST_CPP_LEASE_HPP
#define HOLDFAST_CPP_LEASE_HPP

#include <holdfast/cpp/async.hpp>

#include <atomic>
#include <mutex>
#include <vector>

namespace holdfast
{

/// Hears of releases that failed where no caller could be told: in a destructor, or in unlock().
/// It may be called by any thread.
using release_hook = void (*)(const failure &why);

namespace detail
{

inline std::atomic<release_hook> &hook() noexcept
{
    static std::atomic<release_hook> value{ nullptr };
    return value;
}

// A child after fork() has copies of guards that were never its own.
inline void report(hf_status code, const hf_error *err) noexcept
{
    const release_hook told = code == HF_OK || code == HF_FORKED ? nullptr : hook().load();

    if (told)
        told(err ? failure(*err) : failure(static_cast<status>(code), hf_status_text(code)));
}

// What a lease object, its callbacks and its asynchronous calls share. `handle` is null once the
// lease was ended; yield and convert change it.
struct lease_state : std::enable_shared_from_this<lease_state> {
    std::atomic<hf_lease *> handle{ nullptr };
    event_handler on_event;
    bool is_async = false; // begun by an event loop, which must not be blocked by a destructor
    bool reentrant = false;

    // What yield or convert has brought. false: the lease was released meanwhile, and this is given
    // back.
    bool settle(hf_lease *before, hf_lease *now) noexcept
    {
        hf_lease *expected = before;

        if (handle.compare_exchange_strong(expected, now))
            return true;
        if (now && now != before)
            end(now);
        return false;
    }

    void drop() noexcept
    {
        if (hf_lease *last = handle.exchange(nullptr))
            end(last);
    }

    void end(hf_lease *last) noexcept;
    void after_release(hf_lease *last) noexcept;

    static void told(hf_lease *lease, hf_event what, const char *text, void *arg) noexcept
    {
        // The callback may end the lease, and with it what we run in.
        auto self = static_cast<lease_state *>(arg)->shared_from_this();
        self->on_event({ static_cast<event_kind>(what), text ? text : "", lease });
    }
};

using state_ptr = std::shared_ptr<lease_state>;

// The library calls the callback of the first reentrant acquire until the last hold has ended, and
// the guards may end in any order: what belongs to a handle that lives on is kept here.
struct kept_states {
    std::mutex lock;
    std::vector<std::pair<hf_lease *, state_ptr>> list;

    static kept_states &instance()
    {
        static auto *value = new kept_states; // other statics may still release
        return *value;
    }
};

inline void lease_state::after_release(hf_lease *last) noexcept
{
    if (!reentrant)
        return;
    kept_states &kept = kept_states::instance();
    std::vector<std::pair<hf_lease *, state_ptr>> gone;
    hf_lease_info info = HF_LEASE_INFO_INIT;
    std::lock_guard<std::mutex> guard(kept.lock);

    if (hf_lease_get(last, &info) == HF_OK) {
        kept.list.emplace_back(last, shared_from_this());
        return;
    }
    for (std::size_t i = 0; i < kept.list.size();)
        if (kept.list[i].first == last) {
            gone.push_back(std::move(kept.list[i]));
            kept.list[i] = std::move(kept.list.back());
            kept.list.pop_back();
        } else {
            i++;
        }
}

// What a destructor does. An asynchronous lease ends in the background: the destructor may run on
// the thread of an event loop.
inline void lease_state::end(hf_lease *last) noexcept
{
    struct ending {
        state_ptr state;
        hf_lease *lease;
        static void done(const hf_result *raw, void *arg) noexcept
        {
            std::unique_ptr<ending> self(static_cast<ending *>(arg));
            report(raw->status, raw->error);
            self->state->after_release(self->lease);
        }
    };
    hf_error err;

    if (is_async) {
        auto arg = std::unique_ptr<ending>(new (std::nothrow) ending{ shared_from_this(), last });
        if (arg && hf_release_async(last, &ending::done, arg.get(), nullptr, &err) == HF_OK) {
            (void)arg.release(); // done() has it
            return;
        }
    }
    report(hf_release(last, &err), &err);
    after_release(last);
}

inline state_ptr new_state(const options &o)
{
    auto state = std::make_shared<lease_state>();

    state->on_event = o.on_event;
    state->reentrant = o.reentrant;
    return state;
}

// Good for as long as its arguments are.
inline hf_acquire_request request_of(std::string_view name, const options &o, lease_state *state)
{
    hf_acquire_request request = HF_ACQUIRE_REQUEST_INIT;

    request.name = name.data();
    request.name_len = name.size();
    request.kind = static_cast<hf_kind>(o.kind);
    request.capacity = o.capacity;
    request.permits = o.permits;
    request.flags = flags_of(o);
    request.wait_ms = o.wait.ms();
    request.ttl_ms = o.ttl.ms();
    request.max_hold_ms = o.max_hold.ms();
    request.min_valid_ms = o.min_valid.ms();
    request.lock_delay_ms = o.lock_delay.ms();
    request.scope = o.scope;
    request.label = text_or_null(o.label);
    request.cancel = native(o.cancel);
    request.session = text_or_null(o.session);
    request.linger_ms = o.linger.ms();
    request.min_hold_ms = o.min_hold.ms();
    if (o.on_event) {
        request.on_event = &lease_state::told;
        request.on_event_arg = state;
    }
    return request;
}

} // namespace detail

/// Set the hook for releases that failed unheard; null: none. Returns the one before.
inline release_hook set_release_hook(release_hook hook) noexcept
{
    return detail::hook().exchange(hook);
}

/// What a lease is, all of it as of one moment.
struct lease_info {
    std::uint64_t token = 0;               ///< 0 where the engine has none.
    hf_state state = HF_STATE_LOST;        ///< Held, at risk or lost.
    std::uint32_t holds = 0;               ///< Hold count of a reentrant lease, else 1.
    std::chrono::milliseconds remaining{}; ///< Validity left; max(): no limit.
    std::chrono::milliseconds age{};       ///< Since it was granted to us.
    std::chrono::milliseconds ttl{};       ///< What each renewal gives; zero: none.
    std::string name;                      ///< Its name, which may have any bytes.
    bool wanted = false;                   ///< Others wait for it (options::watch).
    std::uint32_t asks = 0;                ///< How often event_kind::asked has come.
    holdfast::kind kind = kind::mutex;     ///< What the name is used as.
    std::vector<std::uint32_t> slots;      ///< options::numbered: the numbers of its permits.
};

/// A lease: a guard that can be moved, and releases when it ends. All methods but moves and
/// release() may be called by any thread. A lease that was acquired asynchronously is released by
/// its destructor in the background, so that an event loop is never blocked.
class [[nodiscard]] lease
{
  public:
    /// None.
    lease() = default;

    /// The other one has none then.
    lease(lease &&) noexcept = default;

    /// The one that was here before is released.
    lease &operator=(lease &&other) noexcept
    {
        lease(std::move(other)).swap(*this);
        return *this;
    }

    lease(const lease &) = delete;
    lease &operator=(const lease &) = delete;

    /// Releases. A release that fails is told to the hook of set_release_hook().
    ~lease()
    {
        if (state_)
            state_->drop();
    }

    /// Swap two of them.
    void swap(lease &other) noexcept
    {
        state_.swap(other.state_);
    }

    /// Is there a lease that was not released? It may be lost: see held().
    explicit operator bool() const noexcept
    {
        return native() != nullptr;
    }

    /// The C handle; null if there is none.
    hf_lease *native() const noexcept
    {
        return state_ ? state_->handle.load() : nullptr;
    }

    /// The fencing token, 0 if there is none. Of a reader or of permits it is an id only.
    std::uint64_t token() const noexcept
    {
        return hf_lease_token(native());
    }

    /// Held, at risk or lost.
    hf_state state() const noexcept
    {
        return hf_lease_state(native());
    }

    /// It is not lost, by our own clock.
    bool held() const noexcept
    {
        return state() != HF_STATE_LOST;
    }

    /// Validity left: zero when lost, milliseconds::max() without a limit.
    std::chrono::milliseconds remaining() const noexcept
    {
        return detail::from_ms(hf_lease_remaining_ms(native()));
    }

    /// options::watch: do others wait for it? This costs one load.
    bool wanted() const noexcept
    {
        return hf_lease_wanted(native());
    }

    /// A descriptor that polls readable when something has happened since the last info().
    int fd() const noexcept
    {
        return hf_lease_fd(native());
    }

    /// All of it in one step.
    template <typename Mode = throwing_t> answer<lease_info, Mode> info(Mode mode = {}) const
    {
        hf_lease_info raw = HF_LEASE_INFO_INIT;
        return detail::run<lease_info>(
            mode, [&](hf_result &, hf_error *) { return hf_lease_get(native(), &raw); }, nullptr,
            [&](const hf_result &) { return info_of(raw); });
    }

    /// The token as a fence for a guard. Throws unsupported_error where it is none, lost_error.
    template <typename Mode = throwing_t> answer<std::uint64_t, Mode> fence(Mode mode = {}) const
    {
        return detail::run<std::uint64_t>(
            mode,
            [&](hf_result &raw, hf_error *err) {
                return hf_lease_fence(native(), &raw.version, err);
            },
            nullptr, [](const hf_result &raw) { return raw.version; });
    }

    /// Release now, and say how it went: lost_error, unknown_error, ... The lease has ended in every
    /// case but status::forked.
    template <typename Mode = throwing_t> answer<void, Mode> release(Mode mode = {})
    {
        return finish<void>(
            std::move(mode),
            [](hf_lease *handle, hf_error *err) { return hf_release(handle, err); },
            [](hf_lease *handle, auto... rest) { return hf_release_async(handle, rest...); });
    }

#if defined(HOLDFAST_HAS_COROUTINES)
    /// release() for co_await.
    awaitable<void> release_async()
    {
        return release(async);
    }
#endif

    /// Renew now, for `ttl` from now (zero: as before).
    template <typename Mode = throwing_t>
    answer<void, Mode> renew(time_span ttl = {}, Mode mode = {})
    {
        return detail::run<void>(
            std::move(mode),
            [&](hf_result &, hf_error *err) { return hf_renew(native(), ttl.ms(), err); },
            [&](auto... rest) { return hf_renew_async(native(), ttl.ms(), rest...); },
            detail::nothing());
    }

    /// Give it to the waiters (options::watch), and queue for it again. true: it was given away
    /// and is ours again, with a new token. false: nobody waits. A failure other than invalid, lost,
    /// forked and in_use: nothing is held any more. If the lease is released while this waits, it
    /// fails with invalid, and what comes back is given back.
    template <typename Mode = throwing_t>
    answer<bool, Mode> yield(wait_time wait = forever, Mode mode = {})
    {
        hf_lease *before = native();
        return detail::run<bool, detail::answers<HF_YIELDED>>(
            std::move(mode),
            [&](hf_result &raw, hf_error *err) {
                raw.lease = before;
                return hf_yield(&raw.lease, wait.ms(), err);
            },
            [&](auto... rest) { return hf_yield_async(before, wait.ms(), rest...); },
            yielding{ state_, before });
    }

    /// Make it a lease of another kind of the same read-write lock, without a gap.
    template <typename Mode = throwing_t>
    answer<void, Mode> convert(kind to, wait_time wait = forever, Mode mode = {})
    {
        const detail::state_ptr state = state_;
        hf_lease *before = native();
        const auto wanted_kind = static_cast<hf_kind>(to);
        return detail::run<void>(
            std::move(mode),
            [&](hf_result &raw, hf_error *err) {
                raw.lease = before;
                return hf_convert(&raw.lease, wanted_kind, wait.ms(), err);
            },
            [&](auto... rest) { return hf_convert_async(before, wanted_kind, wait.ms(), rest...); },
            [state, before](const hf_result &raw) -> result<void> {
                return state->settle(before, raw.lease) ? result<void>() : released_meanwhile();
            });
    }

    /// A detached lease as text that another process can give to store::adopt(). It is a secret.
    template <typename Mode = throwing_t>
    answer<std::string, Mode> export_text(Mode mode = {}) const
    {
        char text[HF_LEASE_TEXT_MAX];
        return detail::run<std::string>(
            mode, [&](hf_result &, hf_error *) { return hf_lease_export(native(), text); }, nullptr,
            [&](const hf_result &) { return std::string(text); });
    }

    /// The session that holds it, as text for a process that works for us: options::session there.
    template <typename Mode = throwing_t>
    answer<std::string, Mode> session(const std::string &around = {}, Mode mode = {}) const
    {
        char text[HF_SESSION_TEXT_MAX];
        return detail::run<std::string>(
            mode,
            [&](hf_result &, hf_error *err) {
                return hf_session_get(native(), detail::text_or_null(around), text, err);
            },
            nullptr, [&](const hf_result &) { return std::string(text); });
    }

    /// Write a cell that is there for as long as this lease: store::lease_cell() reads it.
    template <typename Mode = throwing_t>
    answer<void, Mode> set_cell(std::string_view name, std::string_view bytes, Mode mode = {})
    {
        return detail::run<void>(
            std::move(mode),
            [&](hf_result &, hf_error *err) {
                return hf_lease_cell_set(native(), name.data(), name.size(), bytes.data(),
                                         bytes.size(), err);
            },
            [&](auto... rest) {
                return hf_lease_cell_set_async(native(), name.data(), name.size(), bytes.data(),
                                               bytes.size(), rest...);
            },
            detail::nothing());
    }

    /// Let go of the handle without a release: for a detached lease that was exported. Any other
    /// lease stays held until its store is closed.
    void forget() noexcept
    {
        // The library may still call back: what it calls stays.
        if (state_ && state_->handle.exchange(nullptr) && state_->on_event)
            (void)new (std::nothrow) detail::state_ptr(std::move(state_));
        state_.reset();
    }

    /// @cond internal
    explicit lease(detail::state_ptr state) noexcept : state_(std::move(state))
    {
    }

    // End the lease by a C call: the handle has ended, whatever that says. An asynchronous call that
    // does not begin leaves it as it is, unless a yield or a conversion under way has ended it.
    template <typename T, typename Mode, typename Call, typename Begin>
    answer<T, Mode> finish(Mode mode, Call call, Begin begin)
    {
        const detail::state_ptr state = state_;
        hf_lease *last = state ? state->handle.exchange(nullptr) : nullptr;
        return detail::run<T>(
            std::move(mode), [&](hf_result &, hf_error *err) { return call(last, err); },
            [&](hf_done_fn *done, void *arg, hf_op **op, hf_error *err) {
                const hf_status status = begin(last, done, arg, op, err);
                hf_lease_info still = HF_LEASE_INFO_INIT;
                if (status != HF_OK && state && hf_lease_get(last, &still) != HF_INVALID)
                    state->handle.store(last);
                return status;
            },
            // What the library calls back lives until `done` has come, whatever it says.
            ended{ state, last });
    }
    /// @endcond

  private:
    template <typename Mode>
    friend answer<void, Mode> release_all(std::vector<lease> leases, Mode mode);

    struct ended {
        detail::state_ptr state;
        hf_lease *last;

        void operator()(const hf_result &raw) const noexcept
        {
            refused(raw);
        }

        void refused(const hf_result &) const noexcept
        {
            if (state)
                state->after_release(last);
        }
    };

    static failure released_meanwhile()
    {
        return { status::invalid, "the lease was released meanwhile" };
    }

    struct yielding {
        detail::state_ptr state;
        hf_lease *before;

        result<bool> operator()(const hf_result &raw) const
        {
            if (!state->settle(before, raw.lease))
                return released_meanwhile();
            return raw.status == HF_YIELDED;
        }

        // With these nothing was done; with any other the old handle has ended, and there is no new one.
        void refused(const hf_result &raw) const noexcept
        {
            const hf_status status = raw.status;

            if (state && status != HF_INVALID && status != HF_LOST && status != HF_FORKED &&
                status != HF_IN_USE)
                state->settle(before, nullptr);
        }
    };

    static lease_info info_of(const hf_lease_info &raw)
    {
        lease_info info;

        info.token = raw.token;
        info.state = raw.state;
        info.holds = raw.holds;
        info.remaining = detail::from_ms(raw.remaining_ms);
        info.age = std::chrono::milliseconds(raw.age_ms);
        info.ttl = std::chrono::milliseconds(raw.ttl_ms);
        info.name.assign(reinterpret_cast<const char *>(raw.name), raw.name_len);
        info.wanted = raw.wanted;
        info.asks = raw.asks;
        info.kind = static_cast<holdfast::kind>(raw.kind);
        info.slots.assign(raw.slots, raw.slots + raw.slot_count);
        return info;
    }

    detail::state_ptr state_;
};

/// Release several leases of one store, whatever happens to each. The status is the first one that is not ok.
template <typename Mode> answer<void, Mode> release_all(std::vector<lease> leases, Mode mode)
{
    std::vector<hf_lease *> handles;
    std::vector<lease::ended> ends;

    for (const lease &item : leases)
        if (item) {
            handles.push_back(item.native());
            ends.push_back({ item.state_, item.native() });
        }
    const auto let_go = [&] {
        for (const lease &item : leases)
            if (item.state_)
                item.state_->handle = nullptr;
    };
    struct all_ended {
        std::vector<lease::ended> ends;

        void operator()(const hf_result &raw) const noexcept
        {
            refused(raw);
        }

        void refused(const hf_result &raw) const noexcept
        {
            for (const lease::ended &end : ends)
                end.refused(raw);
        }
    };
    return detail::run<void>(
        std::move(mode),
        [&](hf_result &, hf_error *err) {
            let_go();
            return hf_release_all(handles.data(), handles.size(), err);
        },
        [&](auto... rest) {
            // If it does not begin, the destructors release.
            const hf_status status = hf_release_all_async(handles.data(), handles.size(), rest...);
            if (status == HF_OK)
                let_go();
            return status;
        },
        all_ended{ std::move(ends) });
}

/// The same; throws the first failure.
inline void release_all(std::vector<lease> leases)
{
    release_all(std::move(leases), throwing_t());
}

} // namespace holdfast

#endif
