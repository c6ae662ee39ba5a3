"""Sends the same random packets through the same random flows of two switches, and compares what comes out.

Arguments: the switches' OpenFlow addresses (first Millrace's, then Open vSwitch's), Open vSwitch's control socket, a seed, and the
number of tables of flows. The ports' other ends are the interfaces m1 to m3 and o1 to o3 of this namespace.
"""

import random
import select
import socket
import struct
import subprocess
import sys
import time
from collections import Counter

MILLRACE, OVS, CONTROL = sys.argv[1:4]
SEED, ROUNDS = int(sys.argv[4]), int(sys.argv[5])
PACKETS = 40
# A busy machine may lose packets, and Open vSwitch's data path follows a change of flows some time later.
ATTEMPTS = 6
# Seconds without a frame after which no more are expected: if both switches have sent as many, and if not.
QUIET = (0.2, 3)

# Of packet(7).
SOL_PACKET, PACKET_AUXDATA, PACKET_OUTGOING, TP_STATUS_VLAN_VALID = 263, 8, 4, 1 << 4

one_of = random.choice
random.seed(SEED)


def open_socket(interface):
    port = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    port.bind((interface, 0))
    port.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
    port.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
    return port


def receive(port):
    """Returns a frame with its VLAN tag, which the kernel takes off; nothing for one that was sent here."""
    data, ancillary, _, address = port.recvmsg(4096, 256)
    if address[2] == PACKET_OUTGOING:
        return None
    for level, kind, content in ancillary:
        if (level, kind) == (SOL_PACKET, PACKET_AUXDATA):
            status, _, _, _, _, tci, tpid = struct.unpack("IIIHHHH", content[:20])
            if status & TP_STATUS_VLAN_VALID:
                data = data[:12] + struct.pack("!HH", tpid or 0x8100, tci) + data[12:]
    return data


def checksum(data):
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def mac():
    return bytes([2, 0, 0, 0, 0, one_of([1, 2, 3])])


def ipv4_address():
    return bytes([10, 0, one_of([0, 1]), one_of([1, 2])])


def ipv6_address():
    return bytes([0xFD] + [0] * 14 + [one_of([1, 2])])


class Ip:
    """A header of IPv4 or IPv6, and what it makes of a transport header and payload."""

    def __init__(self, version):
        self.version, self.ttl = version, one_of([1, 2, 64])
        address = ipv4_address if version == 4 else ipv6_address
        self.source, self.destination = address(), address()

    def around(self, protocol, body, at=None):
        """Returns EtherType, header and body; the checksum at an offset of the body covers the addresses, too."""
        if at is not None:
            length = struct.pack("!I", len(body)) + bytes([0, 0, 0, protocol])
            pseudo = self.source + self.destination + length
            body = body[:at] + struct.pack("!H", checksum(pseudo + body) or 0xFFFF) + body[at + 2 :]
        service = one_of([0, 0x28, 0x29, 3])
        if self.version == 6:
            first = 6 << 28 | service << 20 | one_of([0, 9])
            header = struct.pack("!IHBB", first, len(body), protocol, self.ttl)
            return b"\x86\xdd" + header + self.source + self.destination + body
        header = struct.pack("!BBHHHBBH", 0x45, service, 20 + len(body), 1, 0, self.ttl, protocol, 0)
        header += self.source + self.destination
        header = header[:10] + struct.pack("!H", checksum(header)) + header[12:]
        return b"\x08\0" + header + body


def packet(number):
    tags = [struct.pack("!HH", 0x8100, one_of([5, 6, 7])) for _ in range(one_of([0, 1]))]
    payload = struct.pack("!I", number) + b"x" * one_of([6, 18, 30])
    ports = struct.pack("!HH", one_of([80, 443, 53]), one_of([80, 443, 53]))
    udp = ports + struct.pack("!HH", 8 + len(payload), 0) + payload
    echo = lambda kind: struct.pack("!BBHI", one_of(kind), one_of([0, 1]), 0, 7) + payload
    # No later fragments: Open vSwitch 3.1 changes their payload where a first one has a checksum.
    kind = one_of(["tcp", "udp", "icmp", "arp", "udp6", "icmp6", "neighbour", "mpls", "sctp", "other"])
    if kind == "tcp":
        body = Ip(4).around(6, ports + struct.pack("!IIBBHHH", 1, 2, 0x50, 0x10, 100, 0, 0) + payload, at=16)
    elif kind == "udp":
        body = Ip(4).around(17, udp, at=6)
    elif kind == "icmp":
        message = echo([0, 8])
        body = Ip(4).around(1, message[:2] + struct.pack("!H", checksum(message)) + message[4:])
    elif kind == "udp6":
        body = Ip(6).around(17, udp, at=6)
    elif kind == "icmp6":
        body = Ip(6).around(58, echo([128, 129]), at=2)
    elif kind == "neighbour":
        message = one_of([135, 136])
        option = bytes([message - 134, 1]) + mac()
        body = Ip(6).around(58, struct.pack("!BBHI", message, 0, 0, 0) + ipv6_address() + option, at=2)
    elif kind == "arp":
        head = struct.pack("!HHBBH", 1, 0x800, 6, 4, one_of([1, 2]))
        body = b"\x08\x06" + head + mac() + ipv4_address() + mac() + ipv4_address() + struct.pack("!I", number)
    elif kind == "mpls":
        label = one_of([16, 17]) << 12 | one_of([0, 5]) << 9 | 1 << 8 | one_of([1, 2, 64])
        body = b"\x88\x47" + struct.pack("!I", label) + Ip(4).around(17, udp, at=6)[2:]
    elif kind == "sctp":
        body = Ip(4).around(132, ports + struct.pack("!II", 1, 2) + payload)
    else:
        body = b"\x88\xb5" + payload + b"z" * 30
    return (mac() + mac() + b"".join(tags) + body).ljust(60, b"\0")


