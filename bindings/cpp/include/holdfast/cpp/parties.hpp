// SPDX-License-Identifier: MIT
/// @file
/// Several that meet: latches and barriers. Several of which one does it: elections, work that is
/// done once. And who is there: groups.
#ifndef HOLDFAST_CPP_PARTIES_HPP
#define HOLDFAST_CPP_PARTIES_HPP

#include <holdfast/cpp/cells.hpp>

namespace holdfast
{

namespace detail
{

inline hf_party_request party_of(const std::string &name, const std::string &who, wait_time wait,
                                 canceller *cancel)
{
    hf_party_request request = HF_PARTY_REQUEST_INIT;

    request.name = name.data();
    request.name_len = name.size();
    request.who = text_or_null(who);
    request.wait_ms = wait.ms();
    request.cancel = native(cancel);
    return request;
}

} // namespace detail

/// How many a latch waits for.
struct latch_state {
    std::uint32_t count = 0; ///< What it was made for.
    std::uint32_t left = 0;  ///< How many are missing; 0: it is open.
};

/// A latch: made for a count; each participant is counted once; then it is open for ever. If a
/// participant that has joined dies before, all waiters get broken_error.
class latch : public named
{
  public:
    /// The latch of this name.
    latch(const store &where, std::string name) : named(where, std::move(name))
    {
    }

    /// Make it, for `count` participants.
    template <typename Mode = throwing_t>
    answer<void, Mode> create(std::uint32_t count, Mode mode = {})
    {
        return detail::run<void>(
            std::move(mode),
            [&](hf_result &, hf_error *err) {
                return hf_latch_create(store_, name_.data(), name_.size(), count, err);
            },
            [&](auto... rest) {
                return hf_latch_create_async(store_, name_.data(), name_.size(), count, rest...);
            },
            detail::nothing());
    }

    /// Count `who` down, once however often it is called. Returns how many are missing.
    template <typename Mode = throwing_t>
    answer<std::uint32_t, Mode> count_down(const std::string &who, Mode mode = {})
    {
        return detail::run<std::uint32_t>(
            std::move(mode),
            [&](hf_result &raw, hf_error *err) {
                std::uint32_t left = 0;
                if (detail::holds_nul(who, err))
                    return HF_INVALID;
                const hf_status status = hf_latch_count_down(store_, name_.data(), name_.size(),
                                                             who.c_str(), &left, err);
                raw.number = left;
                return status;
            },
            [&](hf_done_fn *done, void *arg, hf_op **op, hf_error *err) {
                return detail::holds_nul(who, err)
                           ? HF_INVALID
                           : hf_latch_count_down_async(store_, name_.data(), name_.size(),
                                                       who.c_str(), done, arg, op, err);
            },
            [](const hf_result &raw) { return static_cast<std::uint32_t>(raw.number); });
    }

    /// Join as `who` before beginning to work. Returns a lease, to be released after count_down().
    template <typename Mode = throwing_t>
    answer<lease, Mode> join(const std::string &who, wait_time wait = forever,
                             canceller *cancel = nullptr, Mode mode = {})
    {
        const hf_party_request request = detail::party_of(name_, who, wait, cancel);
        return store::grant(
            detail::new_state({}), std::move(mode),
            [&](hf_lease **lease, hf_error *err) {
                return detail::holds_nul(who, err) ? HF_INVALID
                                                   : hf_latch_join(store_, &request, lease, err);
            },
            [&](hf_done_fn *done, void *arg, hf_op **op, hf_error *err) {
                return detail::holds_nul(who, err)
                           ? HF_INVALID
                           : hf_latch_join_async(store_, &request, done, arg, op, err);
            });
    }

    /// Wait until it is open. timeout_error, cancelled_error, broken_error.
    template <typename Mode = throwing_t>
    answer<void, Mode> wait(wait_time wait = forever, canceller *cancel = nullptr,
                            Mode mode = {}) const
    {
        const hf_party_request request = detail::party_of(name_, {}, wait, cancel);
        return detail::run<void>(
            std::move(mode),
            [&](hf_result &, hf_error *err) { return hf_latch_wait(store_, &request, err); },
            [&](auto... rest) { return hf_latch_wait_async(store_, &request, rest...); },
            detail::nothing());
    }

