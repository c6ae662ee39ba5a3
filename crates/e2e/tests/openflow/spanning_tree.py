"""A learning switch in each of several switches, on the spanning tree that os-ken's library keeps of them."""

from os_ken.base import app_manager
from os_ken.controller import ofp_event
from os_ken.controller.handler import CONFIG_DISPATCHER, MAIN_DISPATCHER, set_ev_cls
from os_ken.lib import stplib
from os_ken.lib.dpid import str_to_dpid
from os_ken.lib.packet import ethernet, packet
from os_ken.ofproto import ofproto_v1_3

LEARNED = 1


def bridge(priority):
    """Seconds: long enough for a busy machine, and shorter than the defaults."""
    return {"bridge": {"priority": priority, "hello_time": 1, "fwd_delay": 4, "max_age": 20}}


class SpanningTree(app_manager.OSKenApp):
    OFP_VERSIONS = [ofproto_v1_3.OFP_VERSION]
    _CONTEXTS = {"stplib": stplib.Stp}

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.ports = {}
        # The first one is to be the root.
        config = {str_to_dpid(f"{number:016x}"): bridge(number << 12) for number in (1, 2, 3)}
        kwargs["stplib"].set_config(config)

    @staticmethod
    def lay(switch, priority, match, port):
        proto, parser = switch.ofproto, switch.ofproto_parser
        actions = [parser.OFPActionOutput(port, proto.OFPCML_NO_BUFFER)]
        apply = parser.OFPInstructionActions(proto.OFPIT_APPLY_ACTIONS, actions)
        switch.send_msg(parser.OFPFlowMod(datapath=switch, priority=priority, match=match, instructions=[apply]))

    @set_ev_cls(ofp_event.EventOFPSwitchFeatures, CONFIG_DISPATCHER)
    def features(self, event):
        switch = event.msg.datapath
        self.lay(switch, 0, switch.ofproto_parser.OFPMatch(), switch.ofproto.OFPP_CONTROLLER)

    @set_ev_cls(stplib.EventTopologyChange, MAIN_DISPATCHER)
    def topology_change(self, event):
        switch = event.dp
        proto, parser = switch.ofproto, switch.ofproto_parser
        for address in self.ports.pop(switch.id, {}):
            switch.send_msg(
                parser.OFPFlowMod(
                    datapath=switch,
                    command=proto.OFPFC_DELETE,
                    out_port=proto.OFPP_ANY,
                    out_group=proto.OFPG_ANY,
                    priority=LEARNED,
                    match=parser.OFPMatch(eth_dst=address),
                )
            )

    @set_ev_cls(stplib.EventPacketIn, MAIN_DISPATCHER)
    def packet_in(self, event):
        message = event.msg
        switch, in_port = message.datapath, message.match["in_port"]
        proto, parser = switch.ofproto, switch.ofproto_parser
        header = packet.Packet(message.data).get_protocol(ethernet.ethernet)
        ports = self.ports.setdefault(switch.id, {})
        ports[header.src] = in_port
        port = ports.get(header.dst, proto.OFPP_FLOOD)
        if port != proto.OFPP_FLOOD:
            self.lay(switch, LEARNED, parser.OFPMatch(in_port=in_port, eth_dst=header.dst), port)
        switch.send_msg(
            parser.OFPPacketOut(
                datapath=switch,
                buffer_id=proto.OFP_NO_BUFFER,
                in_port=in_port,
                actions=[parser.OFPActionOutput(port)],
                data=message.data,
            )
        )
