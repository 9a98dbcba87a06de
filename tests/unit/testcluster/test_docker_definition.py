"""What the Docker cluster makes of a definition: addresses, compose's file, accounting. No Docker engine is needed."""

from __future__ import annotations

import pytest
from tesched_testcluster.definition import ClusterDefinition, NodeGroup
from tesched_testcluster.docker import DockerCluster, compose_text
from tesched_testcluster.docker_image import FOLDER
from tesched_testcluster.docker_service import SERVICE_ADDRESSES, addresses, docker_definition
from tesched_testcluster.render import sacctmgr_commands

COMPOSE = (FOLDER / "compose.yaml").read_text()


def test_compose_gets_one_line_for_each_node() -> None:
    text = 'a\n  n1: {hostname: n1, at: "${NET}.11"}\n  n2: {hostname: n2, at: "${NET}.12"}\nb\n'
    definition = ClusterDefinition(groups=(NodeGroup(count=1), NodeGroup(count=1, prefix="big", first=7)))
    assert compose_text(text, {"n1": 11, "big7": 12}, definition) == (
        'a\n  n1: {hostname: n1, at: "${NET}.11"}\n  big7: {hostname: big7, at: "${NET}.12"}\nb\n'
    )


def test_compose_yaml_as_it_is_has_the_addresses_of_the_default_definition() -> None:
    definition = docker_definition()
    assert compose_text(COMPOSE, addresses(definition), definition) == COMPOSE
    for last in SERVICE_ADDRESSES.values():
        assert f'{{ipv4_address: "${{TESCHED_NET:-10.213.77}}.{last}"}}' in COMPOSE


def test_services_and_nodes_have_addresses_of_their_own() -> None:
    numbers = addresses(docker_definition(230))
    assert len(set(numbers.values())) == len(numbers)
    assert max(numbers.values()) < 248, "the last eight are for containers without a fixed address"


def test_more_nodes_than_addresses_are_refused() -> None:
    with pytest.raises(ValueError, match="addresses for 230 nodes, not for 231"):
        addresses(docker_definition(231))


def test_a_definition_without_accounting_is_refused() -> None:
    with pytest.raises(ValueError, match="needs accounting"):
        DockerCluster(ClusterDefinition())


def test_tesched_is_an_operator_and_the_others_are_not() -> None:
    calls = [call for call in sacctmgr_commands(docker_definition()) if "adminlevel=Operator" in call]
    assert calls == [("--immediate", "modify", "user", "tesched", "set", "adminlevel=Operator")]