    /// Its count, and how many are missing: a latch_state.
    template <typename Mode = throwing_t> answer<latch_state, Mode> get(Mode mode = {}) const
    {
        return detail::run<latch_state>(
            std::move(mode),
            [&](hf_result &raw, hf_error *err) {
                std::uint32_t count = 0, left = 0;
                const hf_status status =
                    hf_latch_get(store_, name_.data(), name_.size(), &count, &left, err);
                raw.count = count;
                raw.number = left;
                return status;
            },
            [&](auto... rest) {
                return hf_latch_get_async(store_, name_.data(), name_.size(), rest...);
            },
            [](const hf_result &raw) {
                return latch_state{ static_cast<std::uint32_t>(raw.count),
                                    static_cast<std::uint32_t>(raw.number) };
            });
    }

    /// Delete it; its waiters get not_found_error.
    template <typename Mode = throwing_t> answer<void, Mode> remove(Mode mode = {})
    {
        return detail::run<void>(
            std::move(mode),
            [&](hf_result &, hf_error *err) {
                return hf_latch_delete(store_, name_.data(), name_.size(), err);
            },
            [&](auto... rest) {
                return hf_latch_delete_async(store_, name_.data(), name_.size(), rest...);
            },
            detail::nothing());
    }
};

/// A barrier: each participant waits until all have come. If one dies while others wait they get
/// broken_error.
class barrier : public named
{
  public:
    /// The barrier of this name, for `parties`: the same number for all.
    barrier(const store &where, std::string name, std::uint32_t parties)
        : named(where, std::move(name)), parties_(parties)
    {
    }

    /// Come, wait until all have come, and go on together. `who`: empty: a random id.
    template <typename Mode = throwing_t>
    answer<void, Mode> arrive_and_wait(const std::string &who = {}, wait_time wait = forever,
                                       canceller *cancel = nullptr, Mode mode = {})
    {
        const hf_party_request request = asking(who, wait, cancel);
        return detail::run<void>(
            std::move(mode),
            [&](hf_result &, hf_error *err) {
                return detail::holds_nul(who, err) ? HF_INVALID
                                                   : hf_barrier_wait(store_, &request, err);
            },
            [&](hf_done_fn *done, void *arg, hf_op **op, hf_error *err) {
                return detail::holds_nul(who, err)
                           ? HF_INVALID
                           : hf_barrier_wait_async(store_, &request, done, arg, op, err);
            },
            detail::nothing());
    }

    /// A double barrier: enter together. Returns a lease, for leave().
    template <typename Mode = throwing_t>
    answer<lease, Mode> enter(const std::string &who = {}, wait_time wait = forever,
                              canceller *cancel = nullptr, Mode mode = {})
    {
        const hf_party_request request = asking(who, wait, cancel);
        return store::grant(
            detail::new_state({}), std::move(mode),
            [&](hf_lease **party, hf_error *err) {
                return detail::holds_nul(who, err) ? HF_INVALID
                                                   : hf_barrier_enter(store_, &request, party, err);
            },
            [&](hf_done_fn *done, void *arg, hf_op **op, hf_error *err) {
                return detail::holds_nul(who, err)
                           ? HF_INVALID
                           : hf_barrier_enter_async(store_, &request, done, arg, op, err);
            });
    }

    /// Leave, and wait until all have left. The lease has ended, whatever comes out.
    template <typename Mode = throwing_t>
    static answer<void, Mode> leave(lease &party, wait_time wait = forever,
                                    canceller *cancel = nullptr, Mode mode = {})
    {
        return party.finish<void>(
            std::move(mode),
            [&](hf_lease *last, hf_error *err) {
                return hf_barrier_leave(last, wait.ms(), detail::native(cancel), err);
            },
            [&](hf_lease *last, auto... rest) {
                return hf_barrier_leave_async(last, wait.ms(), detail::native(cancel), rest...);
            });
    }

