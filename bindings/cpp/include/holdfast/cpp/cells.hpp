// SPDX-License-Identifier: MIT
/// @file
/// Without a lock: cells (bytes with a version), counters, guarded resources and rate limits.
#ifndef HOLDFAST_CPP_CELLS_HPP
#define HOLDFAST_CPP_CELLS_HPP

#include <holdfast/cpp/store.hpp>

#include <exception>

namespace holdfast
{

/// Something of a store that has a name.
class named
{
  public:
    /// Its name.
    const std::string &name() const noexcept
    {
        return name_;
    }

  protected:
    /// @cond internal
    named(const store &where, std::string name) : store_(where.native()), name_(std::move(name))
    {
    }

    hf_store *store_;
    std::string name_;
    /// @endcond
};

/// What a cell holds.
struct cell_value {
    std::string bytes;               ///< 0 to HF_CELL_MAX bytes.
    std::uint64_t version = 0;       ///< Every write changes it, and it never comes back.
    std::chrono::milliseconds ttl{}; ///< Left; max(): it has none.
};

/// What the function of cell::update() wants.
struct cell_change {
    cell_change() = default;

    /// Leave the cell as it is.
    static cell_change leave()
    {
        return {};
    }

    /// Write these bytes.
    static cell_change write(std::string bytes, time_span ttl = {})
    {
        cell_change change;
        change.action = HF_CELL_ACTION_WRITE;
        change.bytes = std::move(bytes);
        change.ttl = ttl;
        return change;
    }

    /// Delete the cell.
    static cell_change remove()
    {
        cell_change change;
        change.action = HF_CELL_ACTION_DELETE;
        return change;
    }

    hf_cell_action action = HF_CELL_ACTION_LEAVE; ///< What to do.
    std::string bytes;                            ///< What to write.
    time_span ttl;                                ///< How long it stays; zero: for ever.
};

/// Decides what becomes of a cell, which is empty if there is none. It may be called several times,
/// and must have no side effects. An exception out of it ends the update, and nothing is written.
using cell_function = std::function<cell_change(const std::optional<cell_value> &)>;

namespace detail
{

inline std::string bytes_of(const void *bytes, std::size_t len)
{
    return bytes ? std::string(static_cast<const char *>(bytes), len) : std::string();
}

inline std::uint64_t version_of(const hf_result &raw)
{
    return raw.version;
}

// The function of an update, and what it has thrown.
struct updating {
    cell_function function;
    cell_change change;
    std::exception_ptr thrown;

    static hf_status call(const hf_cell *old, hf_cell_change *wish, void *arg) noexcept
    {
        auto *self = static_cast<updating *>(arg);
        std::optional<cell_value> seen;

        HOLDFAST_TRY
        {
            if (old->version != 0)
                seen = { bytes_of(old->bytes, old->len), old->version, from_ms(old->ttl_ms) };
            self->change = self->function(seen);
        }
        HOLDFAST_CATCH(...)
        {
            self->thrown = std::current_exception();
            return HF_CANCELLED;
        }
        wish->action = self->change.action;
        wish->bytes = self->change.bytes.data();
        wish->len = self->change.bytes.size();
        wish->ttl_ms = self->change.ttl.ms();
        return HF_OK;
    }
};

} // namespace detail

/// A cell: a few bytes with a version, in a store with HF_CAP_CELLS.
class cell : public named
{
  public:
    /// The cell of this name.
    cell(const store &where, std::string name) : named(where, std::move(name))
    {
    }

    /// Read it: an optional cell_value, empty if there is none.
    template <typename Mode = throwing_t>
    answer<std::optional<cell_value>, Mode> get(Mode mode = {}) const
    {
        return detail::run<std::optional<cell_value>, detail::answers<HF_NOT_FOUND>>(
            std::move(mode),
            [&](hf_result &raw, hf_error *err) {
                hf_cell found = HF_CELL_INIT;
                const hf_status status =
                    hf_cell_get(store_, name_.data(), name_.size(), &found, err);
                raw.bytes = found.bytes;
                raw.len = found.len;
                raw.version = found.version;
                raw.number = found.ttl_ms;
                return status;
            },
            [&](auto... rest) {
                return hf_cell_get_async(store_, name_.data(), name_.size(), rest...);
            },
            [](const hf_result &raw) -> std::optional<cell_value> {
                const detail::owned<void> bytes(raw.bytes);
                if (raw.status != HF_OK)
                    return std::nullopt;
                return cell_value{ detail::bytes_of(bytes.get(), raw.len), raw.version,
                                   detail::from_ms(raw.number) };
            });
    }

