import pytest

from tests.host.export.fabrics import EVERYTHING, planned
from tests.host.steps.fabrics import FLAT, NONE, P2P, SCHEMES, SHARED, node_plan
from trackbed.fabric.plan.plan import NodePlan
from trackbed.fabric.plan.routes import PlannedRule
from trackbed.host.kinds import address, file, mtu, name, route, sysctl, up
from trackbed.host.kinds.registry import find_kind
from trackbed.host.setting import Setting
from trackbed.host.steps import NAMES, STEPS, WITH_FILES, iter_settings
from trackbed.host.steps.limits import compute_thresh3, count_neighbours


def test_a_step_has_the_name_of_its_module() -> None:
    assert tuple(step.STEP for step in STEPS) == NAMES


def test_steps_that_want_files_declare_it() -> None:
    settings = [setting for node in planned(spec=EVERYTHING).nodes for setting in iter_settings(node)]
    assert {setting.step for setting in settings if isinstance(setting.want, file.Want)} == WITH_FILES


@pytest.mark.parametrize("addressing", SCHEMES.values(), ids=SCHEMES)
def test_settings_come_in_the_order_of_their_steps(addressing: str) -> None:
    places = [NAMES.index(setting.step) for setting in iter_settings(node_plan(addressing))]
    assert places == sorted(places)


def test_only_the_named_steps_are_asked() -> None:
    assert {setting.step for setting in iter_settings(node_plan(P2P), {"routing"})} == {"routing"}


def test_a_port_is_recognised_by_all_that_the_fabric_knows() -> None:
    ports = '["0000:18:00.0", {mac: "b8:3f:d2:00:00:01", netdev: enp1s0}]'
    wants = [setting.want for setting in iter_settings(node_plan(P2P, ports), {"names"})]
    assert [want for want in wants if isinstance(want, name.Want)] == [
        name.Want("rail0", "0000:18:00.0", None, None),
        name.Want("rail1", None, "b8:3f:d2:00:00:01", "enp1s0"),
    ]


def test_router_advertisements_are_refused_before_the_port_comes_up() -> None:
    kinds = [_kind(setting) for setting in iter_settings(node_plan(P2P), {"addresses"}) if setting.rail == 0]
    assert kinds == ["accept_ra", "keep_addr_on_down", "mtu", "up", "address", "address"]


def test_rules_come_after_the_tables_they_lead_to_and_the_fence_last() -> None:
    wants = [setting.want for setting in iter_settings(node_plan(P2P), {"routing"})]
    rules = [want for want in wants if isinstance(want, PlannedRule)]
    assert wants[-len(rules) :] == rules
    assert [rule.priority for rule in rules] == [1000, 1000, 1001, 1001, 999, 999]
    assert [rule.unless_to is not None for rule in rules] == [False] * 4 + [True] * 2


def test_only_interfaces_of_rails_are_switched() -> None:
    keys = {
        want.key.split("/")[3]
        for setting in iter_settings(node_plan(P2P))
        if isinstance(want := setting.want, sysctl.Want) and want.key.startswith("net/")
    }
    assert keys == {"rail0", "rail1", "default"}


def test_arp_filter_is_set_only_where_rails_share_a_subnet() -> None:
    apart = node_plan(FLAT)
    first, second = apart.ports
    together = apart._replace(ports=(first, second._replace(v4=first.v4)))
    assert [_filters(apart), _filters(together)] == [0, 2]


def test_no_addresses_planned_means_no_routing() -> None:
    wants = [setting.want for setting in iter_settings(node_plan(NONE))]
    assert not [want for want in wants if isinstance(want, address.Want | route.Want | PlannedRule)]
    assert [type(want) for want in wants if isinstance(want, mtu.Want | up.Want)] == [
        mtu.Want,
        up.Want,
        mtu.Want,
        up.Want,
    ]


@pytest.mark.parametrize(
    ("addressing", "nodes", "count", "largest"),
    [
        pytest.param(P2P, 4, 4, 1024, id="point-to-point: the leaf and the pod, on two rails"),
        pytest.param(FLAT, 4, 2 * 4 * 16, 1024, id="flat: every port and pod"),
        pytest.param(SHARED, 4, 2 * (4 * 16 + 1), 1024, id="and the gateway"),
        pytest.param(FLAT, 1000, 2 * 1000 * 16, 65536, id="many nodes"),
    ],
)
def test_neighbour_tables_hold_twice_what_the_plan_can_bring(
    addressing: str, nodes: int, count: int, largest: int
) -> None:
    node = node_plan(addressing, nodes=nodes)
    values = {
        want.key.rpartition("/")[2]: int(want.value)
        for setting in iter_settings(node, {"limits"})
        if isinstance(want := setting.want, sysctl.Want) and "ipv4" in want.key
    }
    assert count_neighbours(node, 4) == count
    assert values == {"gc_thresh1": largest // 8, "gc_thresh2": largest // 2, "gc_thresh3": largest}


@pytest.mark.parametrize(("count", "size"), [(1, 1024), (512, 1024), (513, 2048), (8200, 32768)])
def test_a_table_is_a_power_of_two_and_never_below_the_kernels(count: int, size: int) -> None:
    assert compute_thresh3(count) == size


def _filters(node: NodePlan) -> int:
    return sum("arp_filter" in str(setting.want) for setting in iter_settings(node))


def _kind(setting: Setting) -> str:
    want = setting.want
    return want.key.rpartition("/")[2] if isinstance(want, sysctl.Want) else find_kind(want).name