  private:
    hf_party_request asking(const std::string &who, wait_time wait, canceller *cancel) const
    {
        hf_party_request request = detail::party_of(name_, who, wait, cancel);
        request.parties = parties_;
        return request;
    }

    std::uint32_t parties_;
};

/// What an observer of an election has seen.
struct leader_info {
    leader_info() = default;

    bool leads = false;                      ///< false: nobody leads, and the next three are empty.
    std::uint64_t token = 0;                 ///< Of the leader's lease.
    std::string value;                       ///< What it has published.
    std::string label;                       ///< For people.
    std::uint64_t version = 0;               ///< Of what was published last.
    std::shared_ptr<const hf_leader> native; ///< The C struct, for the next election::wait().
};

/// An election: the holder of the lock leads, and publishes a value.
class election : public named
{
  public:
    /// The election of this name.
    election(const store &where, std::string name) : named(where, std::move(name))
    {
    }

    /// Wait to be the leader, and publish `value`. Returns a lease; resign() ends it.
    template <typename Mode = throwing_t>
    answer<lease, Mode> campaign(std::string_view value, const options &how = {}, Mode mode = {})
    {
        return store::obtain(
            name_, how, std::move(mode),
            [&](const hf_acquire_request &request, hf_lease **lease, hf_error *err) {
                return hf_election_campaign(store_, &request, value.data(), value.size(), lease,
                                            err);
            },
            [&](const hf_acquire_request &request, auto... rest) {
                return hf_election_campaign_async(store_, &request, value.data(), value.size(),
                                                  rest...);
            });
    }

    /// Publish another value. lost_error: we do not lead any more. fenced_error: a later leader has
    /// published.
    template <typename Mode = throwing_t>
    static answer<void, Mode> publish(lease &leader, std::string_view value, Mode mode = {})
    {
        hf_lease *handle = leader.native();
        return detail::run<void>(
            std::move(mode),
            [&](hf_result &, hf_error *err) {
                return hf_election_set(handle, value.data(), value.size(), err);
            },
            [&](auto... rest) {
                return hf_election_set_async(handle, value.data(), value.size(), rest...);
            },
            detail::nothing());
    }

    /// Publish that nobody leads, and release. The lease has ended, whatever comes out.
    template <typename Mode = throwing_t>
    static answer<void, Mode> resign(lease &leader, Mode mode = {})
    {
        return leader.finish<void>(std::move(mode), hf_election_resign, hf_election_resign_async);
    }

    /// Wait until there is something else to see than `last`; without it, look once. Returns a
    /// leader_info. timeout_error: nothing new.
    template <typename Mode = throwing_t>
    answer<leader_info, Mode> wait(const leader_info &last = {}, wait_time wait = forever,
                                   canceller *cancel = nullptr, Mode mode = {}) const
    {
        hf_election_request request = HF_ELECTION_REQUEST_INIT;
        request.name = name_.data();
        request.name_len = name_.size();
        request.last = last.native.get();
        request.wait_ms = wait.ms();
        request.cancel = detail::native(cancel);
        return detail::run<leader_info>(
            std::move(mode),
            [&](hf_result &raw, hf_error *err) {
                return hf_election_wait(store_, &request, &raw.leader, err);
            },
            [&](auto... rest) { return hf_election_wait_async(store_, &request, rest...); },
            [](const hf_result &raw) { return info_of(raw.leader); });
    }

  private:
    static leader_info info_of(hf_leader *raw)
    {
        leader_info info;

        info.native = std::shared_ptr<const hf_leader>(detail::owned<hf_leader>(raw));
        info.leads = raw->leads;
        info.token = raw->token;
        info.value = detail::bytes_of(raw->value, raw->value_len);
        info.label = detail::text_of(raw->label);
        info.version = raw->version;
        return info;
    }
};

/// A member of a group.
struct member_info {
    std::uint64_t token = 0;         ///< Of its lease: no other member ever has it.
    std::string value;               ///< What it has joined as.
    std::chrono::milliseconds age{}; ///< Since it joined.
    std::chrono::milliseconds ttl{}; ///< Left; max(): none.
    std::int64_t pid = 0;            ///< 0: unknown.
};

/// The members of a group, as of one moment, sorted by token.
struct member_list {
    member_list() = default;