    /// Write, whatever is there. Returns the new version. `ttl`: how long it stays; zero: for ever.
    template <typename Mode = throwing_t>
    answer<std::uint64_t, Mode> set(std::string_view bytes, time_span ttl = {}, Mode mode = {})
    {
        const hf_cell_request request = writing(bytes, ttl, 0);
        return detail::run<std::uint64_t>(
            std::move(mode),
            [&](hf_result &raw, hf_error *err) {
                return hf_cell_set(store_, &request, &raw.version, err);
            },
            [&](auto... rest) { return hf_cell_set_async(store_, &request, rest...); },
            detail::version_of);
    }

    /// Write if the cell still has `version` (0: if there is none). Returns the new version; empty:
    /// it was changed, and nothing was done.
    template <typename Mode = throwing_t>
    answer<std::optional<std::uint64_t>, Mode> swap(std::uint64_t version, std::string_view bytes,
                                                    time_span ttl = {}, Mode mode = {})
    {
        const hf_cell_request request = writing(bytes, ttl, version);
        return detail::run<std::optional<std::uint64_t>, detail::answers<HF_CHANGED>>(
            std::move(mode),
            [&](hf_result &raw, hf_error *err) {
                return hf_cell_swap(store_, &request, &raw.version, err);
            },
            [&](auto... rest) { return hf_cell_swap_async(store_, &request, rest...); },
            [](const hf_result &raw) {
                return raw.status == HF_OK ? std::optional<std::uint64_t>(raw.version)
                                           : std::nullopt;
            });
    }

    /// Delete it if it still has `version`. false: it was changed, and nothing was done.
    template <typename Mode = throwing_t>
    answer<bool, Mode> remove(std::uint64_t version, Mode mode = {})
    {
        return detail::run<bool, detail::answers<HF_CHANGED>>(
            std::move(mode),
            [&](hf_result &, hf_error *err) {
                return hf_cell_delete(store_, name_.data(), name_.size(), version, err);
            },
            [&](auto... rest) {
                return hf_cell_delete_async(store_, name_.data(), name_.size(), version, rest...);
            },
            [](const hf_result &raw) { return raw.status == HF_OK; });
    }

    /// Read, let `function` decide, and write if nobody else wrote in the meantime; else again.
    /// Returns the version that the cell has then, 0: none. Blocks; what the function throws comes
    /// out of here.
    std::uint64_t update(cell_function function, wait_time wait = forever,
                         canceller *cancel = nullptr)
    {
        detail::updating work{ std::move(function), {}, nullptr };
        hf_cell_request request = waiting(0, wait, cancel);
        std::uint64_t version = 0;
        hf_error err;

        request.fn = &detail::updating::call;
        request.fn_arg = &work;
        const hf_status status = hf_cell_update(store_, &request, &version, &err);
        if (work.thrown)
            std::rethrow_exception(work.thrown);
        if (status != HF_OK)
            failure(err).raise();
        return version;
    }

    /// The same with a mode that begins the call: the function runs in driver::process(), and what
    /// it throws makes the call end with status::cancelled.
    template <typename Mode>
    answer<std::uint64_t, Mode> update(cell_function function, wait_time wait, canceller *cancel,
                                       Mode mode)
    {
        auto work = std::make_shared<detail::updating>();
        hf_cell_request request = waiting(0, wait, cancel);

        work->function = std::move(function);
        request.fn = &detail::updating::call;
        request.fn_arg = work.get();
        return detail::run<std::uint64_t>(
            std::move(mode),
            [&](hf_result &raw, hf_error *err) {
                return hf_cell_update(store_, &request, &raw.version, err);
            },
            [&](auto... rest) { return hf_cell_update_async(store_, &request, rest...); },
            [work](const hf_result &raw) { return raw.version; });
    }

    /// Wait until the version of the cell is not `version`. Returns the present one, 0: there is no
    /// cell. timeout_error, cancelled_error.
    template <typename Mode = throwing_t>
    answer<std::uint64_t, Mode> wait(std::uint64_t version, wait_time wait = forever,
                                     canceller *cancel = nullptr, Mode mode = {}) const
    {
        const hf_cell_request request = waiting(version, wait, cancel);
        return detail::run<std::uint64_t>(
            std::move(mode),
            [&](hf_result &raw, hf_error *err) {
                return hf_cell_wait(store_, &request, &raw.version, err);
            },
            [&](auto... rest) { return hf_cell_wait_async(store_, &request, rest...); },
            detail::version_of);
    }

  private:
    hf_cell_request asking() const
    {
        hf_cell_request request = HF_CELL_REQUEST_INIT;
        request.name = name_.data();
        request.name_len = name_.size();
        return request;
    }