MATCHES = {
    "": [""],
    "ip": ["", "nw_src=10.0.0.0/24", "nw_dst=10.0.1.2", "ip_dscp=10", "nw_ecn=1", "nw_proto=17"],
    "tcp": ["", "tp_dst=80", "tp_src=443", "nw_src=10.0.0.1"],
    "udp": ["", "tp_dst=53", "tp_src=80"],
    "icmp": ["", "icmp_type=8", "icmp_type=0,icmp_code=1"],
    "arp": ["", "arp_op=1", "arp_spa=10.0.0.0/24", "arp_tpa=10.0.1.1", "arp_sha=02:00:00:00:00:01"],
    "ipv6": ["", "ipv6_label=9", "ipv6_dst=fd00::2", "nw_ecn=1", "ipv6_src=fd00::/64"],
    "udp6": ["", "tp_dst=443", "ipv6_src=fd00::1"],
    "icmp6": [
        "icmpv6_type=128",
        "icmpv6_type=135,nd_target=fd00::1",
        "icmpv6_type=135,nd_sll=02:00:00:00:00:01",
        "icmpv6_type=136,nd_tll=02:00:00:00:00:02",
    ],
    "mpls": ["", "mpls_label=16", "mpls_tc=5", "mpls_bos=1"],
    "sctp": ["", "tp_dst=80"],
}

# Open vSwitch gives a tag that it pushes the priority 0, Millrace that of the tag that was there, as the specification says:
# no packet here has another priority before.
CHANGES = {
    "": ["set_field:02:00:00:00:00:03->eth_dst", "set_field:02:00:00:00:00:01->eth_src"],
    "tagged": ["pop_vlan", "set_field:4102->vlan_vid"],
    "ip": ["set_field:10.0.1.9->ip_dst", "set_field:10.0.0.9->ip_src", "dec_ttl", "set_field:12->ip_dscp", "mod_nw_ttl:9"],
    "tcp": ["set_field:8080->tcp_dst"],
    "udp": ["set_field:99->udp_src"],
    "icmp": ["set_field:3->icmp_code"],
    "ipv6": ["set_field:fd00::9->ipv6_dst", "set_field:5->ipv6_label", "dec_ttl", "set_field:2->nw_ecn"],
    "udp6": ["set_field:99->udp_dst"],
    "sctp": ["set_field:99->sctp_src", "set_field:5060->sctp_dst"],
    "arp": ["set_field:2->arp_op", "set_field:10.0.0.7->arp_spa", "set_field:02:00:00:00:00:07->arp_tha"],
    "mpls": ["set_field:77->mpls_label", "set_field:3->mpls_tc", "dec_mpls_ttl"],
}
OVER = {"tcp": "ip", "udp": "ip", "icmp": "ip", "sctp": "ip", "udp6": "ipv6", "icmp6": "ipv6"}


def output():
    return f"output:{one_of([1, 2, 3])}"


