"""Defects that were there once, brought back while histories are played: each must be found.

`aim` names what users do, in this order, in the histories that look for it.
"""

from bench.histories.planting import Change, Mutant

_SERVE = ("create_deployment", "create_deployment")
_LEND = ("create_deployment", "lend_replicas", "lend_replicas", "scale_up", "lend_replicas", "delete_deployment")
_ADAPT = ("create_deployment", "create_deployment", "edit_deployment", "create_deployment", "edit_deployment")
_CREATE = (
    "create_deployment+create_deployment",
    "change_machine",
    "delete_environment",
    "create_environment+change_machine",
    "change_removal",
    "create_deployment+remove_pools",
)
_CACHE = ("create_cache", "create_reader", "edit_cache")
# What tells whether this function has composed something, and what told that when a changed label decided.
_IS_OWN = "names.include(name, manifest)"
_HAS_LABEL = (
    "find_control_plane_kind(manifest) is not None and "
    "strings(manifest, 'metadata.labels').get(_LABEL, _MANAGER) == _MANAGER"
)


def _lose_nodes(name: str, issue: str, function: str, line: str, broken: str) -> Mutant:
    """Returns a defect of what is sent to a cloud."""
    return Mutant(name, f"47: {issue}", _CREATE, (Change("function.cloud.gke", function, line, broken),), created=True)