    std::vector<member_info> members;         ///< Those that are alive.
    std::shared_ptr<const hf_members> native; ///< The C list, for the next group::wait().
};

/// A group: a list of those that are alive.
class group : public named
{
  public:
    /// The group of this name.
    group(const store &where, std::string name) : named(where, std::move(name))
    {
    }

    /// Join as `value`, an address for example. Returns a lease; leave() ends it.
    template <typename Mode = throwing_t>
    answer<lease, Mode> join(const std::string &value, options how = {}, Mode mode = {})
    {
        how.kind = kind::shared;
        return store::obtain(
            name_, how, std::move(mode),
            [&](const hf_acquire_request &request, hf_lease **lease, hf_error *err) {
                return detail::holds_nul(value, err)
                           ? HF_INVALID
                           : hf_member_join(store_, &request, detail::text_or_null(value), lease,
                                            err);
            },
            [&](const hf_acquire_request &request, hf_done_fn *done, void *arg, hf_op **op,
                hf_error *err) {
                return detail::holds_nul(value, err)
                           ? HF_INVALID
                           : hf_member_join_async(store_, &request, detail::text_or_null(value),
                                                  done, arg, op, err);
            });
    }

    /// Leave, and tell those that watch. The lease has ended, whatever comes out.
    template <typename Mode = throwing_t>
    static answer<void, Mode> leave(lease &member, Mode mode = {})
    {
        return member.finish<void>(std::move(mode), hf_member_leave, hf_member_leave_async);
    }

    /// List the members; with `last`, wait until they are others. Returns a member_list.
    template <typename Mode = throwing_t>
    answer<member_list, Mode> wait(const member_list &last = {}, wait_time wait = forever,
                                   canceller *cancel = nullptr, Mode mode = {}) const
    {
        hf_members_request request = HF_MEMBERS_REQUEST_INIT;
        request.name = name_.data();
        request.name_len = name_.size();
        request.last = last.native.get();
        request.wait_ms = wait.ms();
        request.cancel = detail::native(cancel);
        return detail::run<member_list>(
            std::move(mode),
            [&](hf_result &raw, hf_error *err) {
                return hf_members_wait(store_, &request, &raw.members, err);
            },
            [&](auto... rest) { return hf_members_wait_async(store_, &request, rest...); },
            [](const hf_result &raw) { return list_of(raw.members); });
    }

  private:
    static member_list list_of(hf_members *raw)
    {
        member_list list;

        list.native = std::shared_ptr<const hf_members>(detail::owned<hf_members>(raw));
        for (std::size_t i = 0; i < hf_members_count(raw); i++) {
            const hf_member *item = hf_members_item(raw, i);
            list.members.push_back({ item->token, detail::text_of(item->value),
                                     std::chrono::milliseconds(item->age_ms),
                                     detail::from_ms(item->ttl_ms), item->pid });
        }
        return list;
    }
};

/// By whom work was done.
struct once_mark {
    std::uint64_t token = 0;         ///< Of the lease under which it was done.
    std::chrono::milliseconds at{};  ///< When, since 1970, by the clock of the process that did it.
    std::chrono::milliseconds ttl{}; ///< How long the mark will stay; max(): for ever.
    std::string label;               ///< For people.
};

/// What once::begin() has found: a lease (it is ours to do), or a mark (it has been done).
struct once_begun {
    holdfast::lease lease;         ///< If it is ours to do: then finish() and release.
    std::optional<once_mark> mark; ///< If it has been done: by whom.

    /// Is it ours to do?
    explicit operator bool() const noexcept
    {
        return static_cast<bool>(lease);
    }
};

/// Work that is to be done once: a lock, and a mark that it has been done.
class once : public named
{
  public:
    /// The work of this name.
    once(const store &where, std::string name) : named(where, std::move(name))
    {
    }

