"""Asks a switch for packets whose time to live is over, and for no others; tells of each that it gets."""

from os_ken.base import app_manager
from os_ken.controller import ofp_event
from os_ken.controller.handler import CONFIG_DISPATCHER, MAIN_DISPATCHER, set_ev_cls
from os_ken.lib.packet import ipv4, packet
from os_ken.ofproto import ofproto_v1_3


class Asking(app_manager.OSKenApp):
    OFP_VERSIONS = [ofproto_v1_3.OFP_VERSION]

    @set_ev_cls(ofp_event.EventOFPSwitchFeatures, CONFIG_DISPATCHER)
    def features(self, event):
        switch = event.msg.datapath
        proto, parser = switch.ofproto, switch.ofproto_parser
        outputs = [
            (0, parser.OFPMatch(), [parser.OFPActionOutput(proto.OFPP_CONTROLLER, proto.OFPCML_NO_BUFFER)]),
            (7, parser.OFPMatch(eth_type=0x0800), [parser.OFPActionDecNwTtl(), parser.OFPActionOutput(2)]),
        ]
        for cookie, match, actions in outputs:
            apply = parser.OFPInstructionActions(proto.OFPIT_APPLY_ACTIONS, actions)
            flow = parser.OFPFlowMod(
                datapath=switch, cookie=cookie, priority=cookie, match=match, instructions=[apply]
            )
            switch.send_msg(flow)
        nothing = [0, 0]
        switch.send_msg(parser.OFPSetAsync(switch, [1 << proto.OFPR_INVALID_TTL, 0], nothing, nothing))
        switch.send_msg(parser.OFPGetAsyncRequest(switch))

    @set_ev_cls(ofp_event.EventOFPGetAsyncReply, MAIN_DISPATCHER)
    def wanted(self, event):
        print("wanted are", event.msg.packet_in_mask, flush=True)

    @set_ev_cls(ofp_event.EventOFPPacketIn, MAIN_DISPATCHER)
    def packet_in(self, event):
        message = event.msg
        ttl = packet.Packet(message.data).get_protocol(ipv4.ipv4).ttl
        in_port, length = message.match["in_port"], len(message.data)
        print(f"reason {message.reason}, cookie {message.cookie}, port {in_port}, ttl {ttl}, {length} bytes", flush=True)
