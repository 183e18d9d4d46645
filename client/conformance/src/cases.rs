//! All cases, by name.

use std::{fmt, sync::Arc};

use futures::future::LocalBoxFuture;
use helve_client::Error;

use crate::{
    bad_input, claims, client_state, contention, guards, handles,
    host::Host,
    lifetimes, mcpkit, owners, pages, patterns, renewal, replay,
    setup::Setup,
    state,
    tool::{ToolCase, ToolSetup},
    transact, values,
};

/// One case.
pub struct Case {
    /// The fact that it shows.
    pub name: &'static str,
    run: fn(Setup) -> LocalBoxFuture<'static, Result<(), Error>>,
}

impl Case {
    /// Runs it in stores of its own. The future is not `Send`: await it where the runtime blocks.
    ///
    /// # Errors
    /// Whatever a call failed with that should not have.
    ///
    /// # Panics
    /// If an answer is not what it should be.
    pub async fn run(&self, host: Arc<dyn Host>) -> Result<(), Error> {
        (self.run)(Setup::new(host)?).await
    }
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Case").field(&self.name).finish()
    }
}

macro_rules! cases {
    (
        host { $($module:ident: $($name:ident),*;)* }
        tool { $($tool_module:ident: $($tool_name:ident),*;)* }
    ) => {
        /// All cases, those of the state tool included.
        pub const CASES: &[Case] = &[
            $($(Case {
                name: concat!(stringify!($module), "::", stringify!($name)),
                run: |setup| Box::pin($module::$name(setup)),
            },)*)*
            $($(Case {
                name: concat!(stringify!($tool_module), "::", stringify!($tool_name)),
                run: |setup| Box::pin($tool_module::$tool_name(ToolSetup::of_host(setup))),
            },)*)*
        ];

        /// All cases of the state tool.
        pub const TOOL_CASES: &[ToolCase] = &[$($(
            ToolCase {
                name: concat!(stringify!($tool_module), "::", stringify!($tool_name)),
                run: |setup| Box::pin($tool_module::$tool_name(setup)),
            },
        )*)*];
    };
}

cases! {
host {
    mcpkit:
        mint_and_get,
        get_of_a_missing_id_is_none,
        delete_is_true_once,
        put_says_whether_it_existed,
        an_expired_handle_is_not_read_though_nothing_collects,
        expired_handles_leave_the_count,
        default_ttl_is_that_of_the_options,
        never_overrides_the_default,
        ids_have_the_prefix,
        ids_are_unique,
        concurrent_mint_get_delete_leave_nothing,
        stores_of_different_names_are_isolated,
        close_is_idempotent_and_final,
        works_through_the_interface;
    lifetimes:
        put_without_default_clears_the_deadline,
        put_with_default_resets_it,
        put_never_makes_immortal,
        put_and_delete_of_an_expired_handle_are_false,
        a_handle_is_never_served_at_or_after_its_deadline,
        keep_leaves_the_lifetime,
        renew_changes_the_lifetime_and_not_the_revision,
        a_get_restarts_the_idle_time,
        an_idle_handle_expires;
    renewal:
        reads_at_the_deadline_do_not_delete_a_renewed_handle;
    handles:
        resolve_tells_live_expired_taken_and_unknown,
        put_if_writes_only_on_the_revision,
        a_taken_handle_cannot_be_written,
        lists_are_in_order_with_values_on_request,
        what_one_node_writes_any_node_reads,
        a_closed_client_says_so;
    contention:
        updates_of_sixteen_clients_lose_nothing,
        one_of_sixteen_takes_gets_the_value,
        one_of_sixteen_creations_wins,
        update_of_what_is_gone_says_why,
        an_update_that_gives_up_writes_nothing;
    owners:
        a_foreign_handle_is_unknown_to_every_call,
        each_owner_has_a_handle_of_the_same_id,
        lists_and_counts_are_the_owners,
        keys_are_the_owners;
    pages:
        pages_of_handles_are_the_whole_list_in_order,
        a_mint_answers_the_revision_on_which_a_take_is_conditional,
        bytes_are_kept_as_they_are,
        keys_hold_bytes_beside_json_in_lists_batches_and_transactions,
        value_that_does_not_decode_is_named_and_hides_no_page_before_it,
        an_owner_without_a_name_is_refused_unsent;
    guards:
        one_of_sixteen_holds_the_guard_and_the_next_has_a_higher_fence,
        a_guard_that_is_not_released_lapses,
        a_dropped_guard_is_let_go;
    claims:
        one_of_sixteen_has_the_lease_and_all_get_its_result,
        a_lease_that_ends_is_lost_and_the_next_has_a_higher_fence,
        an_abandoned_claim_is_free_and_its_fence_worth_nothing,
        a_lease_is_told_how_those_before_it_ended,
        another_digest_is_a_conflict_until_the_result_is_gone,
        only_claims_and_deletes_change_a_claim,
        bad_claims_are_refused;
    client_state:
        what_one_process_set_another_gets_until_it_is_cleared,
        a_token_is_that_of_its_client_and_issuer,
        what_has_expired_is_not_there_any_more;
    transact:
        a_checkout_takes_the_cart_and_stores_the_order,
        what_does_not_live_aborts_all,
        a_conflict_aborts_all_and_names_the_operation,
        every_operation_answers_in_order,
        a_transaction_over_a_closed_store_says_so;
    replay:
        a_retried_mutation_returns_its_first_outcome_on_any_node,
        a_retried_take_returns_the_value_again,
        a_request_id_is_executed_once,
        a_reused_identity_is_refused,
        what_is_below_the_floor_is_stale,
        what_is_beyond_the_window_is_too_early,
        request_ids_of_other_times_are_refused,
        an_unknown_session_is_refused;
    bad_input:
        bad_handle_calls_are_refused,
        bad_key_calls_are_refused,
        bad_transactions_are_refused,
        bad_lifetimes_are_refused,
        bad_identities_are_refused,
        what_fits_no_message_is_too_large,
        the_largest_of_everything_is_accepted;
}
tool {
    state:
        store_retrieve_delete_exists,
        list_has_full_keys_in_order,
        a_key_may_hold_any_text_but_nul,
        batch_store_is_all_or_nothing,
        batch_retrieve_keeps_the_order,
        store_if_writes_only_on_the_revision,
        a_store_answers_its_revision,
        one_of_sixteen_stores_at_one_revision_wins,
        keys_expire_and_are_then_absent,
        a_lifetime_is_kept_or_refused,
        bad_keys_and_batches_are_refused,
        the_largest_key_and_value_are_kept,
        closed_keys_say_so;
    pages:
        pages_of_keys_are_the_whole_list_in_order;
    values:
        every_double_comes_back_to_the_bit,
        every_value_comes_back_as_it_is,
        what_is_too_deep_to_be_read_again_is_refused;
    patterns:
        sixteen_saves_get_sixteen_versions,
        versions_are_loaded_listed_and_pruned,
        a_pruned_number_is_not_given_again,
        events_of_sixteen_appends_are_in_order_and_none_is_lost,
        a_replay_begins_at_its_time,
        a_series_of_replays_has_each_event_once,
        updates_of_sixteen_callers_lose_nothing,
        a_contested_store_is_resolved,
        agents_cannot_leave_their_prefix;
}
}