    /// Begin; waits while another process is at work, as `how` says. `mark_for`: how long the mark
    /// stays; zero: for ever. Returns a once_begun.
    template <typename Mode = throwing_t>
    answer<once_begun, Mode> begin(const options &how = {}, time_span mark_for = {}, Mode mode = {})
    {
        const detail::state_ptr state = detail::new_state(how);
        const hf_acquire_request request = detail::request_of(name_, how, state.get());
        hf_once_mark mark = HF_ONCE_MARK_INIT;
        return detail::run<once_begun, detail::answers<HF_DONE>>(
            std::move(mode),
            [&](hf_result &raw, hf_error *err) {
                raw.mark = &mark;
                return hf_once_begin(store_, &request, mark_for.ms(), &raw.lease, &mark, err);
            },
            [&](auto... rest) {
                state->is_async = true;
                return hf_once_begin_async(store_, &request, mark_for.ms(), rest...);
            },
            [state](const hf_result &raw) {
                once_begun begun;
                if (raw.status == HF_OK) {
                    state->handle = raw.lease;
                    begun.lease = lease(state);
                } else {
                    begun.mark = mark_of(raw.mark);
                }
                return begun;
            });
    }

    /// Has it been done? Returns an optional once_mark.
    template <typename Mode = throwing_t>
    answer<std::optional<once_mark>, Mode> get(Mode mode = {}) const
    {
        hf_once_mark mark = HF_ONCE_MARK_INIT;
        return detail::run<std::optional<once_mark>, detail::answers<HF_NOT_FOUND>>(
            std::move(mode),
            [&](hf_result &raw, hf_error *err) {
                raw.mark = &mark;
                return hf_once_get(store_, name_.data(), name_.size(), &mark, err);
            },
            [&](auto... rest) {
                return hf_once_get_async(store_, name_.data(), name_.size(), rest...);
            },
            [](const hf_result &raw) {
                return raw.status == HF_OK ? std::optional<once_mark>(mark_of(raw.mark))
                                           : std::nullopt;
            });
    }

    /// Begin under a lease of the same name that is held already. Empty: it is ours to do; else by
    /// whom it has been done.
    template <typename Mode = throwing_t>
    static answer<std::optional<once_mark>, Mode> claim(lease &held, time_span mark_for = {},
                                                        Mode mode = {})
    {
        hf_lease *handle = held.native();
        hf_once_mark mark = HF_ONCE_MARK_INIT;
        return detail::run<std::optional<once_mark>, detail::answers<HF_DONE>>(
            std::move(mode),
            [&](hf_result &raw, hf_error *err) {
                raw.mark = &mark;
                return hf_once_claim(handle, mark_for.ms(), &mark, err);
            },
            [&](auto... rest) { return hf_once_claim_async(handle, mark_for.ms(), rest...); },
            [](const hf_result &raw) {
                return raw.status == HF_DONE ? std::optional<once_mark>(mark_of(raw.mark))
                                             : std::nullopt;
            });
    }

    /// It is done: set the mark. fenced_error: a later holder has begun.
    template <typename Mode = throwing_t>
    static answer<void, Mode> finish(lease &held, Mode mode = {})
    {
        hf_lease *handle = held.native();
        return detail::run<void>(
            std::move(mode),
            [&](hf_result &, hf_error *err) { return hf_once_finish(handle, err); },
            [&](auto... rest) { return hf_once_finish_async(handle, rest...); }, detail::nothing());
    }

    /// Delete the mark: the next worker does it again. not_found_error: there is none.
    template <typename Mode = throwing_t> answer<void, Mode> remove(Mode mode = {})
    {
        return detail::run<void>(
            std::move(mode),
            [&](hf_result &, hf_error *err) {
                return hf_once_delete(store_, name_.data(), name_.size(), err);
            },
            [&](auto... rest) {
                return hf_once_delete_async(store_, name_.data(), name_.size(), rest...);
            },
            detail::nothing());
    }

  private:
    static once_mark mark_of(const hf_once_mark *raw)
    {
        if (!raw)
            return {};
        return { raw->token, std::chrono::milliseconds(raw->at_ms), detail::from_ms(raw->ttl_ms),
                 detail::text_of(raw->label) };
    }
};

} // namespace holdfast

#endif
