"""What must hold in every cluster, whatever happens in it. The harness checks every call besides: see there."""

from __future__ import annotations

import os
from dataclasses import replace
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from scenarios import Job, Play, Scenario, Step, Tenant, able, done, jobs, look_again, scenarios

from usher.core import events as e
from usher.testing.harness import Harness

EXAMPLES = int(os.environ.get("USHER_EXAMPLES", "0"))
"""More of them, and other ones each time, where somebody asks for it."""


def examples(count: int) -> settings:
    return settings(max_examples=EXAMPLES or count, deadline=None, derandomize=not EXAMPLES)


def check_settled_after_every_step(scenario: Scenario) -> None:
    play = Play(scenario)
    for step in scenario.steps:
        play.step(step)
        before = done(play.harness)
        look_again(play.harness)
        assert done(play.harness) == before


@examples(100)
@given(scenarios(gpus=0))
def test_looking_at_everything_again_changes_nothing(scenario: Scenario) -> None:
    """Whatever should be tried again was woken: a settled state neither starts nor evicts anybody."""
    check_settled_after_every_step(scenario)


@examples(60)
@given(scenarios(share="koordinator"))
def test_looking_again_changes_nothing_with_two_resources(scenario: Scenario) -> None:
    check_settled_after_every_step(scenario)


@examples(60)
@given(scenarios())
def test_everybody_who_can_fit_has_a_turn(scenario: Scenario) -> None:
    play = Play(scenario).play()

    _let_everybody_finish(play)

    assert able(play) == []
    assert play.nominated == []


@examples(60)
@given(scenarios(lasting=True), st.integers(0, 10))
def test_units_that_stay_are_evicted_a_bounded_number_of_times_and_then_left_alone(
    scenario: Scenario, hours: int
) -> None:
    """No cycle of evictions, no ping-pong: at rest, time alone evicts nobody."""
    static = replace(scenario, steps=tuple(_lasting(step) for step in scenario.steps if step.what == "submit"))
    play = Play(static).play()
    count = len(play.engine.world.units)
    assert len(play.evicted_for) <= count * count + count

    before = done(play)
    for _ in range(5):
        play.send()
        play.advance(hours * 3600)
    assert done(play) == before


@examples(60)
@given(scenarios(rigid=True, plain=True, lasting=True, gpus=0), st.lists(jobs(rigid=True), min_size=1, max_size=6))
def test_a_tenants_own_backlog_never_costs_it_what_it_runs(scenario: Scenario, more: list[Job]) -> None:
    play = Play(scenario)
    play.play()
    backlog = Step("submit", jobs=tuple(replace(job, tenant=0) for job in more))
    before = len(play.harness.evicted_for)

    play.step(backlog)

    lost = [key for key, cause, _ in play.harness.evicted_for[before:] if cause == "Reclaimed" and key[0] == "a"]
    assert lost == []


@examples(60)
@given(scenarios(), st.integers(0, 1000))
def test_the_order_of_objects_in_a_batch_decides_nothing(scenario: Scenario, seed: int) -> None:
    def played(shuffled: bool) -> Harness:
        play = Harness(share=scenario.share, settings=scenario.settings, cpu=scenario.cpu, gpu=scenario.gpu)
        objects = [each for tenant in scenario.tenants for each in tenant.objects()]
        batch: list[e.Event] = [e.QuotaChanged(quota) for quota in scenario.parents]
        batch += play._events(objects)
        number = 0
        for step in scenario.steps:
            for job in step.jobs:
                number += 1
                batch.append(e.UnitChanged(replace(job.unit(scenario.tenants, number), seq=number)))
        if shuffled:
            Random(seed).shuffle(batch)
        play.send(*batch)
        return play

    one, other = played(shuffled=False), played(shuffled=True)

    assert one.running == other.running
    assert one.admissions == other.admissions
    assert one.evicted_for == other.evicted_for
    for key in one.running:
        assert one.unit(key).grants == other.unit(key).grants


@examples(60)
@given(scenarios(), st.integers(1, 4), st.integers(0, 3))
def test_the_idle_min_of_a_quota_that_does_not_lend_is_there_at_once(scenario: Scenario, cpu: int, more: int) -> None:
    keeper = Tenant("k", min=min(cpu + more, 4), lends=False)
    others = tuple(replace(tenant, lends=True) for tenant in scenario.tenants)
    play = Play(replace(scenario, tenants=others))
    play.harness.apply(*keeper.objects())
    for step in scenario.steps:
        play.step(step)
    before = list(play.harness.evicted_for)

    play.harness.submit(Job(0, cpu=cpu).unit([keeper], 99))

    assert "k/99" in play.harness.running
    assert play.harness.evicted_for == before


@examples(60)
@given(scenarios(), st.integers(0, 1000))
def test_outcomes_that_come_late_in_any_order_and_twice_harm_nobody(scenario: Scenario, seed: int) -> None:
    order = Random(seed)
    play = Play(scenario)
    play.harness.slow = True
    for step in scenario.steps:
        play.step(step)
        play.harness.deliver(order, most=order.randint(0, 4), twice=order.random() < 0.3)
    play.harness.slow = False
    for _ in range(50):
        play.harness.deliver()
    _let_everybody_finish(play.harness)

    assert able(play.harness) == []
    assert play.harness.nominated == []


def _let_everybody_finish(play: Harness) -> None:
    for _ in range(300):
        if not play.running:
            play.advance(5000)
        if not play.running:
            return
        play.finish(play.running[0])
    raise AssertionError("they come back again and again")


def _lasting(step: Step) -> Step:
    return replace(step, jobs=tuple(replace(job, max_s=None) for job in step.jobs))