    hf_cell_request writing(std::string_view bytes, time_span ttl, std::uint64_t version) const
    {
        hf_cell_request request = asking();
        request.bytes = bytes.data();
        request.len = bytes.size();
        request.ttl_ms = ttl.ms();
        request.version = version;
        return request;
    }

    hf_cell_request waiting(std::uint64_t version, wait_time wait, canceller *cancel) const
    {
        hf_cell_request request = asking();
        request.version = version;
        request.wait_ms = wait.ms();
        request.cancel = detail::native(cancel);
        return request;
    }
};

/// One item of commit(). `version`: what the cell must have; 0: there must be none; HF_CELL_ANY.
struct cell_item {
    cell_item() = default;

    /// Only assert that the cell has this version.
    static cell_item expect(std::string name, std::uint64_t version)
    {
        return make(std::move(name), version, HF_CELL_ACTION_LEAVE, {}, {});
    }

    /// Write if the cell has this version.
    static cell_item write(std::string name, std::uint64_t version, std::string bytes,
                           time_span ttl = {})
    {
        return make(std::move(name), version, HF_CELL_ACTION_WRITE, std::move(bytes), ttl);
    }

    /// Delete if the cell has this version.
    static cell_item remove(std::string name, std::uint64_t version)
    {
        return make(std::move(name), version, HF_CELL_ACTION_DELETE, {}, {});
    }

    std::string name;                             ///< Of the cell.
    std::uint64_t version = 0;                    ///< What it must have.
    hf_cell_action action = HF_CELL_ACTION_LEAVE; ///< LEAVE only asserts the version.
    std::string bytes;                            ///< What to write.
    time_span ttl;                                ///< How long it stays; zero: for ever.

  private:
    static cell_item make(std::string name, std::uint64_t version, hf_cell_action action,
                          std::string bytes, time_span ttl)
    {
        cell_item item;

        item.name = std::move(name);
        item.version = version;
        item.action = action;
        item.bytes = std::move(bytes);
        item.ttl = ttl;
        return item;
    }
};

/// What commit() has found.
struct commit_result {
    bool committed = false;              ///< false: a cell has another version; nothing was done.
    std::vector<std::uint64_t> versions; ///< Committed: the version of each cell now, 0: none.
    std::size_t index = 0;               ///< Not committed: the first item that does not fit ...
    std::uint64_t version = 0;           ///< ... and the version of its cell, 0: none.
};

/// Do all items in one step if every cell has the version that its item expects (HF_CAP_COMMIT).
template <typename Mode = throwing_t>
answer<commit_result, Mode> commit(const store &where, const std::vector<cell_item> &items,
                                   Mode mode = {})
{
    std::vector<hf_cell_item> raw_items;
    std::vector<std::uint64_t> versions(items.size());

    for (const cell_item &item : items) {
        hf_cell_item raw = HF_CELL_ITEM_INIT;
        raw.name = item.name.data();
        raw.name_len = item.name.size();
        raw.version = item.version;
        raw.action = item.action;
        raw.bytes = item.bytes.data();
        raw.len = item.bytes.size();
        raw.ttl_ms = item.ttl.ms();
        raw_items.push_back(raw);
    }
    return detail::run<commit_result, detail::answers<HF_CHANGED>>(
        std::move(mode),
        [&](hf_result &raw, hf_error *err) {
            std::size_t index = 0;
            const hf_status status = hf_cells_commit(
                where.native(), raw_items.data(), raw_items.size(), versions.data(), &index, err);
            raw.versions = versions.data();
            raw.count = versions.size();
            if (status == HF_CHANGED) {
                raw.number = static_cast<std::int64_t>(index);
                raw.version = versions[index];
            }
            return status;
        },
        [&](auto... rest) {
            return hf_cells_commit_async(where.native(), raw_items.data(), raw_items.size(),
                                         rest...);
        },
        [](const hf_result &raw) {
            commit_result done;
            done.committed = raw.status == HF_OK;
            if (done.committed) {
                done.versions.assign(raw.versions, raw.versions + raw.count);
            } else {
                done.index = static_cast<std::size_t>(raw.number);
                done.version = raw.version;
            }
            return done;
        });
}

/// What counter::swap() has found.
struct counter_swap {
    bool swapped = false;     ///< false: it was not as expected, and nothing was done.
    std::int64_t current = 0; ///< The present value.
};

/// A 64-bit number; one that does not exist is 0. Each call is atomic.
class counter : public named
{
  public:
    /// The counter of this name.
    counter(const store &where, std::string name) : named(where, std::move(name))
    {
    }

