"""Lays flows along two switches, of which port 2 leads to the other one and port 1 to a host."""

from os_ken.base import app_manager
from os_ken.controller import ofp_event
from os_ken.controller.handler import CONFIG_DISPATCHER, MAIN_DISPATCHER, set_ev_cls
from os_ken.lib.packet import ethernet, packet
from os_ken.ofproto import ofproto_v1_3


class Chain(app_manager.OSKenApp):
    OFP_VERSIONS = [ofproto_v1_3.OFP_VERSION]

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.switches = {}

    @staticmethod
    def lay(switch, priority, match, port):
        proto, parser = switch.ofproto, switch.ofproto_parser
        actions = [parser.OFPActionOutput(port, proto.OFPCML_NO_BUFFER)]
        apply = parser.OFPInstructionActions(proto.OFPIT_APPLY_ACTIONS, actions)
        switch.send_msg(parser.OFPFlowMod(datapath=switch, priority=priority, match=match, instructions=[apply]))

    @set_ev_cls(ofp_event.EventOFPSwitchFeatures, CONFIG_DISPATCHER)
    def features(self, event):
        switch = event.msg.datapath
        proto, parser = switch.ofproto, switch.ofproto_parser
        self.switches[switch.id] = switch
        self.lay(switch, 0, parser.OFPMatch(), proto.OFPP_CONTROLLER)
        switch.send_msg(parser.OFPBarrierRequest(switch))

    @set_ev_cls(ofp_event.EventOFPBarrierReply, MAIN_DISPATCHER)
    def barrier(self, event):
        print("switch", event.msg.datapath.id, "is there", flush=True)

    @set_ev_cls(ofp_event.EventOFPPacketIn, MAIN_DISPATCHER)
    def packet_in(self, event):
        message = event.msg
        here = message.datapath
        parser = here.ofproto_parser
        header = packet.Packet(message.data).get_protocol(ethernet.ethernet)
        if message.match["in_port"] != 1:
            return
        for switch in self.switches.values():
            inwards, outwards = (1, 2) if switch.id == here.id else (2, 1)
            there = parser.OFPMatch(in_port=inwards, eth_src=header.src, eth_dst=header.dst)
            back = parser.OFPMatch(in_port=outwards, eth_src=header.dst, eth_dst=header.src)
            self.lay(switch, 10, there, outwards)
            self.lay(switch, 10, back, inwards)
        # The other switch must know its way before the packet is there.
        for switch in self.switches.values():
            if switch.id != here.id:
                actions = [parser.OFPActionOutput(1)]
                switch.send_msg(
                    parser.OFPPacketOut(
                        datapath=switch,
                        buffer_id=here.ofproto.OFP_NO_BUFFER,
                        in_port=2,
                        actions=actions,
                        data=message.data,
                    )
                )
