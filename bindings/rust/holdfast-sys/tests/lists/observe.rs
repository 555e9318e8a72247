// SPDX-License-Identifier: MIT
//! The same for `observe.h`.
use super::*;

pub fn layouts() -> Vec<Layout> {
    vec![
        layout!(hf_histogram {
            count,
            sum_ms,
            buckets
        }),
        layout!(hf_stats {
            size,
            granted,
            busy,
            timeouts,
            cancelled,
            deadlocks,
            unknown,
            failed,
            reentries,
            handovers,
            passes,
            lingered,
            waits,
            held,
            holds,
            renewals,
            renewals_failed,
            losses,
            releases_unknown,
            reconnects,
            commands,
            reserved
        }),
        layout!(hf_observation {
            size,
            what,
            store,
            location,
            name,
            name_len,
            kind,
            id,
            token,
            status,
            loss,
            text,
            waited_ms,
            held_ms,
            local
        }),
        layout!(hf_observer {
            size,
            on_event,
            arg
        }),
    ]
}

pub fn constants() -> Vec<(&'static str, i128)> {
    vec![
        constant!(HF_HISTOGRAM_BUCKETS),
        constant!(HF_LOSSES_MAX),
        constant!(HF_LOSS_NONE),
        constant!(HF_LOSS_EXPIRED),
        constant!(HF_LOSS_MAX_HOLD),
        constant!(HF_LOSS_BROKEN),
        constant!(HF_LOSS_FORGOTTEN),
        constant!(HF_LOSS_CLOSED),
        constant!(HF_OBSERVED_BEGIN),
        constant!(HF_OBSERVED_GRANTED),
        constant!(HF_OBSERVED_REENTERED),
        constant!(HF_OBSERVED_FAILED),
        constant!(HF_OBSERVED_WANTED),
        constant!(HF_OBSERVED_UNWANTED),
        constant!(HF_OBSERVED_AT_RISK),
        constant!(HF_OBSERVED_HELD),
        constant!(HF_OBSERVED_LOST),
        constant!(HF_OBSERVED_RELEASED),
        constant!(HF_OBSERVED_RECONNECTED),
    ]
}

pub fn functions() -> Vec<(&'static str, usize)> {
    vec![
        function!(hf_histogram_bound_ms),
        function!(hf_histogram_quantile_ms),
        function!(hf_loss_name),
        function!(hf_stats_get),
        function!(hf_observer_set),
    ]
}
