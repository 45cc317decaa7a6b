"""SONiC, configured by the tables of config_db.json.

render   leaf -> configuration
read     configuration -> settings of its ports
policy   configuration -> BGP neighbours without a policy
qos      the stock QoS maps, and Trackbed's
"""

from trackbed.switches.dialect import Dialect
from trackbed.switches.sonic import policy, read, render

_FIXES = {
    "no-port": "check --ports against the cabling and the port's lanes",
    "address": "config interface ip add {port} {address}",
    "gateway": "config interface ip add Vlan{vlan} {address}",
    "policy": "give its rows of BGP_NEIGHBOR_AF a route_map_in and a route_map_out, as `trackbed render switch` does",
    "vlan": "config vlan member add -u {vlan} {port}",
    "mtu": "config interface mtu {port} {mtu}",
    "class": "give DSCP_TO_TC_MAP {dscp} a class whose priority group is {priority}; stock maps do so for 3 and 4 only",
    "pfc-on": "set pfc_enable of PORT_QOS_MAP|{port} to {priority}, and map the priority to its own queue",
    "pfc-off": "take {priority} out of pfc_enable of PORT_QOS_MAP|{port}",
    "ecn-on": "give QUEUE|{port}|{priority} a wred_profile with ecn_all",
    "ecn-off": "give QUEUE|{port}|{priority} a wred_profile with ecn_none",
    "cnp": "give DSCP {cnp_dscp} a class of its own whose queue has a scheduler of type STRICT",
}

DIALECT = Dialect(
    name="sonic",
    suffix=".json",
    allows_concatenation=False,
    recognizes=lambda raw: raw.lstrip()[:1] == b"{",
    list_ports=render.list_ports,
    render=render.render,
    parse=read.parse,
    read_hostname=read.read_hostname,
    read_port=read.read_port,
    read_gateways=read.read_gateways,
    fixes=_FIXES,
    list_discarding_peers=policy.list_discarding_peers,
)
