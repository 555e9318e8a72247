// SPDX-License-Identifier: MIT
/// @file
/// What can be seen of a store, as values: holders and waiters, findings, deadlocks, engines.
#ifndef HOLDFAST_CPP_INSPECT_HPP
#define HOLDFAST_CPP_INSPECT_HPP

#include <holdfast/cpp/call.hpp>

#include <vector>

namespace holdfast
{

/// What an engine cannot do, and why.
struct lack {
    std::uint64_t caps = 0; ///< HF_CAP_* that the engine has not.
    std::string why;        ///< The reason, without a full stop.
};

/// What a store is, and what it can do.
struct store_info {
    std::string engine;                                ///< Like "lmdb".
    std::string location;                              ///< The URL or path in use, without secrets.
    std::uint64_t caps = 0;                            ///< HF_CAP_*.
    hf_token_strength tokens = HF_TOKEN_STRENGTH_NONE; ///< What its fencing tokens promise.
    std::chrono::milliseconds default_ttl{};           ///< Zero: none unless asked for.
    std::chrono::milliseconds min_ttl{};               ///< The shortest ttl.
    std::chrono::milliseconds max_ttl{};               ///< The longest one; zero: no limit.
    std::vector<lack> lacks;                           ///< What it cannot do.
    std::string source; ///< What chose it: "the caller", "HOLDFAST_STORE", "profile NAME in FILE"
                        ///< or "the built-in default".