def flow(table):
    kind, match = one_of(list(MATCHES)), []
    if random.random() < 0.3:
        match.append(f"in_port={one_of([1, 2, 3])}")
    if random.random() < 0.2:
        match.append(f"dl_dst=02:00:00:00:00:0{one_of([1, 2, 3])}")
    if random.random() < 0.2:
        match.append("dl_src=02:00:00:00:00:02/ff:ff:ff:ff:ff:0f")
    tagged = random.random() < 0.2
    if tagged:
        match.append(one_of(["dl_vlan=5", "dl_vlan=6", "vlan_tci=0x1000/0x1000"]))
    elif random.random() < 0.2:
        match.append("vlan_tci=0x0000/0x1fff")
    match += [part for part in (kind, one_of(MATCHES[kind])) if part]
    if table and random.random() < 0.2:
        match.append(f"metadata=0x{one_of([1, 2])}/0x3")
    possible = CHANGES[""] + CHANGES.get(kind, []) + CHANGES.get(OVER.get(kind), [])
    possible += CHANGES["tagged"] if tagged else []
    actions = []
    # Open vSwitch has no more than two tags.
    push = ["push_vlan:0x8100,set_field:4103->vlan_vid"] if table == 0 else []
    for _ in range(one_of([0, 1, 1, 2, 3])):
        change = one_of(possible + [output(), output()] + push)
        actions.append(change)
        push = [] if change in push else push
        if change == "pop_vlan":
            possible = [other for other in possible if other not in CHANGES["tagged"]]
    if random.random() < 0.25:
        actions.append(f"write_actions({one_of(['', 'set_field:02:00:00:00:00:02->eth_dst,'])}{output()})")
    elif random.random() < 0.1:
        actions.append("clear_actions")
    if table < 3 and random.random() < 0.6:
        if random.random() < 0.4:
            actions.append(f"write_metadata:0x{one_of([1, 2])}/0x{one_of(['3', 'ff'])}")
        actions.append(f"goto_table:{random.randint(table + 1, 3)}")
    head = ",".join([f"table={table}", f"priority={random.randint(1, 60000)}"] + match)
    return f"{head},actions={','.join(actions) or 'drop'}"


def last(table):
    """Returns the flow of packets that no other one of the table matches."""
    actions = one_of(["drop", "output:2", f"goto_table:{table + 1}" if table < 3 else "output:1"])
    return f"table={table},priority=0,actions={actions}"


def ofctl(command, switch, flow):
    done = subprocess.run(["ovs-ofctl", "-O", "OpenFlow13", command, switch] + flow, capture_output=True, text=True)
    said = done.stdout + done.stderr
    return "" if done.returncode == 0 and "ERROR" not in said else said


def settle():
    """Lets Open vSwitch's data path forget what it knows of former flows."""
    subprocess.run(["ovs-appctl", "-t", CONTROL, "revalidator/purge"], check=True, capture_output=True)
    time.sleep(0.3)


def pass_all(packets):
    """Sends packets into both switches; returns the frames of each port of each, sorted."""
    came = [[[] for _ in range(3)] for _ in range(2)]
    for place, frame in packets:
        for switch in PORTS:
            switch[place].send(frame)
    everything = PORTS[0] + PORTS[1]
    while True:
        counts = [sum(map(len, ports)) for ports in came]
        ready, _, _ = select.select(everything, [], [], QUIET[0] if counts[0] == counts[1] else QUIET[1])
        if not ready:
            return [[sorted(frames) for frames in ports] for ports in came]
        for port in ready:
            frame = receive(port)
            if frame is not None:
                switch = port not in PORTS[0]
                came[switch][PORTS[switch].index(port)].append(frame.hex())


PORTS = [[open_socket(f"{switch}{number}") for number in (1, 2, 3)] for switch in "mo"]
frames = different = 0
for number in range(ROUNDS):
    flows = [one for table in range(4) for one in [flow(table) for _ in range(one_of([2, 4, 6]))] + [last(table)]]
    for switch in (MILLRACE, OVS):
        ofctl("del-flows", switch, [])
    for one in flows:
        refused = [ofctl("add-flow", switch, [one]) for switch in (MILLRACE, OVS)]
        if bool(refused[0]) != bool(refused[1]):
            different += 1
            print(f"seed {SEED}, table {number}: {one}: Millrace: {refused[0]!r}, Open vSwitch: {refused[1]!r}")
    packets = [(random.randrange(3), packet(PACKETS * number + index)) for index in range(PACKETS)]
    for attempt in range(ATTEMPTS):
        settle()
        came = pass_all(packets)
        if came[0] == came[1]:
            break
        time.sleep(attempt)
    frames += sum(map(len, came[0]))
    if came[0] != came[1]:
        different += 1
        print(f"seed {SEED}, table {number}:", *flows, sep="\n  ")
        for port, (ours, theirs) in enumerate(zip(*came), 1):
            counts = Counter(ours), Counter(theirs)
            only = [list((counts[a] - counts[b]).elements()) for a, b in ((0, 1), (1, 0))]
            print(f"port {port}: only from Millrace {only[0]}, only from Open vSwitch {only[1]}")
print(f"compared: {frames} frames, {different} differences", flush=True)