MUTANTS = (
    _lose_nodes(
        "rolls-nodes-under-models",
        "a change that replaces nodes is sent while models are placed on them",
        "choose",
        "(change is Change.ROLLS and in_use)",
        "(change is Change.ROLLS and False)",
    ),
    _lose_nodes(
        "deletes-nodes-in-use",
        "onRemoval Delete takes effect while models are placed",
        "choose_policy",
        "    if not in_use:\n",
        "    if not in_use or deletes:\n",
    ),
    _lose_nodes(
        "adopts-without-a-look",
        "an environment that comes back changes its nodes before it has seen them",
        "choose_policy",
        "    if not observed:\n        return ManagementPolicy.OBSERVE_ONLY\n",
        "    if not observed:\n        return ManagementPolicy.RETAIN\n",
    ),
    Mutant(
        "adapter-loaded-too-soon",
        "46: a service loads an adapter whose download is not complete",
        _ADAPT,
        (
            Change(
                "function.parts.adapters",
                "_choose",
                "download is not None and download.service_may_read",
                "download is not None",
            ),
        ),
    ),
    Mutant(
        "adapter-taken-for-another",
        "46: a service loads the first adapter under the name of each",
        _ADAPT,
        (
            Change(
                "function.parts.adapters",
                "_reconcile_adapters",
                "downloads[_name_scope(r)]",
                "next(iter(downloads.values()))",
            ),
        ),
    ),
    Mutant(
        "takes-back-nothing",
        "45: who is entitled to GPUs waits beside lent replicas",
        _LEND,
        (
            Change(
                "function.capacity.reclaim",
                "ReclaimPlan.list_reclaimable",
                "    if not lent:\n        return\n",
                "    return\n",
            ),
        ),
        tight=True,
    ),
    Mutant(
        "grants-before-they-have-ended",
        "45: the GPUs of lent replicas are granted before their pods have ended",
        _LEND,
        (
            Change(
                "function.capacity.ledger",
                "remaining_grant",
                "    shares = (placement.effective_request, placement.service.allocated)\n",
                "    shares = (placement.effective_request,)\n",
            ),
        ),
        tight=True,
    ),
    Mutant(
        "gives-back-too-much",
        "45: a lender ends a replica more than it is asked for, and that one is guaranteed",
        _LEND,
        (
            Change(
                "function.capacity.reclaim",
                "find_kept",
                "max(yields.keep, 0 if is_preempted else guaranteed)",
                "max(0, yields.keep - 1)",
            ),
        ),
        tight=True,
    ),
    Mutant(
        "guarantee-shared-twice",
        "45: each deployment of a namespace counts on the whole guarantee",
        ("change_guarantee+create_deployment", "create_deployment", "lend_replicas", "scale_up"),
        (
            Change(
                "function.capacity.guarantee",
                "find_guarantee",
                "if is_counted and _find_position(placement) < own_position:",
                "if False:",
            ),
        ),
        tight=True,
    ),
    Mutant(
        "edit-before-bytes",
        "10: a model's edit reaches the service before its weights are there",
        (*_SERVE, "edit_model", "edit_model"),
        (
            Change(
                "function.serving.reconcile",
                "decide_service",
                "    if text(written, _URI) != weights.plan.uri:\n"
                "        if not weights.service_may_read:\n            return ServiceDecision.WEIGHTS_NOT_READY\n"
                "        if replaces_another and not weights.completion_recorded:\n"
                "            return ServiceDecision.COMPLETION_NOT_RECORDED\n",
            ),
        ),
    ),
    Mutant(
        "another-models-cache",
        "10: a ModelCache of another model is served under this name",
        ("create_two_caches", "create_reader", "name_anothers_cache", "name_anothers_cache"),
        (Change("function.weights.faults", "_check_named_cache", "path == model_directory(source)", "path"),),
    ),
    Mutant(
        "derived-restarts",
        "10: a number that is derived restarts pods",
        (*_SERVE, "resize_model", "resize_model"),
        (
            Change(
                "function.serving.reconcile",
                "_compose_requested",
                "is_unchanged = _read_digest(built) == _read_digest(written)",
                "is_unchanged = False",
            ),
        ),
    ),
    Mutant(
        "cache-drops-what-is-read",
        "10, data loss: a ModelCache drops a claim under a running service",
        _CACHE,
        (
            Change(
                "function.weights.consumers",
                "_may_read",
                "not consumer.uri or (consumer.uri != current_uri and parse_claim(consumer.uri) in claims)",
                "False",
            ),
            Change("function.weights.consumers", "may_delete_weights", "if named_by:", "if False:"),
        ),
    ),
    Mutant(
        "planned-for-served",
        "10, data loss: a ModelCache takes the planned directory of a placement for the one its service uses",
        ("create_cache", "create_reader", "edit_model", "edit_model"),
        (
            Change(
                "function.weights.consumers",
                "_find_uri",
                "    if placement.service.applied_uri:\n",
                "    return placement.weights.planned_uri\n    if placement.service.applied_uri:\n",
            ),
        ),
    ),
    Mutant(
        "quantity-without-bound",
        "10: `vram: 1e999` passes; what is derived from it overflows",
        ("create_deployment", "inflate_model", "create_deployment", "create_deployment"),
        (Change("function.api.values", "_parse_quantity", "parsed > quantity.MAX", "False"),),
    ),
    Mutant(
        "composite-without-its-placements",
        "10 and decision 9: a stale read of a deployment loses its placements",
        (*_SERVE, "wipe_references", "edit_deployment"),
        (
            Change(
                "function.remote.adoption",
                "find_orphan_placements",
                "    orphans: dict[str, Manifest] = {}\n",
                "    return {}\n    orphans: dict[str, Manifest] = {}\n",
            ),
        ),
    ),
    Mutant(
        "composite-without-its-objects",
        "13: a placement that is read without its references loses its service's Object",
        (*_SERVE, "wipe_references", "wipe_references", "edit_model"),
        (
            Change(
                "function.composers.model_placement",
                "require",
                "    required |= requirements.require_labelled_resources(call)\n",
            ),
        ),
    ),
    Mutant(
        "served-unadmitted",
        "13: a placement written by hand that does not fit is served",
        ("create_deployment", "place_by_hand", "hoard"),
        (
            Change(
                "function.capacity.ledger",
                "_grant_in_turn",
                "if granted := claim.limit(plan.limit(key, fitting, left.count_fitting(fitting))):",
                "if granted := request:",
            ),
        ),
    ),
    Mutant(
        "forged-owner",
        "13: a placement of another namespace with a forged owner is composed",
        (*_SERVE, "forge_owner"),
        (
            Change(
                "function.remote.adoption", "find_orphan_placements", "        and placement.namespace == namespace\n"
            ),
            Change(
                "function.composers.scopes",
                "find_own_scope",
                "requirements.require_placements(deployment.namespace, deployment=deployment.name)",
                'requirements.require_placements("", deployment=deployment.name)',
            ),
        ),
    ),
    Mutant(
        "freed-before-it-is-let-go",
        "13: what is not admitted is executed: GPUs are granted while a service still has them",
        ("create_on_claim", "reshape_model+crowd"),
        (
            Change(
                "function.capacity.ledger",
                "remaining_grant",
                "(placement.effective_request, placement.service.allocated)",
                "(placement.effective_request,)",
            ),
            Change("function.capacity.ledger", "_find_allocated", "placement.service.allocated or (", "("),
        ),
    ),
    Mutant(
        "quota-by-name-only",
        "13, section 4: what is beyond the quota of its namespace is composed",
        (*_SERVE, "place_by_hand", "place_by_hand"),
        (
            Change(
                "function.parts.admission", "_check_admission", "if may_exceed(placement, limits):", "if not placement:"
            ),
        ),
    ),
    Mutant(
        "cordon-withdraws",
        "15: an admission is withdrawn as a node is cordoned",
        ("show_nodes", *_SERVE, "+".join(["cordon_a_node"] * 3)),
        (
            Change(
                "function.capacity.ledger",
                "_is_grant_of",
                "grant.share.gpus_per_node > 0",
                "grant.share.gpus_per_node > 0 and empty_pool(pool).count_fitting(grant.share) >= grant.share.replicas",
            ),
            Change(
                "function.capacity.ledger",
                "_collect_holdings",
                "and not is_granted:",
                "and not is_granted and empty_pool(pool).count_fitting(share) >= share.replicas:",
            ),
        ),
    ),
    Mutant(
        "drained-before-replaced",
        "30: a placement is dropped as its environment is drained, before its replacement is Ready",
        (*_SERVE, "drain", "drain"),
        (
            Change(
                "function.scheduling.scheduler",
                "schedule",
                "retained, kept, assignments, ready, max(0, desired - ready))",
                "retained, kept, assignments, ready, 0)",
            ),
        ),
    ),
    Mutant(
        "rolls-past-a-failed-environment",
        "30: a rollout goes on although an environment that has changed is not Ready",
        ("create_one_by_one", "use_bad_image", "edit_model"),
        (
            Change(
                "function.scheduling.turns",
                "sort_turns",
                "if rollout.paused or changing or outdated",
                "if rollout.paused or outdated",
            ),
        ),
    ),
    Mutant(
        "believes-ready-of-old-pods",
        "30: a rollout goes on although the new pods of a service on one node do not start",
        ("create_one_by_one", "use_bad_image", "edit_model"),
        (
            Change(
                "function.scheduling.turns",
                "_has_arrived",
                "return placement.ready and not placement.rollout.update",
                "return placement.ready",
            ),
        ),
    ),
    Mutant(
        "cordon-moves",
        "30: a NoSchedule taint moves what runs",
        (*_SERVE, "cordon", "cordon"),
        (Change("function.scheduling.scheduler", "_is_still_valid", "{NO_EXECUTE}", '{NO_EXECUTE, "NoSchedule"}'),),
    ),
    Mutant(
        "moves-for-money",
        "30: what runs moves to a pool that has become cheaper",
        (*_SERVE, "prefer_cheapest", "reprice", "reprice"),
        (
            Change(
                "function.scheduling.scheduler",
                "schedule",
                "    staying = [p for p in retained.kept if p not in stranded][:desired]\n",
                "    staying = [] if deployment.prefer == 'Cheapest' else [*retained.kept[:desired]]\n",
            ),
        ),
    ),
    Mutant(
        "moved-counts-twice",
        "30: a placement that moved to another environment still counts on the one before",
        (*_SERVE, "drain", "drain", "place_by_hand"),
        (
            Change(
                "function.capacity.ledger",
                "admit_placements",
                "if grant.uid in by_uid or grant.uid in moved]",
                "if grant]",
            ),
        ),
    ),
    Mutant(
        "messages-without-bound",
        "13: messages without bound",
        ("break_model",),
        (Change("function.status.conditions", "complete", "truncate_middle(c.message)", "c.message"),),
    ),
    Mutant(
        "secret-written-back",
        "13: no credentials leak",
        (*_SERVE, "break_model", "break_model", "delete_environment"),
        (Change("function.remote.object_writer", "_desired_spec", 'if key not in {"data", "stringData"}', ""),),
    ),
    Mutant(
        "users-claim-is-owned",
        "13: a user's claims are observed only",
        _SERVE,
        (Change("function.remote.object_writer", "ObjectWriter.compose", "list(policy.value)", '["*"]'),),
    ),
    Mutant(
        "order-of-a-list",
        "13: same state, same bytes",
        _SERVE,
        (
            Change(
                "function.scheduling.scheduler",
                "schedule",
                'sorted((e for e in environments if not e.deleting), key=attrgetter("name"))',
                "[e for e in environments if not e.deleting]",
            ),
        ),
    ),
    Mutant(
        "grows-in-another-shape",
        "25, H1: a service of the earlier shape gets the replicas that were granted for the next one",
        ("reshape_and_scale",),
        (Change("function.serving.reconcile", "_limit_replicas", "allowed if has_shape else 0", "allowed"),),
        tight=True,
    ),
    Mutant(
        "waiting-blocks-growth",
        "25, H2: a placement that only waits takes the room for which a deployment asks that serves",
        ("place_beyond_room", "scale_up", "scale_up"),
        (
            Change(
                "function.capacity.ledger",
                "CapacityView.free_capacity",
                "if not environment.uid:",
                "if not environment.uid or environment.name in self._own:",
            ),
        ),
        tight=True,
    ),
    Mutant(
        "renamed-pool-is-free",
        "25, M1: a pool that has another name is granted although services run on its nodes (42)",
        ("rename_pool+place_by_hand", "create_deployment"),
        (
            Change(
                "function.api.pools_in_use",
                "find_conflict",
                "if named and named.is_declared_as(pool):",
                "if named is None or named.is_declared_as(pool):",
            ),
        ),
        tight=True,
    ),
    Mutant(
        "stopped-by-a-lowered-limit",
        "41, H1: a service that was stopped for its new pods does not return under a lowered limit",
        ("replace_when_full", "lower_limits", "edit_model", "edit_model"),
        (
            Change(
                "function.serving.reconcile",
                "_count_allocated",
                "min(allocated.replicas, max(0, placement.replicas)) if allocated and is_stopped else 0",
                "0",
            ),
        ),
        tight=True,
    ),
    Mutant(
        "config-goes-first",
        "41, E1: a ClusterProviderConfig goes before the last Object of its cluster, and services stay there",
        (
            "slow_deletions",
            "create_deployment",
            "create_on_claim",
            "drain",
            "drain+delete_environment",
            "create_environment",
        ),
        (
            Change(
                "function.composers.model_deployment",
                "compose",
                "    composed |= _compose_provider_usages(call, scheduling)\n",
            ),
        ),
    ),
    Mutant(
        "changed-label-decides",
        "41, H2: what is composed goes with a changed label while an input is invalid",
        (*_SERVE, "relabel_unsettled", "relabel_broken"),
        (Change("function.remote.adoption", "is_own", _IS_OWN, _HAS_LABEL),),
    ),
    Mutant(
        "stripped-pull-secret",
        "41, F1: a copy of a pull Secret goes with its label while an input is invalid",
        ("create_deployment+pull_with_secret", "create_deployment+pull_with_secret", "relabel_unsettled"),
        (Change("function.remote.adoption", "is_own", _IS_OWN, f'{_IS_OWN} and not name.startswith("pull-")'),),
    ),
    Mutant(
        "nothing-is-carried-over",
        "42: what a composer forgets is deleted",
        (*_SERVE, "break_spec", "mistype_settings", "break_spec"),
        (
            Change(
                "function.remote.object_writer",
                "keep_undropped",
                "{**composed, **carry_over(staying)} if staying else {**composed}",
                "{**composed}",
            ),
        ),
    ),
    Mutant(
        "kind-without-a-row",
        "42: a composed kind that the table of kinds lacks is not recognised, and nobody keeps it",
        (*_SERVE, "break_spec", "mistype_settings", "break_spec"),
        (
            Change(
                "function.remote.adoption",
                "is_own",
                f"    if {_IS_OWN}:",
                f"    if text(manifest, 'kind') == 'ModelPlacement':\n        return False\n    if {_IS_OWN}:",
            ),
        ),
    ),
    Mutant(
        "dropped-without-a-reason",
        "42: something goes, and nobody says why",
        _SERVE,
        (Change("function.weights.reconcile", "_delete_in_two_steps", "Drop(key, why)", "Drop(key, '')"),),
        crashes=True,
    ),
    Mutant(
        "label-on-a-slice",
        "41, M1: a changed label on a Service or EndpointSlice interrupts requests",
        ("create_service", "relabel_many"),
        (
            Change(
                "function.remote.adoption",
                "is_own",
                _IS_OWN,
                f'(({_HAS_LABEL}) or not name.startswith("gateway-")) and {_IS_OWN}',
            ),
        ),
        routed=True,
    ),
    Mutant(
        "draining-never-serves-again",
        "41, M2: requests find nothing although a placement that drains is Ready",
        ("drain", "shrink_deployment+shrink_deployment", "delete_environment", "serve_deployment+create_service"),
        (
            Change(
                "function.traffic.endpoints",
                "plan_traffic",
                "if not any(_has_requests_for(service, p, sites, obstacles) for p in ordered):",
                "if not ordered:",
            ),
        ),
        routed=True,
    ),
    Mutant(
        "named-before-it-is-there",
        "29: a route names an endpoint before its Service and EndpointSlice are observed",
        ("create_service", "edit_service"),
        (
            Change(
                "function.traffic.endpoints",
                "_may_name",
                "return site.has_local_resources and (site.in_route or clock.has_settled(entered_at))",
                "return True",
            ),
        ),
        routed=True,
    ),
    Mutant(
        "deleted-while-listed",
        "29: a deployment deletes a placement that a ModelService lists",
        ("shrink_deployment", "grow_deployment"),
        (
            Change(
                "function.scheduling.scheduler",
                "delay_deletion_while_serving",
                "placement.name in s.placements or s.unknown or not placement.draining",
                "s.unknown or not placement.draining",
            ),
        ),
        routed=True,
    ),
    Mutant(
        "last-one-withdrawn",
        "29: an unreachable cluster is withdrawn although no other endpoint can serve",
        ("lose_all_clusters",),
        (
            Change(
                "function.traffic.shares",
                "choose_placements",
                "if reachable and service.withdraws_unreachable:",
                "if service.withdraws_unreachable:",
            ),
        ),
        routed=True,
    ),
    Mutant(
        "dropped-before-it-is-forgotten",
        "29: what leads to an endpoint is deleted before the gateways have applied a route without it",
        ("lose_all_pods",),
        (Change("function.traffic.endpoints", "_withdraw", "plan.clock.has_settled(since)", "site.withdrawn"),),
        routed=True,
    ),
)


def named(name: str) -> Mutant:
    """Return a mutant by its name."""
    return next(mutant for mutant in MUTANTS if mutant.name == name)