    /// Does it have all of these HF_CAP_*?
    bool can(std::uint64_t wanted) const noexcept
    {
        return (caps & wanted) == wanted;
    }
};

/// A holder of a name.
struct holder {
    std::uint64_t token = 0;          ///< Of the present holder.
    std::uint64_t first = 0;          ///< First token of its block.
    std::uint32_t permits = 0;        ///< How many it has.
    bool detached = false;            ///< No process is responsible for it.
    std::chrono::milliseconds age{};  ///< Held since.
    std::chrono::milliseconds ttl{};  ///< Left; max(): none.
    std::int64_t pid = 0;             ///< 0: unknown.
    std::int64_t tid = 0;             ///< 0: unknown.
    std::string label;                ///< For people; may have any bytes.
    std::uint64_t session = 0;        ///< For deadlock detection; 0: unknown.
    bool lingers = false;             ///< Its process may keep it while nobody uses it.
    bool idle = false;                ///< ... and did so when it told the store last.
    bool watched = false;             ///< It learns that others wait.
    std::vector<std::uint32_t> slots; ///< options::numbered: its numbers.
};

/// A waiter of a name.
struct waiter {
    std::uint32_t position = 0;        ///< 1 is next.
    std::uint32_t permits = 0;         ///< How many it asks for.
    holdfast::kind kind = kind::mutex; ///< What it asks for.
    std::chrono::milliseconds age{};   ///< Waiting since.
    std::int64_t pid = 0;              ///< 0: unknown.
    std::string label;                 ///< For people; may have any bytes.
    std::uint64_t session = 0;         ///< For deadlock detection; 0: unknown.
};

/// One name that is held or waited for.
struct entry {
    std::string name;                   ///< May have any bytes.
    holdfast::kind kind = kind::mutex;  ///< kind::shared: a read-write lock.
    std::uint32_t capacity = 0;         ///< How many permits there are.
    std::uint32_t taken = 0;            ///< How many are taken.
    std::chrono::milliseconds closed{}; ///< lock_delay left.
    bool resized = false;               ///< Its capacity was set by semaphore::resize().
    std::vector<holder> holders;        ///< Those that hold it.
    std::vector<waiter> waiters;        ///< The waiters, in order.
};

/// What store::inspect() has seen, sorted by name.
struct view {
    std::vector<entry> entries;   ///< One for each name.
    bool waiters_tracked = false; ///< false: this engine cannot list waiters.
};

/// One finding of store::check().
struct finding {
    hf_check_level level = HF_CHECK_LEVEL_OK; ///< How bad it is.
    std::string topic;                        ///< What it is about.
    std::string text;                         ///< What was found.
    bool note = false; ///< A fact to know, which is no fault: "no replicas". The level is OK.
};

/// A waiter of a cycle: it waits for `name`, which the next waiter has.
struct deadlock_waiter {
    std::string name;                ///< What it waits for.
    std::uint64_t token = 0;         ///< Of its lease of what the waiter before waits for.
    std::uint64_t session = 0;       ///< Its session.
    std::chrono::milliseconds age{}; ///< Waiting since.
    std::int64_t pid = 0;            ///< 0: unknown.
    std::string label;               ///< For people.
};

/// A cycle; its first waiter is the one that will get status::deadlock.
using deadlock_cycle = std::vector<deadlock_waiter>;

/// What an engine promises.
struct engine_info {
    std::string name;       ///< Like "lmdb".
    std::string schemes;    ///< Like "redis rediss".
    bool available = false; ///< Its module is there and loads; else why_not says more.
    std::string why_not;    ///< If it is not available.
    std::uint64_t caps = 0; ///< HF_CAP_*.
    hf_token_strength tokens = HF_TOKEN_STRENGTH_NONE; ///< What its tokens promise.
    std::string on_crash;                              ///< What a crash of the holder does.
    std::string on_pause;                              ///< What a pause of the holder does.
    std::string on_clock_jump;                         ///< What a jump of a clock does.
    std::string on_server_loss;                        ///< What the loss of a server does.
    std::string on_partition;                          ///< What a partition does.
    std::string fairness;                              ///< In which order waiters are served.
    std::string wakeup;                                ///< What wakes a waiter.
    std::string choice;      ///< What a URL says to have these promises; empty: nothing.
    std::vector<lack> lacks; ///< What it cannot do.
};

namespace detail
{

inline std::vector<lack> lacks_of(const hf_engine_lack *list)
{
    std::vector<lack> lacks;

    for (; list && list->why; list++)
        lacks.push_back({ list->caps, list->why });
    return lacks;
}

inline holder holder_of(const hf_holder &raw)
{
    holder h;

    h.token = raw.token;
    h.first = raw.first;
    h.permits = raw.permits;
    h.detached = raw.detached;
    h.age = std::chrono::milliseconds(raw.age_ms);
    h.ttl = from_ms(raw.ttl_ms);
    h.pid = raw.pid;
    h.tid = raw.tid;
    h.label = text_of(raw.label);
    h.session = raw.session;
    h.lingers = raw.lingers;
    h.idle = raw.idle;
    h.watched = raw.watched;
    h.slots.assign(raw.slots, raw.slots + raw.slot_count);
    return h;
}

inline waiter waiter_of(const hf_waiter &raw)
{
    waiter w;

    w.position = raw.position;
    w.permits = raw.permits;
    w.kind = static_cast<kind>(raw.kind);
    w.age = std::chrono::milliseconds(raw.age_ms);
    w.pid = raw.pid;
    w.label = text_of(raw.label);
    w.session = raw.session;
    return w;
}

inline entry entry_of(const hf_entry &raw)
{
    entry e;

    e.name.assign(reinterpret_cast<const char *>(raw.name), raw.name_len);
    e.kind = static_cast<kind>(raw.kind);
    e.capacity = raw.capacity;
    e.taken = raw.taken;
    e.closed = std::chrono::milliseconds(raw.closed_ms);
    e.resized = raw.resized;
    for (std::size_t i = 0; i < raw.holder_count; i++)
        e.holders.push_back(holder_of(*hf_entry_holder(&raw, i)));
    for (std::size_t i = 0; i < raw.waiter_count; i++)
        e.waiters.push_back(waiter_of(*hf_entry_waiter(&raw, i)));
    return e;
}

inline view view_of(const hf_result &raw)
{
    const owned<hf_view> seen(raw.view);
    view v;

    v.waiters_tracked = hf_view_waiters_tracked(seen.get());
    for (std::size_t i = 0; i < hf_view_count(seen.get()); i++)
        v.entries.push_back(entry_of(*hf_view_entry(seen.get(), i)));
    return v;
}

inline std::vector<finding> findings_of(const hf_result &raw)
{
    const owned<hf_report> report(raw.report);
    std::vector<finding> findings;

    for (std::size_t i = 0; i < hf_report_count(report.get()); i++) {
        const hf_finding *item = hf_report_item(report.get(), i);
        finding one;
        one.level = item->level;
        one.topic = text_of(item->topic);
        one.text = text_of(item->text);
        one.note = item->note;
        findings.push_back(std::move(one));
    }
    return findings;
}

inline deadlock_waiter deadlock_waiter_of(const hf_deadlock_waiter &raw)
{
    deadlock_waiter w;

    w.name.assign(reinterpret_cast<const char *>(raw.name), raw.name_len);
    w.token = raw.token;
    w.session = raw.session;
    w.age = std::chrono::milliseconds(raw.age_ms);
    w.pid = raw.pid;
    w.label = text_of(raw.label);
    return w;
}

inline std::vector<deadlock_cycle> deadlocks_of(const hf_result &raw)
{
    const owned<hf_deadlocks> list(raw.deadlocks);
    std::vector<deadlock_cycle> cycles;

    for (std::size_t i = 0; i < hf_deadlock_count(list.get()); i++) {
        const hf_deadlock *item = hf_deadlock_item(list.get(), i);
        cycles.emplace_back();
        for (std::size_t k = 0; k < item->waiter_count; k++)
            cycles.back().push_back(deadlock_waiter_of(*hf_deadlock_get_waiter(item, k)));
    }
    return cycles;
}

inline engine_info engine_of(const hf_engine_info &raw)
{
    engine_info e;

    e.name = text_of(raw.name);
    e.schemes = text_of(raw.schemes);
    e.available = raw.available;
    e.why_not = text_of(raw.why_not);
    e.choice = text_of(raw.choice);
    if (!raw.available)
        return e;
    e.caps = raw.caps;
    e.tokens = raw.tokens;
    e.on_crash = text_of(raw.on_crash);
    e.on_pause = text_of(raw.on_pause);
    e.on_clock_jump = text_of(raw.on_clock_jump);
    e.on_server_loss = text_of(raw.on_server_loss);
    e.on_partition = text_of(raw.on_partition);
    e.fairness = text_of(raw.fairness);
    e.wakeup = text_of(raw.wakeup);
    e.lacks = lacks_of(raw.lacks);
    return e;
}

} // namespace detail

/// All engines, each with its modes (engine_info::choice) behind it. It may load their modules.
inline std::vector<engine_info> engines()
{
    std::vector<engine_info> list;

    for (std::size_t i = 0; hf_engine_get(i); i++)
        for (std::size_t mode = 0; const hf_engine_info *raw = hf_engine_get_mode(i, mode); mode++)
            list.push_back(detail::engine_of(*raw));
    return list;
}

/// The version of the library that is loaded, like "0.2.0".
inline const char *version() noexcept
{
    return hf_version();
}

} // namespace holdfast

#endif