    /// Add; returns the sum.
    template <typename Mode = throwing_t>
    answer<std::int64_t, Mode> add(std::int64_t delta = 1, Mode mode = {})
    {
        return detail::run<std::int64_t>(
            std::move(mode),
            [&](hf_result &raw, hf_error *err) {
                return hf_counter_add(store_, name_.data(), name_.size(), delta, &raw.number, err);
            },
            [&](auto... rest) {
                return hf_counter_add_async(store_, name_.data(), name_.size(), delta, rest...);
            },
            number_of);
    }

    /// Its value.
    template <typename Mode = throwing_t> answer<std::int64_t, Mode> get(Mode mode = {}) const
    {
        return detail::run<std::int64_t>(
            std::move(mode),
            [&](hf_result &raw, hf_error *err) {
                return hf_counter_get(store_, name_.data(), name_.size(), &raw.number, err);
            },
            [&](auto... rest) {
                return hf_counter_get_async(store_, name_.data(), name_.size(), rest...);
            },
            number_of);
    }

    /// Set it.
    template <typename Mode = throwing_t> answer<void, Mode> set(std::int64_t value, Mode mode = {})
    {
        return detail::run<void>(
            std::move(mode),
            [&](hf_result &, hf_error *err) {
                return hf_counter_set(store_, name_.data(), name_.size(), value, err);
            },
            [&](auto... rest) {
                return hf_counter_set_async(store_, name_.data(), name_.size(), value, rest...);
            },
            detail::nothing());
    }

    /// Set it if it is `expected`. Returns a counter_swap.
    template <typename Mode = throwing_t>
    answer<counter_swap, Mode> swap(std::int64_t expected, std::int64_t value, Mode mode = {})
    {
        return detail::run<counter_swap, detail::answers<HF_CHANGED>>(
            std::move(mode),
            [&](hf_result &raw, hf_error *err) {
                return hf_counter_swap(store_, name_.data(), name_.size(), expected, value,
                                       &raw.number, err);
            },
            [&](auto... rest) {
                return hf_counter_swap_async(store_, name_.data(), name_.size(), expected, value,
                                             rest...);
            },
            [](const hf_result &raw) {
                return counter_swap{ raw.status == HF_OK, raw.number };
            });
    }

    /// Delete it; also if it did not exist.
    template <typename Mode = throwing_t> answer<void, Mode> remove(Mode mode = {})
    {
        return detail::run<void>(
            std::move(mode),
            [&](hf_result &, hf_error *err) {
                return hf_counter_delete(store_, name_.data(), name_.size(), err);
            },
            [&](auto... rest) {
                return hf_counter_delete_async(store_, name_.data(), name_.size(), rest...);
            },
            detail::nothing());
    }

  private:
    static std::int64_t number_of(const hf_result &raw)
    {
        return raw.number;
    }
};

/// A resource that remembers the highest token that it has seen, and refuses every lower one:
/// fenced_error. The tokens of one resource are all of one lock name in one store.
class guard : public named
{
  public:
    /// The resource of this name.
    guard(const store &where, std::string name) : named(where, std::move(name))
    {
    }

    /// Present the token and read, in one step. Returns the bytes; empty optional: never written.
    template <typename Mode = throwing_t>
    answer<std::optional<std::string>, Mode> claim(std::uint64_t token, Mode mode = {})
    {
        return detail::run<std::optional<std::string>>(
            std::move(mode),
            [&](hf_result &raw, hf_error *err) {
                return hf_guard_claim(store_, name_.data(), name_.size(), token, &raw.bytes,
                                      &raw.len, err);
            },
            [&](auto... rest) {
                return hf_guard_claim_async(store_, name_.data(), name_.size(), token, rest...);
            },
            [](const hf_result &raw) -> std::optional<std::string> {
                const detail::owned<void> bytes(raw.bytes);
                if (!bytes)
                    return std::nullopt;
                return detail::bytes_of(bytes.get(), raw.len);
            });
    }

    /// Replace the bytes if no higher token has been seen.
    template <typename Mode = throwing_t>
    answer<void, Mode> set(std::uint64_t token, std::string_view bytes, Mode mode = {})
    {
        return detail::run<void>(
            std::move(mode),
            [&](hf_result &, hf_error *err) {
                return hf_guard_set(store_, name_.data(), name_.size(), token, bytes.data(),
                                    bytes.size(), err);
            },
            [&](auto... rest) {
                return hf_guard_set_async(store_, name_.data(), name_.size(), token, bytes.data(),
                                          bytes.size(), rest...);
            },
            detail::nothing());
    }
};

} // namespace holdfast

#endif
